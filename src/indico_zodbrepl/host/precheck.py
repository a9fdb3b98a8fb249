"""The start-up check of a primary: ask all sources; a refusal lists what each one reports."""

from __future__ import annotations

from collections.abc import Mapping

from indico_zodbrepl.backends import backend_of
from indico_zodbrepl.cluster import Cluster, NodeState, Role
from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host import completeness, epochs, following, history, peers, reports
from indico_zodbrepl.host.epochs import EpochRecord, Raised
from indico_zodbrepl.host.interface import host_of
from indico_zodbrepl.host.reports import Decision, Report
from indico_zodbrepl.probing import times


def admit_primary(cluster: Cluster, installation: Installation, claim: NodeState) -> list[str]:
    """Check that a node holds the current epoch before it starts as the primary.

    Takes at most a second.  Afterwards all records know at least this epoch.

    Args:
        claim: the state with which the node shall start; its role is primary.

    Returns:
        Remarks for the operator, one line each.

    Raises:
        OperatorError: REFUSED if a source contradicts, no source confirms, the node has no data
            and others have, or its data file lacks transactions that others know.  The detail
            lists what each source reports.
    """
    decision, said = confirmed(cluster, installation, claim)
    remarks = [
        f"a source does not answer: {each}"
        for each in said
        if each.problem and each.source.startswith(reports.RECORD)
    ]
    if decision.forced and claim.forced:
        remarks.append(
            f"no source confirms epoch {claim.epoch}; {claim.forced.actor} forced it "
            f"at {claim.forced.at}: {claim.forced.reason}"
        )
    history.enter_primary(cluster, claim)
    raised = epochs.raise_everywhere(cluster, claim.epoch, claim.node, "the primary started")
    remarks += [
        f"{keeper} has no record of epoch {claim.epoch}: {problem}"
        for keeper, problem in raised.failed.items()
    ]
    return remarks


def confirmed(
    cluster: Cluster, installation: Installation, claim: NodeState
) -> tuple[Decision, list[Report]]:
    """Ask all sources if a node may be the primary of its epoch; change nothing.

    Returns the decision and the reports.  Raises as ``admit_primary``.
    """
    said = reports.gather(cluster, claim.node, claim)
    decision = reports.judge(claim, said, epochs.quorum(cluster))
    if not decision.allowed:
        raise refusal(cluster, claim, decision, said)
    refuse_without_data(cluster, claim)
    completeness.refuse_incomplete(cluster, installation, claim)
    return decision, said


def admit_promotion(cluster: Cluster, name: str, epoch: int) -> None:
    """Raise OperatorError (REFUSED) if a source contradicts that a node is an epoch's primary."""
    said = reports.gather(cluster, name)
    objection = reports.objection_to(name, epoch, said)
    if objection:
        raise OperatorError(
            f"node {name} can't become the primary of epoch {epoch}",
            f"{objection}\n{listed(said)}",
            Commands.here(cluster).zodbrepl("status"),
            ExitCode.REFUSED,
        )


def found(cluster: Cluster, states: Mapping[str, NodeState]) -> Raised | None:
    """Write the records of a cluster that has none, or of a host that has none.

    A new cluster begins in epoch 1 with the primary of its cluster.conf.  For a cluster that is
    older than its records the state files decide, if exactly one node is the primary of their
    highest epoch.  The state of a node whose data is gone does not count.  Existing records are
    copied to the hosts that know less.

    Args:
        states: the state of every node.

    Returns:
        What was written; None if the primary is unknown, so that the start-up check decides.
    """
    first = founding(cluster, states)
    return (
        None
        if first is None
        else epochs.raise_everywhere(cluster, first.epoch, first.primary, first.reason)
    )


def founding(cluster: Cluster, states: Mapping[str, NodeState]) -> EpochRecord | None:
    """Return the record that ``found`` would write; change nothing."""
    record = epochs.newest(cluster)
    if record is not None or not backend_of(cluster).has_epochs:
        return record
    if any(each is not None for each in epochs.all_of(cluster).values()):
        return None  # one can't be read, or two contradict
    epoch = max(state.epoch for state in states.values())
    primaries = [
        state.node
        for state in states.values()
        if state.role is Role.PRIMARY and state.epoch == epoch
    ]
    if len(primaries) != 1 or len(states) < len(cluster.nodes):
        return None
    if _was_verified(cluster, primaries[0]) and _has_lost_data(cluster, primaries[0]):
        return None
    return EpochRecord(
        cluster.name, epoch, primaries[0], times.now(), "the cluster's first records"
    )


