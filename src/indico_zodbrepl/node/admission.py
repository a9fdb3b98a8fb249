"""Whether a node may start as the primary: everybody is asked, and a refusal says who said what."""

from __future__ import annotations

from collections.abc import Mapping

from ..backends import backend_of
from ..cluster import Cluster, NodeState, Role
from ..cluster.commands import Commands
from ..cluster.layout import lineage_file
from ..errors import ExitCode, OperatorError
from . import epochs, guard, half_packed, lineage, testimony
from .epochs import EpochRecord, Raised
from .guard import Testimony, Verdict


def admit_primary(cluster: Cluster, claim: NodeState) -> list[str]:
    """Make sure that a node holds the current epoch before it starts as its primary.

    Takes a second at most.  Afterwards the records that knew only a lower epoch know this one.

    Args:
        claim: what the node is to be; its role is primary.

    Returns:
        What an operator should know although the node may start, one line each.

    Raises:
        OperatorError: exit 8, somebody knows better, or nobody can vouch for the node, or it
            has no data and others have; the detail tells what each voucher said.
    """
    verdict, testimonies = vouched(cluster, claim)
    remarks = [f"a voucher says nothing: {each}" for each in testimonies
               if each.problem and each.voucher.startswith("the record")]
    if verdict.forced and claim.forced:
        remarks.append(f"nobody vouches for epoch {claim.epoch}; {claim.forced.actor} forced it "
                       f"at {claim.forced.at}: {claim.forced.reason}")
    lineage.enter_primary(cluster, claim)
    raised = epochs.raise_everywhere(cluster, claim.epoch, claim.node, "the primary started")
    remarks += [f"{keeper} has no record of epoch {claim.epoch}: {problem}"
                for keeper, problem in raised.failed.items()]
    return remarks


def vouched(cluster: Cluster, claim: NodeState) -> tuple[Verdict, list[Testimony]]:
    """Ask everybody whether a node may be the primary of its epoch; changes nothing.

    Returns who vouches for it, and what everybody said.  Raises as ``admit_primary``.
    """
    testimonies = testimony.gather(cluster, claim.node, claim)
    verdict = guard.judge(claim, testimonies)
    if not verdict.allowed:
        raise _refusal(cluster, claim, verdict, testimonies)
    refuse_without_data(cluster, claim)
    return verdict, testimonies


def admit_promotion(cluster: Cluster, name: str, epoch: int) -> None:
    """Raise OperatorError (exit 8) when anybody objects to a node as an epoch's primary."""
    testimonies = testimony.gather(cluster, name)
    objection = guard.objection(name, epoch, testimonies)
    if objection:
        raise OperatorError(f"node {name} can't become the primary of epoch {epoch}",
                            f"{objection}\n{listed(testimonies)}",
                            f"see: {Commands.here(cluster).zodbrepl('status')}",
                            ExitCode.REFUSED)


def found(cluster: Cluster, states: Mapping[str, NodeState]) -> Raised | None:
    """Write the records of a cluster that has none, or that one of its hosts has not.

    A new cluster begins in epoch 1 with the primary of its cluster.conf; one that is older
    than the records is what its state files say, if exactly one node is the primary of their
    highest epoch; the state of a node whose data is gone was made up, and tells nothing.
    Records that are there are copied to the hosts that know less.

    Args:
        states: the state of every node.

    Returns:
        What was written; None when it can't be told who the primary is, so that the guard
        has to find out.
    """
    first = founding(cluster, states)
    return None if first is None else epochs.raise_everywhere(
        cluster, first.epoch, first.primary, first.reason)


def founding(cluster: Cluster, states: Mapping[str, NodeState]) -> EpochRecord | None:
    """The record that ``found`` would see to everywhere; changes nothing."""
    record = newest_record(cluster)
    if record is not None:
        return record
    if any(path.exists() for path in epochs.paths(cluster).values()):
        return None
    epoch = max(state.epoch for state in states.values())
    primaries = [state.node for state in states.values()
                 if state.role is Role.PRIMARY and state.epoch == epoch]
    if len(primaries) != 1 or len(states) < len(cluster.nodes):
        return None
    if lineage_file(cluster.node(primaries[0])).exists() and _has_lost_data(cluster, primaries[0]):
        return None
    return EpochRecord(cluster.name, epoch, primaries[0], epochs.now(),
                       "the cluster's first records")


def _has_lost_data(cluster: Cluster, name: str) -> bool:
    """Whether a node has data and another one none: a disk that is not mounted may know more."""
    others = [node for node in cluster.nodes if node.name != name]
    has_data = backend_of(cluster).has_data
    return (has_data(cluster, cluster.node(name))
            and not all(has_data(cluster, other) for other in others))


def newest_record(cluster: Cluster) -> EpochRecord | None:
    """The record of the highest epoch among those that can be read.

    None when there is none, or when two of that epoch name different primaries.
    """
    records = []
    for path in epochs.paths(cluster).values():
        try:
            records.append(epochs.read(cluster, path))
        except OperatorError:
            continue  # the guard tells of it, with the path
    readable = [record for record in records if record is not None]
    if not readable:
        return None
    newest = max(readable, key=lambda record: record.epoch)
    primaries = {record.primary for record in readable if record.epoch == newest.epoch}
    return newest if len(primaries) == 1 else None


def highest_epoch(cluster: Cluster, name: str, own: int) -> tuple[int, list[Testimony]]:
    """The highest epoch that a node or anybody else who can be asked knows, and what they said."""
    testimonies = testimony.gather(cluster, name)
    return guard.highest(own, testimonies), testimonies


def listed(testimonies: list[Testimony]) -> str:
    """What everybody said, a line each."""
    return "\n".join(f"  {testimony}" for testimony in testimonies)


def refuse_without_data(cluster: Cluster, claim: NodeState) -> None:
    """Raise OperatorError (exit 8) when a primary would be empty although there is data.

    Others have it, or a pack that did not end left it beside the data file.
    """
    backend, node = backend_of(cluster), cluster.node(claim.node)
    if backend.data_files:
        half_packed.refuse(node)
    holders = testimony.holders_of_data(cluster, claim.node)
    if not holders or backend.has_data(cluster, node):
        return
    commands = Commands.here(cluster)
    raise OperatorError(
        f"node {claim.node} can't be the primary of epoch {claim.epoch}",
        f"it has no data, but node {' and node '.join(holders)} has: Indico would find an empty "
        f"database in {cluster.node(claim.node).data_directory}",
        f"is a disk not mounted? else: {commands.zodbrepl('failover', holders[0])}",
        ExitCode.REFUSED)


def _refusal(cluster: Cluster, claim: NodeState, verdict: Verdict,
             testimonies: list[Testimony]) -> OperatorError:
    commands = Commands.here(cluster)
    newer = next((each.primary for each in testimonies
                  if each.epoch == verdict.seen and each.primary not in (None, claim.node)), None)
    if newer is not None:
        hint = f"let it follow node {newer}: {commands.zodbrepl('rejoin', claim.node)}"
    else:
        hint = ("bring one of them back; only if you are certain that no other node was promoted: "
                + commands.zodbrepl("node", "start", claim.node, "--force", "--reason", "TEXT"))
    return OperatorError(
        f"node {claim.node} refuses to start as the primary of epoch {claim.epoch}",
        f"{verdict.reason}\n{listed(testimonies)}", hint, ExitCode.REFUSED)
