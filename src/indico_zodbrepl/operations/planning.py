"""Requests of operators, from commands or pages, and the plans made from them.

They gather the facts and call a planner; nothing is changed.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable, Mapping
from functools import partial

from indico_zodbrepl.backends import Family, backend_of, require
from indico_zodbrepl.cluster import Cluster, formats
from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host import releases
from indico_zodbrepl.host.interface import expect_away, host_of
from indico_zodbrepl.operations import (
    clone,
    consensus_rejoin,
    native_rejoin,
    pack,
    preflight,
    rejoin,
    restart_facts,
    store,
    survey,
)
from indico_zodbrepl.operations.model import (
    Finding,
    JsonValue,
    Plan,
    Refusal,
    Step,
    Verdict,
    present_name,
)
from indico_zodbrepl.operations.operation import Operation
from indico_zodbrepl.operations.restart import plan_restart
from indico_zodbrepl.probing.race import all_at_once

INCIDENTAL = ("reason", "folder", "aside", "fingerprint", "detail")
"""Arguments that do not identify a step: texts, and folder names that hold the time."""

OPTIONS: Mapping[str, tuple[str, ...]] = {"clone": ("source",), "pack": ("days",)}
"""Options by operation."""


@dataclasses.dataclass(frozen=True)
class Request:
    """A requested operation.

    Attributes:
        operation: a key of ``OPERATIONS``; a former name becomes one.
        target: a node; of a restart a node or an Indico instance; None: the planner chooses.
        reason: why, in the operator's words; may be empty.
        options: of a clone ``source``, the node to copy from; of a pack ``days``, a number.
    """

    operation: str
    target: str | None = None
    reason: str = ""
    options: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "operation", present_name(self.operation))


def prepare(cluster: Cluster, installation: Installation, request: Request) -> Plan | Refusal:
    """Return the plan of a request, or why there is none.

    A Refusal whose findings are all fine means that nothing is to be done.

    Raises:
        OperatorError: exit 2, no such operation, node or option; exit 8, it is not for this
            backend, or another operation has not ended; what gathering the facts raises.
    """
    if request.operation not in OPERATIONS:
        raise OperatorError(
            f"no operation {request.operation!r}",
            f"there are: {', '.join(OPERATIONS)}",
            exit_code=ExitCode.BAD_CONFIG,
        )
    _refuse_unknown_options(request)
    require(cluster, request.operation)
    formats.refuse_newer(cluster)
    if request.operation == "failover":
        # Other operations wait, so that a host that has just come back takes part.
        expect_away(cluster)
    made = dataclasses.replace(request, reason=request.reason.strip())
    interrupted = store.refuse_open(cluster, made.operation, made.target)
    found = _planned(cluster, installation, made)
    if interrupted is None or isinstance(found, Refusal):
        return found
    closed = _closed_by(interrupted, Commands(cluster, installation.home))
    return dataclasses.replace(found, findings=(*found.findings, closed))


def _planned(cluster: Cluster, installation: Installation, request: Request) -> Plan | Refusal:
    """Plan and check at the same time: a silent host makes each wait for a second."""
    found: list[Plan | Refusal] = []
    all_at_once(
        [
            partial(releases.refuse_mixed, cluster, request.operation),
            partial(preflight.refuse_unwritable, cluster),
            lambda: found.append(OPERATIONS[request.operation](cluster, installation, request)),
        ]
    )
    return found[0]


def digest(plan: Plan) -> str:
    """Return the same text for two plans that do the same and lose the same.

    Findings, reason, time limits and names that hold the time don't count.
    """
    loss = plan.loss and (plan.loss.node, plan.loss.transactions, plan.loss.exact, plan.loss.after)
    told = [
        plan.operation,
        plan.target,
        plan.source,
        plan.epoch,
        loss,
        [_essence(step) for step in plan.steps],
    ]
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:32]


def sealed(plan: Plan, history: str) -> str:
    """Return the digest of a plan, valid until another operation begins.

    Args:
        history: ``store.history`` before the plan was made.
    """
    return f"{digest(plan)}-{history}"


def refuse_changed(plan: Plan, expected: str) -> None:
    """Raise OperatorError (exit 8) if a plan does not have this digest; empty matches any.

    ``store.refuse_since`` checks if another operation has begun, see ``history_of``.
    """
    if expected and digest(plan) != expected.partition("-")[0]:
        raise OperatorError(
            "the situation has changed since the plan was shown",
            f"{plan.name} would do or lose something else now; nothing was changed",
            "read the new plan, then decide again",
            ExitCode.REFUSED,
        )


def _refuse_unknown_options(request: Request) -> None:
    known = OPTIONS.get(request.operation, ())
    unknown = sorted({*request.options} - {*known})
    if unknown:
        raise OperatorError(
            f"{request.operation} has no option {unknown[0]!r}",
            f"there are: {', '.join(known)}" if known else "it has none",
            exit_code=ExitCode.BAD_CONFIG,
        )


def history_of(expected: str) -> str:
    """Return the history that a digest was sealed with; empty if it was not."""
    return expected.partition("-")[2]


def _essence(step: Step) -> JsonValue:
    arguments: dict[str, JsonValue] = {
        name: value for name, value in step.arguments.items() if name not in INCIDENTAL
    }
    return [step.action, step.subject, arguments, step.after_no_return, step.may_fail]


def _closed_by(interrupted: Operation, commands: Commands) -> Finding:
    kind, node = interrupted.plan.operation, interrupted.plan.target
    return Finding(
        Verdict.WARNING,
        node,
        f"its {kind} was interrupted, and is closed as it stands when this begins",
        f"afterwards: {commands.zodbrepl(kind, node)}",
    )


def _failover(cluster: Cluster, installation: Installation, request: Request) -> Plan | Refusal:
    return survey.survey_failover(cluster, installation, request.target, request.reason)


def _switchover(cluster: Cluster, installation: Installation, request: Request) -> Plan | Refusal:
    return survey.survey_switchover(cluster, installation, request.target, request.reason)


def _rejoin(cluster: Cluster, installation: Installation, request: Request) -> Plan | Refusal:
    _refuse_disk(cluster, request, needs_room=True)
    plan = _REJOINS[backend_of(cluster).family]
    return plan(cluster, installation, _named(request), request.reason)


def _clone(cluster: Cluster, installation: Installation, request: Request) -> Plan | Refusal:
    _refuse_disk(cluster, request, needs_room=True)
    source = request.options.get("source") or None
    return clone.prepare(cluster, installation, _named(request), source, request.reason)


def _pack(cluster: Cluster, installation: Installation, request: Request) -> Plan | Refusal:
    return pack.prepare(cluster, installation, _days(request), request.reason)


def _restart(cluster: Cluster, installation: Installation, request: Request) -> Plan | Refusal:
    _refuse_disk(cluster, request, needs_room=False)
    facts = restart_facts.gather(cluster, installation, _named(request))
    return plan_restart(cluster, facts, request.reason, Commands(cluster, installation.home))


def _refuse_disk(cluster: Cluster, request: Request, *, needs_room: bool) -> None:
    """Raise OperatorError (exit 8) if the node of a request can't write; see ``preflight``."""
    node = next((node for node in cluster.nodes if node.name == request.target), None)
    if node is not None and node.managed and host_of(cluster).has_folder(node.name):
        preflight.refuse_node(cluster, node.name, needs_room=needs_room)


def _named(request: Request) -> str:
    if request.target is None:
        raise OperatorError(
            f"{request.operation} needs a name",
            "of a node, or of an Indico instance to restart",
            exit_code=ExitCode.BAD_CONFIG,
        )
    return request.target


def _days(request: Request) -> float:
    given = request.options.get("days", str(pack.DAYS))
    try:
        days = float(given)
    except ValueError:
        days = -1.0
    if not 0 <= days <= pack.MOST_DAYS:
        raise OperatorError(
            f"invalid number of days: {given!r}",
            f"a number from 0 to {pack.MOST_DAYS}",
            exit_code=ExitCode.BAD_CONFIG,
        )
    return days


_Rejoin = Callable[[Cluster, Installation, str, str], Plan | Refusal]
_REJOINS: Mapping[Family, _Rejoin] = {
    Family.ZRS: rejoin.prepare,
    Family.NATIVE: native_rejoin.prepare,
    Family.CONSENSUS: consensus_rejoin.prepare,
}

OPERATIONS: Mapping[str, Callable[[Cluster, Installation, Request], Plan | Refusal]] = {
    "failover": _failover,
    "switchover": _switchover,
    "rejoin": _rejoin,
    "clone": _clone,
    "pack": _pack,
    "restart": _restart,
}
