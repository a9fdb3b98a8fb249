"""The candidate for the role of primary, and the states after its promotion.  Pure."""

from __future__ import annotations

from collections.abc import Collection

from indico_zodbrepl.cluster.model import Cluster, NodeState, Role
from indico_zodbrepl.monitor.node_status import NodeStatus
from indico_zodbrepl.monitor.snapshot import Snapshot

SMALL_LAG_SECONDS = 10.0
"""A switchover to a node further behind would pause writes for longer than about a second."""


def follows_closely(node: NodeStatus) -> bool:
    """Return True if a switchover to a node pauses writes for a moment only."""
    return node.lag_seconds is not None and node.lag_seconds <= SMALL_LAG_SECONDS


def assigned_primary(snapshot: Snapshot) -> NodeStatus | None:
    """Return the node that its state file makes primary; of several the highest epoch's.

    A record of a later epoch takes precedence: the state file of a lost primary may be lost too.
    """
    primaries = [
        (node.assigned_epoch or 0, node)
        for node in snapshot.nodes
        if node.assigned_role is Role.PRIMARY
    ]
    recorded = {
        record.primary: record.epoch for record in snapshot.records if record.epoch is not None
    }
    primaries += [(recorded[node.name], node) for node in snapshot.nodes if node.name in recorded]
    return max(primaries, key=lambda found: found[0], default=(0, None))[1]


def best_candidate(snapshot: Snapshot, unfit: Collection[str] = ()) -> NodeStatus | None:
    """Return the follower with the newest transaction; the first one if none answers.

    None if no node is assigned to follow, apart from the ``unfit`` ones.
    """
    followers = [
        node for node in snapshot.nodes if node.assigned_role.follows and node.name not in unfit
    ]
    return max(
        followers, key=lambda node: -1 if node.last_tid is None else node.last_tid, default=None
    )


def states_after(
    cluster: Cluster, snapshot: Snapshot, old: NodeStatus, new: NodeStatus
) -> dict[str, NodeState]:
    """Return the state of every node, by name, once ``new`` has replaced ``old`` as primary.

    ``old`` follows ``new``, and so do the followers of ``old`` and earlier primaries; a relay that
    ``new`` itself followed now follows ``new``.  The epoch is above every known epoch.
    """
    known = [
        epoch
        for node in snapshot.nodes
        for epoch in (node.epoch, node.assigned_epoch)
        if epoch is not None
    ]
    if snapshot.epoch is not None:
        known.append(snapshot.epoch)
    epoch = max(known, default=1) + 1
    return {node.name: _state(cluster, node, old, new, epoch) for node in snapshot.nodes}


def _state(
    cluster: Cluster, node: NodeStatus, old: NodeStatus, new: NodeStatus, epoch: int
) -> NodeState:
    if node.name == new.name:
        return NodeState(cluster.name, node.name, Role.PRIMARY, None, epoch)
    if node.name == old.name or node.assigned_role is Role.PRIMARY:
        return NodeState(cluster.name, node.name, Role.SECONDARY, new.name, epoch)
    upstream = new.name if node.assigned_upstream == old.name else node.assigned_upstream
    return NodeState(cluster.name, node.name, node.assigned_role, upstream, epoch)
