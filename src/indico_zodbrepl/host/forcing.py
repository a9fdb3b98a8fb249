"""Start a node as the primary although no source confirms it."""

from __future__ import annotations

import dataclasses
import time

from indico_zodbrepl.backends import backend_of
from indico_zodbrepl.cluster import Cluster, Forced, Node, NodeState, Role
from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.cluster.lookup import node_named
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.etcd import leadership
from indico_zodbrepl.host import epochs, history, precheck, run, state, writers
from indico_zodbrepl.host.epochs import Raised
from indico_zodbrepl.host.interface import START_SECONDS, DryRun, Tell, ignore
from indico_zodbrepl.host.reports import Report
from indico_zodbrepl.host.starts import start_node
from indico_zodbrepl.host.state import LostUpstreamError
from indico_zodbrepl.probing import times
from indico_zodbrepl.probing.wire import ProbeError

ANSWER_SECONDS = 2.0


@dataclasses.dataclass(frozen=True)
class Forcing:
    """The result of a forced start: the new epoch, the highest one seen before, the records."""

    epoch: int
    seen: int
    raised: Raised


def force_start(
    cluster: Cluster,
    installation: Installation,
    name: str,
    *,
    reason: str,
    actor: str,
    progress: Tell = ignore,
    seconds: float = START_SECONDS,
) -> Forcing:
    """Start a node as the primary of a new epoch although no source confirms it.

    The new epoch is above every reported one and is written to all records.  The operator has to
    fence a primary that does not answer.

    Args:
        reason: why, for state file, records and journal.
        actor: login name of the responsible operator.

    Raises:
        OperatorError: as ``start_node``; REFUSED also if another server accepts writes, or if
            the node's own server runs.
    """
    node = node_named(cluster, name)
    installation.check()
    try:
        own = run.prepare(cluster, node)
    except LostUpstreamError as error:
        own = error.state
    seen, _reports = check(cluster, node, own)
    epoch = seen + 1
    claim = NodeState(
        cluster.name, name, Role.PRIMARY, None, epoch, Forced(actor, reason, times.now())
    )
    if cluster.automatic:
        leadership.claim(cluster, name, epoch, f"forced by {actor}: {reason}")
    history.enter_primary(cluster, claim)
    raised = epochs.raise_everywhere(cluster, epoch, name, f"forced by {actor}: {reason}")
    for remark in writers.silence_others(cluster, name, epoch):
        progress(remark)
    state.write(node, claim)
    start_node(cluster, installation, name, progress=progress, seconds=seconds)
    return Forcing(epoch, seen, raised)


def check(cluster: Cluster, node: Node, own: NodeState) -> tuple[int, list[Report]]:
    """Check that a forced start may begin; change nothing.

    Returns the highest reported epoch and the reports.  Raises OperatorError (REFUSED) if the node
    runs, another server accepts writes, or the node's data is missing or not whole.
    """
    if answers(cluster, node):
        raise OperatorError(
            f"node {node.name} is running",
            f"a server answers on {node.storage_address}",
            "promote it, or fence it first",
            ExitCode.REFUSED,
        )
    seen, said = precheck.highest_epoch(cluster, node.name, own.epoch)
    seen = max(seen, leadership.epoch(cluster))
    _refuse_rival(cluster, node.name, said)
    claim = NodeState(cluster.name, node.name, Role.PRIMARY, None, seen + 1)
    precheck.refuse_without_data(cluster, claim)
    history.refuse_unfit(cluster, claim)
    return seen, said


def dry_run(cluster: Cluster, installation: Installation, name: str) -> DryRun:
    """Make the checks of ``force_start``; change nothing."""
    node = node_named(cluster, name)
    installation.check()
    seen, said = check(cluster, node, state.current(cluster, node))
    claim = NodeState(cluster.name, name, Role.PRIMARY, None, seen + 1)
    return DryRun(
        (
            f"node {name} does not run",
            "no other server accepts writes",
            f"the highest known epoch is {seen}",
            *(str(report) for report in said),
        ),
        (
            epochs.raising(cluster, claim.epoch, name),
            f"{state.writing(cluster, claim)}, with who forced it and why",
            f"start {node.program}",
        ),
    )


def _refuse_rival(cluster: Cluster, name: str, said: list[Report]) -> None:
    for each in said:
        if each.writable and each.node != name:
            raise OperatorError(
                f"node {name} can't be forced",
                f"{each.source} accepts writes\n{precheck.listed(said)}",
                "if that is the wrong primary: "
                + Commands.here(cluster).zodbrepl("node", "fence", each.node or ""),
                ExitCode.REFUSED,
            )


def answers(cluster: Cluster, node: Node) -> bool:
    """Return True if a server answers on the node's address."""
    try:
        backend_of(cluster).ask(cluster, node, time.monotonic() + ANSWER_SECONDS)
    except ProbeError:
        return False
    return True
