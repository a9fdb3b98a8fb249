"""The nodes to which a load balancer may send clients."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping

from indico_zodbrepl.host.history import Condition
from indico_zodbrepl.monitor.node_status import NodeStatus
from indico_zodbrepl.monitor.snapshot import Snapshot
from indico_zodbrepl.monitor.words import listed
from indico_zodbrepl.probing.answers import Hold, ServerRole

FOLLOWING = (ServerRole.SECONDARY, ServerRole.RELAY)


@dataclasses.dataclass(frozen=True)
class Fit:
    """The nodes that may get clients.

    Attributes:
        nodes: their names.
        reasons: why each other node may not, one line, by node name.
        why: why there is none; empty if there is one.
    """

    nodes: tuple[str, ...]
    reasons: Mapping[str, str]
    why: str


def primaries(snapshot: Snapshot, name: str | None = None) -> Fit:
    """Return the primary: the only node that accepts writes, with the cluster's history.

    Args:
        name: check only this node; KeyError if there is none of that name.
    """
    return _sorted(
        snapshot,
        name,
        lambda node: _against_primary(snapshot, node),
        "no node is a writable primary with the cluster's history",
    )


def replicas(snapshot: Snapshot, most_seconds: float | None, name: str | None = None) -> Fit:
    """Return the nodes that follow the primary, directly or through relays, with its history.

    Args:
        most_seconds: maximal lag; a node with unknown lag does not serve either.  None: the lag
            does not matter.
        name: as for ``primaries``.
    """
    return _sorted(
        snapshot,
        name,
        lambda node: _against_replica(snapshot, node, most_seconds),
        "no node follows the primary"
        if most_seconds is None
        else f"no node follows the primary within {most_seconds:g} s",
    )


def _sorted(
    snapshot: Snapshot,
    name: str | None,
    against: Callable[[NodeStatus], Iterator[str]],
    nobody: str,
) -> Fit:
    nodes = snapshot.nodes if name is None else (snapshot.node(name),)
    reasons = {node.name: next(against(node), "") for node in nodes}
    serving = tuple(node for node, reason in reasons.items() if not reason)
    return Fit(
        serving,
        {node: reason for node, reason in reasons.items() if reason},
        "" if serving else nobody if name is None else reasons[name],
    )


def _against_primary(snapshot: Snapshot, node: NodeStatus) -> Iterator[str]:
    yield from _absent(node)
    if not node.writable_primary:
        yield _refuses_writes(node)
    if node.name != snapshot.primary:
        both = listed([each.name for each in snapshot.nodes if each.writable_primary])
        yield f"split brain: {both} accept writes"
    yield from _diverged(node)
    if node.superseded_by is not None:
        yield f"node {node.superseded_by} is the primary of a later epoch"
    if node.epoch is not None and snapshot.epoch is not None and node.epoch < snapshot.epoch:
        yield f"it runs in epoch {node.epoch}, the cluster is in epoch {snapshot.epoch}"


def _refuses_writes(node: NodeStatus) -> str:
    if node.actual_role is ServerRole.MASTER:
        return "it is not the leading master"
    if node.held is Hold.EPOCH:
        return "it refuses writes: the cluster is in a later epoch"
    if node.held is Hold.FOLLOWERS:
        return f"it refuses writes: fewer than {node.min_followers} nodes follow it"
    if node.held is Hold.LEASE:
        return "it refuses writes: its lease has ended"
    if node.held is Hold.SYNCHRONOUS:
        return "it refuses writes: too few secondaries acknowledge them"
    return f"it is a {node.actual_role} and refuses writes"


def _against_replica(
    snapshot: Snapshot, node: NodeStatus, most_seconds: float | None
) -> Iterator[str]:
    yield from _absent(node)
    if node.actual_role not in FOLLOWING:
        yield f"it is a {node.actual_role} and follows no node"
    yield from _diverged(node)
    yield from _cut_off(snapshot, node)
    if most_seconds is not None and node.lag_seconds is None:
        yield "its lag is unknown"
    elif most_seconds is not None and (node.lag_seconds or 0.0) > most_seconds:
        yield f"it is {node.lag_seconds:.1f} s behind, more than {most_seconds:g} s"


def _cut_off(snapshot: Snapshot, node: NodeStatus) -> Iterator[str]:
    """Yield the first broken link from a node to the primary."""
    by_name = {each.name: each for each in snapshot.nodes}
    for _hop in snapshot.nodes:
        if node.connected is not True:
            yield f"the link of node {node.name} to its upstream is down"
        upstream = by_name.get(node.upstream or "")
        if upstream is None:
            yield f"node {node.name} follows {node.upstream}, which is not a node of this cluster"
            return
        if upstream.name == snapshot.primary:
            return
        if upstream.actual_role not in FOLLOWING:
            yield f"node {node.name} follows {upstream.name}, which is not the primary"
        node = upstream
    yield "the nodes follow each other in a circle"


def _absent(node: NodeStatus) -> Iterator[str]:
    if node.actual_role is None:
        yield (
            f"it does not answer: {node.problem}"
            if node.problem
            else "another server answers at its address"
        )


def _diverged(node: NodeStatus) -> Iterator[str]:
    if node.out_of_line:
        known = node.condition not in (None, Condition.OK)
        said = node.condition if known else Condition.DIVERGED
        yield f"its history is not the cluster's: {said}"