def _was_verified(cluster: Cluster, name: str) -> bool:
    """Return True if a node has a record of its history, or it can't be asked."""
    found = peers.of_nodes(cluster, [name], host_of(cluster).history)
    return name not in found or found[name] is not None


def _has_lost_data(cluster: Cluster, name: str) -> bool:
    """Return True if a node has data and another one has none: an unmounted disk may know more."""
    found = peers.with_data(cluster)
    others = [node.name for node in cluster.nodes if node.name != name]
    return found.get(name, False) and not all(found.get(other, False) for other in others)


def highest_epoch(cluster: Cluster, name: str, own: int) -> tuple[int, list[Report]]:
    """Return the highest epoch that a node or any source knows, and the reports."""
    said = reports.gather(cluster, name)
    return reports.highest(own, said), said


def listed(said: list[Report]) -> str:
    """Return the reports, a line each."""
    return "\n".join(f"  {report}" for report in said)


def is_superseded(cluster: Cluster, claim: NodeState) -> bool:
    """Return True if a node was the primary of an epoch that is over."""
    record = epochs.newest(cluster) if claim.role is Role.PRIMARY else None
    return record is not None and record.epoch > claim.epoch and record.primary != claim.node


def refuse_without_data(cluster: Cluster, claim: NodeState, *, may_be_empty: bool = False) -> None:
    """Raise OperatorError (REFUSED) if a primary would be empty although there is data.

    Other nodes have it, or an unfinished pack left it beside the data file.

    Args:
        may_be_empty: True if the node is known to be empty because the database is: a host that
            does not answer, such as that of a lost primary, is no objection then.
    """
    backend, node = backend_of(cluster), cluster.node(claim.node)
    following.refuse(node)
    if backend.has_data(cluster, node):
        return
    found = peers.with_data(cluster)
    holders = [name for name, has_data in found.items() if has_data]
    if holders:
        raise without_data(cluster, claim, holders)
    unknown = [each.name for each in cluster.nodes if each.name not in found and each.on]
    if unknown and not may_be_empty:
        raise OperatorError(
            f"node {claim.node} can't be the primary of epoch {claim.epoch}",
            f"it has no data, and it is unknown if {_named(unknown)} some: "
            "their hosts do not answer",
            "start their hosts first",
            ExitCode.REFUSED,
        )


def without_data(cluster: Cluster, claim: NodeState, holders: list[str]) -> OperatorError:
    """Return the error for a primary that would be empty although other nodes have data."""
    node, commands = cluster.node(claim.node), Commands.here(cluster)
    return OperatorError(
        f"node {claim.node} can't be the primary of epoch {claim.epoch}",
        f"it has no data, but {_named(holders)}: Indico would get an empty "
        f"database from {node.data_directory}",
        "mount its disk; if the disk is lost: "
        # Without a target, which is then the node with the newest transaction.
        + commands.zodbrepl("failover", "--reason", f"the disk of {claim.node} is lost"),
        ExitCode.REFUSED,
    )


def _named(holders: list[str]) -> str:
    several = len(holders) > 1
    return f"node{'s' * several} {' and '.join(holders)} {'have' if several else 'has'}"


def refusal(
    cluster: Cluster, claim: NodeState, decision: Decision, said: list[Report]
) -> OperatorError:
    """Return the error for a primary that a source contradicts, or none confirms."""
    commands = Commands.here(cluster)
    newer = next(
        (
            each.primary
            for each in said
            if each.epoch == decision.seen and each.primary not in (None, claim.node)
        ),
        None,
    )
    force = commands.zodbrepl("node", "start", claim.node, "--force", "--reason", "TEXT")
    if newer is not None:
        hint = f"make it follow node {newer}: {commands.zodbrepl('rejoin', claim.node)}"
    elif cluster.hosts:
        hint = (
            f"start the agents of the hosts that do not answer, then: {commands.zodbrepl('up')}; "
            f"only if you are certain that no other node was promoted: {force}"
        )
    else:
        hint = (
            "start one of these sources; only if you are certain that no other node was promoted: "
            f"{force}"
        )
    return OperatorError(
        f"node {claim.node} refuses to start as the primary of epoch {claim.epoch}",
        f"{decision.reason}\n{listed(said)}",
        hint,
        ExitCode.REFUSED,
    )
