"""Plans a rejoin where the engine replicates by itself: PostgreSQL, MariaDB.

What the ended node has is known only to its own server, so the plan is made before that is known:
what only the node has is exported, and its data put aside, in steps that do nothing where there
is nothing to do.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator
from pathlib import Path

from ..cluster import Cluster, NodeState, Role
from ..cluster.commands import Commands
from ..node import run, state
from ..probing.wire import ProbeError
from .asking import replication_of
from .engine_tails import required_engine
from .moves import QUICK_SECONDS, Moves
from .rejoin import CATCH_UP_SECONDS, catch_up
from .rejoin_facts import current_primary, follows, why_not_serving
from .situation import tail_folder
from .steps import Finding, Loss, Plan, Refusal, Step, Verdict

NO_HISTORY = ("the database keeps no history, so of what was changed several times only the last "
              "state is exported, without who changed it; and whether the primary had it can't be "
              "told of what was changed there since")


@dataclasses.dataclass(frozen=True)
class EngineFacts:
    """What such a rejoin is planned by.

    Attributes:
        now: seconds since 1970.
        history: whether the database keeps history.
        data: where the engine's data of the node are.
        own: what the node is told to be.
        primary_problem: why the primary of the records does not serve; empty when it does.
        runs: whether the node's server answers.
        following: whether its link with the primary stands.
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


def gather_engine(cluster: Cluster, name: str) -> EngineFacts:
    """What there is now.  Raises OperatorError: exit 2, no such node; exit 8, nobody knows who the
    primary is, or its state file can't be read, or its server is somebody else's."""
    node = run.node_with_program(cluster, name)
    primary, epoch = current_primary(cluster)
    try:
        runs = replication_of(cluster, node) is not None
    except ProbeError:
        runs = False
    engine = required_engine(cluster)
    return EngineFacts(time.time(), engine.keeps_history(cluster), engine.data_folder(node),
                       state.current(cluster, node), primary.name, epoch,
                       why_not_serving(cluster, primary, epoch), runs,
                       follows(cluster, node, primary))


def plan_engine_rejoin(cluster: Cluster, facts: EngineFacts, reason: str,
                       commands: Commands) -> Plan | Refusal:
    """The steps by which a node follows the primary of the records, or why there are none."""
    name = facts.own.node
    wanted = NodeState(cluster.name, name, Role.SECONDARY, facts.primary, facts.epoch)
    against = _against(facts, wanted, commands)
    if against is not None:
        return against
    findings = [Finding(Verdict.FINE, facts.primary, "runs as the primary",
                        f"epoch {facts.epoch}")]
    if not facts.history:
        findings.append(Finding(Verdict.WARNING, name, "not everything can be told", NO_HISTORY))
    lost = Loss(name, None, None, False, None,
                f"what only {name} has, if there is any, is out of the cluster afterwards; it is "
                f"found, exported and counted once {name} has ended, and its data are kept")
    return Plan("rejoin", name, facts.primary, reason, facts.epoch,
                tuple(_steps(cluster, facts, wanted, commands)), lost, tuple(findings))


def _against(facts: EngineFacts, wanted: NodeState, commands: Commands) -> Refusal | None:
    name = wanted.node
    if name == facts.primary:
        return Refusal(f"node {name} is the primary", commands.zodbrepl("node", "start", name),
                       (Finding(Verdict.AGAINST, name, "is the primary of the records"),))
    if facts.following and facts.own == wanted:
        return Refusal(f"node {name} has joined already", "",
                       (Finding(Verdict.FINE, name, f"follows {facts.primary}",
                                f"epoch {facts.epoch}, the link stands"),))
    if facts.primary_problem:
        return Refusal(f"node {name} can't join now", commands.zodbrepl("status"),
                       (Finding(Verdict.AGAINST, facts.primary, "does not serve as the primary",
                                facts.primary_problem),))
    return None


def _steps(cluster: Cluster, facts: EngineFacts, wanted: NodeState,
           commands: Commands) -> Iterator[Step]:
    moves, node, primary = Moves(cluster, commands), wanted.node, facts.primary
    folder = tail_folder(cluster, node, facts.epoch, facts.now)
    aside = facts.data.with_name(f"{facts.data.name}.lost{folder.name.removeprefix(node)}")
    if facts.runs:
        yield dataclasses.replace(moves.stop(node), after_no_return=False)
    yield dataclasses.replace(moves.fence(node), undoes="",
                              title=f"See that nothing is left of {node}'s server")
    yield moves.keep_tail(node, primary, folder, afterwards=False)
    yield Step("rejoin-put-aside", node, {"folder": str(aside)},
               f"If there was any, keep {node}'s data in {aside}",
               f"otherwise {node} goes on from what it has", "", "", QUICK_SECONDS, True)
    yield dataclasses.replace(moves.assign(wanted), may_fail=False)
    yield Step("rejoin-admit", node, {"against": primary},
               f"Write into {node}'s lineage file: ok", "", "",
               commands.zodbrepl("status"), QUICK_SECONDS, True)
    yield Step("rejoin-start", node, {"folder": str(aside)}, f"Start {node}",
               f"where it can't go on from what it has, that is kept in {aside.name} and it copies "
               f"{primary}'s", "", commands.zodbrepl("node", "start", node), CATCH_UP_SECONDS, True)
    yield catch_up(node, primary, commands)
