"""Rejoin with native replication: PostgreSQL, MariaDB.

Only its own server can read a stopped node's data, so the plan is made before its transactions are
known.  The steps that export divergent transactions and put the data aside do nothing if there are
none.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator
from pathlib import Path

from indico_zodbrepl.backends import native_of
from indico_zodbrepl.cluster import Cluster, NodeState, Role
from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.cluster.lookup import node_with_program
from indico_zodbrepl.host.interface import host_of
from indico_zodbrepl.operations.checks import CatchUp
from indico_zodbrepl.operations.facts import (
    current_primary,
    follows,
    replication_of,
    tail_folder,
    why_not_serving,
)
from indico_zodbrepl.operations.model import Finding, Loss, Plan, Refusal, Step, Verdict
from indico_zodbrepl.operations.native_rejoin_steps import Admit, KeepTail, PutAside, StartAnew
from indico_zodbrepl.operations.roles import Assign, Fence
from indico_zodbrepl.operations.start_steps import Stop
from indico_zodbrepl.probing.wire import ProbeError

NO_HISTORY = (
    "the database keeps no history, so of what was changed several times only the last "
    "state is exported, without who changed it; and whether the primary had it can't be "
    "told of what was changed there since"
)


@dataclasses.dataclass(frozen=True)
class NativeFacts:
    """The facts by which a rejoin with native replication is planned.

    Attributes:
        now: seconds since 1970.
        history: True if the database keeps history.
        data: folder of the node's data.
        own: the node's assigned state.
        primary_problem: why the primary of the records does not serve; empty when it does.
        runs: True if the node's server answers.
        following: True if its link with the primary is up.
    """

    now: float
    history: bool
    data: Path
    own: NodeState
    primary: str
    epoch: int
    primary_problem: str
    runs: bool
    following: bool


def gather(cluster: Cluster, name: str) -> NativeFacts:
    """Gather the facts.  Raises OperatorError: exit 2, no such node; exit 8, the primary is
    unknown, the state file can't be read, or the server is not managed here.
    """
    node = node_with_program(cluster, name)
    primary, epoch = current_primary(cluster)
    try:
        runs = replication_of(cluster, node) is not None
    except ProbeError:
        runs = False
    engine = native_of(cluster)
    return NativeFacts(
        time.time(),
        engine.keeps_history(cluster),
        engine.data_folder(node),
        host_of(cluster).state(name),
        primary.name,
        epoch,
        why_not_serving(cluster, primary, epoch),
        runs,
        follows(cluster, node, primary),
    )


def prepare(cluster: Cluster, installation: Installation, name: str, reason: str) -> Plan | Refusal:
    """Gather the facts and plan the rejoin of a node; change nothing.  Raises OperatorError."""
    commands = Commands(cluster, installation.home)
    return plan_native_rejoin(cluster, gather(cluster, name), reason, commands)


def plan_native_rejoin(
    cluster: Cluster, facts: NativeFacts, reason: str, commands: Commands
) -> Plan | Refusal:
    """Plan the steps by which a node follows the primary of the records."""
    name = facts.own.node
    wanted = NodeState(cluster.name, name, Role.SECONDARY, facts.primary, facts.epoch)
    against = _against(facts, wanted, commands)
    if against is not None:
        return against
    findings = [Finding(Verdict.FINE, facts.primary, "runs as the primary", f"epoch {facts.epoch}")]
    if not facts.history:
        findings.append(
            Finding(Verdict.WARNING, name, "not everything can be determined", NO_HISTORY)
        )
    lost = Loss(
        name,
        None,
        None,
        False,
        None,
        f"what only {name} has, if there is any, is out of the cluster afterwards; it is "
        f"found, exported and counted once {name} has ended, and its data are kept",
    )
    return Plan(
        "rejoin",
        name,
        facts.primary,
        reason,
        facts.epoch,
        tuple(_steps(cluster, facts, wanted, commands)),
        lost,
        tuple(findings),
    )


def _against(facts: NativeFacts, wanted: NodeState, commands: Commands) -> Refusal | None:
    name = wanted.node
    if name == facts.primary:
        return Refusal(
            f"node {name} is the primary",
            commands.zodbrepl("node", "start", name),
            (Finding(Verdict.AGAINST, name, "is the primary of the records"),),
        )
    if facts.following and facts.own == wanted:
        return Refusal(
            f"node {name} has joined already",
            "",
            (
                Finding(
                    Verdict.FINE,
                    name,
                    f"follows {facts.primary}",
                    f"epoch {facts.epoch}, the link stands",
                ),
            ),
        )
    if facts.primary_problem:
        return Refusal(
            f"node {name} can't join now",
            commands.zodbrepl("status"),
            (
                Finding(
                    Verdict.AGAINST,
                    facts.primary,
                    "does not serve as the primary",
                    facts.primary_problem,
                ),
            ),
        )
    return None


def _steps(
    cluster: Cluster, facts: NativeFacts, wanted: NodeState, commands: Commands
) -> Iterator[Step]:
    node, primary = wanted.node, facts.primary
    folder = tail_folder(cluster, node, facts.epoch, facts.now)
    aside = facts.data.with_name(f"{facts.data.name}.lost{folder.name.removeprefix(node)}")
    if facts.runs:
        yield Stop.of(commands, node, after_no_return=False)
    yield dataclasses.replace(
        Fence.of(commands, node, f"Make sure that no process of {node}'s server is left"),
    )
    yield KeepTail.of(node, primary, folder)
    yield PutAside.of(node, aside)
    yield Assign.of(commands, wanted, may_fail=False)
    yield Admit.of(commands, node, primary)
    yield StartAnew.of(commands, node, primary, aside)
    yield CatchUp.of(commands, node, primary)
