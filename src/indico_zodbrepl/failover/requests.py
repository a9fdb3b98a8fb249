"""What somebody asks for, by command or page, and the plan that is made of it, here alone.

Facts are gathered and judged; nothing is changed.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable, Mapping

from ..backends import electing_of, engine_of, require
from ..cluster import Cluster
from ..cluster.commands import Commands
from ..cluster.installation import Installation
from ..errors import ExitCode, OperatorError
from . import (
    electing_facts,
    packing,
    rejoin_facts,
    restart_facts,
    seed_facts,
    store,
    survey,
)
from .engine_rejoin import gather_engine, plan_engine_rejoin
from .rejoin import plan_rejoin
from .restart import plan_restart
from .seed import plan_seed
from .steps import JsonValue, Plan, Refusal, Step
from .storage_rejoin import plan_storage_rejoin

INCIDENTAL = ("reason", "folder", "aside", "fingerprint", "detail")
"""Arguments of steps that say nothing of what is done: words, names of folders made of the time."""

OPTIONS: Mapping[str, tuple[str, ...]] = {"seed": ("source",), "pack": ("days",)}
"""Names of options, of the operations that have some."""


@dataclasses.dataclass(frozen=True)
class Request:
    """An operation that is asked for.

    Attributes:
        operation: a key of ``OPERATIONS``.
        target: a node; of a restart a node or an Indico instance; None: the planner chooses.
        reason: why, in the operator's words; may be empty.
        options: of a seed ``source``, the node to copy from; of a pack ``days``, a number.
    """

    operation: str
    target: str | None = None
    reason: str = ""
    options: Mapping[str, str] = dataclasses.field(default_factory=dict)


def prepare(cluster: Cluster, installation: Installation, request: Request) -> Plan | Refusal:
    """What would be done now, or why not.

    A Refusal of which all findings are fine: it is done already.

    Raises:
        OperatorError: exit 2, no such operation, node or option; exit 8, it is not for this
            backend, or another operation has not ended; what gathering the facts raises.
    """
    if request.operation not in OPERATIONS:
        raise OperatorError(f"no operation {request.operation!r}",
                            f"there are: {', '.join(OPERATIONS)}", exit_code=ExitCode.BAD_CONFIG)
    _refuse_unknown_options(request)
    require(cluster, request.operation)
    made = dataclasses.replace(request, reason=request.reason.strip())
    return OPERATIONS[request.operation](cluster, installation, made)


def digest(plan: Plan) -> str:
    """The same for two plans that would do the same and lose the same, whenever they were made.

    What was found besides, the reason, time limits and names made of the time don't count.
    """
    loss = plan.loss and (plan.loss.node, plan.loss.transactions, plan.loss.exact, plan.loss.after)
    told = [plan.operation, plan.target, plan.source, plan.epoch, loss,
            [_essence(step) for step in plan.steps]]
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:32]


def sealed(plan: Plan, history: str) -> str:
    """The digest of a plan that is good until another operation begins.

    Args:
        history: ``store.history`` before the plan was made.
    """
    return f"{digest(plan)}-{history}"


def refuse_changed(plan: Plan, expected: str) -> None:
    """Raise OperatorError (exit 8) when a plan is not the one with this digest; none fits all.

    Whether another operation has begun is ``store.refuse_since``'s to tell, see ``history_of``.
    """
    if expected and digest(plan) != expected.partition("-")[0]:
        raise OperatorError(
            "the situation has changed since the plan was shown",
            f"{plan.name} would do or lose something else now; nothing was changed",
            "look at the new plan, then decide again", ExitCode.REFUSED)


def _refuse_unknown_options(request: Request) -> None:
    known = OPTIONS.get(request.operation, ())
    unknown = sorted({*request.options} - {*known})
    if unknown:
        raise OperatorError(f"{request.operation} has no option {unknown[0]!r}",
                            f"there are: {', '.join(known)}" if known else "it has none",
                            exit_code=ExitCode.BAD_CONFIG)


def history_of(expected: str) -> str:
    """The history that a digest was sealed with; empty if it was not."""
    return expected.partition("-")[2]


def _essence(step: Step) -> JsonValue:
    arguments: dict[str, JsonValue] = {
        name: value for name, value in step.arguments.items() if name not in INCIDENTAL}
    return [step.action, step.subject, arguments, step.after_no_return, step.may_fail]


def _failover(cluster: Cluster, installation: Installation, request: Request) -> Plan | Refusal:
    return survey.survey_failover(cluster, installation, request.target, request.reason)


def _switchover(cluster: Cluster, installation: Installation, request: Request) -> Plan | Refusal:
    return survey.survey_switchover(cluster, installation, request.target, request.reason)


def _rejoin(cluster: Cluster, installation: Installation, request: Request) -> Plan | Refusal:
    store.refuse_open(cluster)
    name, reason, commands = _named(request), request.reason, Commands(cluster, installation.home)
    if electing_of(cluster) is not None:
        facts = electing_facts.gather(cluster, installation, name, pinging=False)
        return plan_storage_rejoin(facts, name, reason, commands)
    if engine_of(cluster) is not None:
        return plan_engine_rejoin(cluster, gather_engine(cluster, name), reason, commands)
    return plan_rejoin(cluster, rejoin_facts.gather(cluster, installation, name), reason, commands)


def _seed(cluster: Cluster, installation: Installation, request: Request) -> Plan | Refusal:
    store.refuse_open(cluster)
    facts = seed_facts.gather(cluster, installation, _named(request),
                              request.options.get("source") or None)
    return plan_seed(cluster, facts, request.reason, Commands(cluster, installation.home))


def _pack(cluster: Cluster, installation: Installation, request: Request) -> Plan | Refusal:
    store.refuse_open(cluster)
    return packing.prepare(cluster, installation, _days(request), request.reason)


def _restart(cluster: Cluster, installation: Installation, request: Request) -> Plan | Refusal:
    store.refuse_open(cluster)
    facts = restart_facts.gather(cluster, installation, _named(request))
    return plan_restart(cluster, facts, request.reason, Commands(cluster, installation.home))


def _named(request: Request) -> str:
    if request.target is None:
        raise OperatorError(f"{request.operation} of what is not said", "it needs a name",
                            exit_code=ExitCode.BAD_CONFIG)
    return request.target


def _days(request: Request) -> float:
    given = request.options.get("days", str(packing.DAYS))
    try:
        days = float(given)
    except ValueError:
        days = -1.0
    if not 0 <= days <= packing.MOST_DAYS:
        raise OperatorError(f"{given!r} is no number of days to be kept",
                            f"a number from 0 to {packing.MOST_DAYS}",
                            exit_code=ExitCode.BAD_CONFIG)
    return days


OPERATIONS: Mapping[str, Callable[[Cluster, Installation, Request], Plan | Refusal]] = {
    "failover": _failover, "switchover": _switchover, "rejoin": _rejoin, "seed": _seed,
    "pack": _pack, "restart": _restart}
