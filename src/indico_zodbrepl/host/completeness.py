"""Check that a primary's data file is complete: no source knows later transactions of its epoch.

A file that was truncated, restored from an older copy, or put on an empty disk must not be served:
Indico would lose acknowledged transactions, and the complete copies of the other nodes would count
as diverged.  There are two sources: the data files of followers that never accepted writes in this
epoch, so all their data came from its primary; and the monitor process's last observation.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

from indico_zodbrepl.backends import backend_of, can
from indico_zodbrepl.cluster import Cluster, Node, NodeState
from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.cluster.layout import data_fs
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host import datafs, peers
from indico_zodbrepl.host.datafs_answers import Last
from indico_zodbrepl.host.history import Condition, Lineage
from indico_zodbrepl.host.interface import host_of
from indico_zodbrepl.probing import tid

SECONDS = 10.0
"""Seconds to read the end of one data file; a hung disk takes longer, and is no source."""


@dataclasses.dataclass(frozen=True)
class Witness:
    """A source that knows a transaction of the primary's epoch.

    Attributes:
        who: as messages name it.
        last_tid: the last transaction that it knows.
        node: the follower that has it; None for a source that only saw it.
    """

    who: str
    last_tid: int
    node: str | None = None


def is_witness(lineage: Lineage | None, epoch: int) -> bool:
    """Return True if all that a node's data file holds came from the primary of an epoch.

    It was compared with that primary, and has not accepted writes since.
    """
    return (
        lineage is not None
        and lineage.epoch == epoch
        and not lineage.was_writable
        and lineage.condition is Condition.OK
    )


def newest(witnesses: Iterable[Witness], last_tid: int) -> Witness | None:
    """Return the source of the newest transaction after ``last_tid``; nodes before others."""
    later = [each for each in witnesses if each.last_tid > last_tid]
    return max(later, key=lambda each: (each.node is not None, each.last_tid), default=None)


def refuse_incomplete(cluster: Cluster, installation: Installation, claim: NodeState) -> None:
    """Raise OperatorError (REFUSED) if a source knows later transactions than a primary has.

    Args:
        claim: the state with which the node shall start; its role is primary.

    A new epoch, after a failover or a forced start, accepts the loss: it has no sources yet.
    """
    node = cluster.node(claim.node)
    if not can(cluster, "lineage") or not backend_of(cluster).has_data(cluster, node):
        return
    witnesses = _observers(cluster, claim)
    followers = _followers(cluster, claim)
    if not (witnesses or followers):
        return
    try:
        own = _last(installation, node)
    except OperatorError as error:
        if error.exit_code is not ExitCode.REFUSED:
            raise
        raise damaged(cluster, claim, followers, error) from error
    ends = peers.of_nodes(
        cluster,
        [each.name for each in followers],
        host_of(cluster, installation).last_transaction,
        SECONDS,
    )
    witnesses += [Witness(f"node {name}", _number(end), name) for name, end in ends.items()]
    if newest(witnesses, own) is not None:
        own = _last(installation, node)  # its server may be running, and have written meanwhile
    found = newest(witnesses, own)
    if found is not None:
        raise refusal(cluster, claim, own, found, witnesses)


def _observers(cluster: Cluster, claim: NodeState) -> list[Witness]:
    try:
        seen = host_of(cluster).last_seen()
    except OperatorError:
        return []  # the monitor's host does not answer
    if seen is None or (seen.primary, seen.epoch) != (claim.node, claim.epoch):
        return []
    return [Witness("the monitor process", seen.last_tid)]


def _followers(cluster: Cluster, claim: NodeState) -> list[Node]:
    """Return the other nodes with data whose history proves that it is the primary's."""
    held = peers.with_data(cluster)
    others = [name for name, has_data in held.items() if has_data and name != claim.node]
    # An unusable history file proves nothing; the node's own start reports it.
    known = peers.of_nodes(cluster, others, host_of(cluster).history)
    return [cluster.node(name) for name, each in known.items() if is_witness(each, claim.epoch)]


def _last(installation: Installation, node: Node) -> int:
    return _number(datafs.last(installation, data_fs(node), SECONDS))


def _number(found: Last) -> int:
    return 0 if found.tid is None else tid.parse(found.tid)


def refusal(
    cluster: Cluster, claim: NodeState, own: int, found: Witness, witnesses: Iterable[Witness]
) -> OperatorError:
    """Return the error for a primary whose data file lacks transactions that others know."""
    commands = Commands.here(cluster)
    lines = [
        f"  {each.who}: up to {_shown(each.last_tid)}" for each in witnesses if each.last_tid > own
    ]
    reason = f"the data file of {claim.node} is incomplete"
    force = commands.zodbrepl("node", "start", claim.node, "--force", "--reason", "TEXT")
    hint = (
        "promote the node that has them: "
        + commands.zodbrepl("failover", found.node, "--reason", reason)
        if found.node is not None
        else "put the whole data file back, or promote another node: "
        + commands.zodbrepl("failover", "--reason", reason)
        + f"; to accept that they are lost: {force}"
    )
    return OperatorError(
        f"node {claim.node} refuses to start as the primary of epoch {claim.epoch}: its data file "
        "lacks transactions",
        f"{data_fs(cluster.node(claim.node))} ends with {_shown(own)}; later ones of this "
        "epoch are known\n" + "\n".join(lines),
        hint,
        ExitCode.REFUSED,
    )


def damaged(
    cluster: Cluster, claim: NodeState, followers: Sequence[Node], error: OperatorError
) -> OperatorError:
    """Return the error for a primary whose data file has an end that can't be read."""
    commands = Commands.here(cluster)
    reason = f"the data file of {claim.node} is damaged"
    return OperatorError(
        f"node {claim.node} refuses to start as the primary of epoch {claim.epoch}: its data file "
        "is damaged",
        error.detail,
        f"promote another node: {commands.zodbrepl('failover', '--reason', reason)}"
        if followers
        else f"restore it from a backup: {commands.zodbrepl('restore', claim.node, '--dry-run')}",
        ExitCode.REFUSED,
    )


def _shown(number: int) -> str:
    moment = tid.moment(number)
    return f"{number:016x} ({moment})" if moment else f"{number:016x}"
