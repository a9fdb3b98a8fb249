"""Which nodes a load balancer may send clients to.  Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping

from indico_zodbrepl.monitor.snapshot import NodeStatus, Snapshot
from indico_zodbrepl.monitor.words import listed
from indico_zodbrepl.node.lineage import Condition
from indico_zodbrepl.probing.answers import Hold, ServerRole

FOLLOWING = (ServerRole.SECONDARY, ServerRole.RELAY)


@dataclasses.dataclass(frozen=True)
class Fit:
    """Who may be sent clients.

    Attributes:
        nodes: those that do.
        reasons: why each of the others doesn't, one line by the node's name.
        why: why nobody does; empty when somebody does.
    """

    nodes: tuple[str, ...]
    reasons: Mapping[str, str]
    why: str


def primaries(snapshot: Snapshot, name: str | None = None) -> Fit:
    """The primary: the one node that takes writes, and is in line with the cluster.

    Args:
        name: look at this node only; KeyError when there is none of that name.
    """
    return _sorted(snapshot, name, lambda node: _against_primary(snapshot, node),
                   "no node is a writable primary that is in line")


def replicas(snapshot: Snapshot, most_seconds: float | None, name: str | None = None) -> Fit:
    """The nodes that follow the primary, directly or over relays, and are in line.

    Args:
        most_seconds: lag above which a node does not serve, nor one whose lag is not known; None:
            whatever its lag.
        name: as for ``primaries``.
    """
    return _sorted(snapshot, name, lambda node: _against_replica(snapshot, node, most_seconds),
                   "no node follows the primary" if most_seconds is None else
                   f"no node follows the primary within {most_seconds:g} s")


def _sorted(snapshot: Snapshot, name: str | None,
            against: Callable[[NodeStatus], Iterator[str]], nobody: str) -> Fit:
    nodes = snapshot.nodes if name is None else (snapshot.node(name),)
    reasons = {node.name: next(against(node), "") for node in nodes}
    serving = tuple(node for node, reason in reasons.items() if not reason)
    return Fit(serving, {node: reason for node, reason in reasons.items() if reason},
                   "" if serving else nobody if name is None else reasons[name])


def _against_primary(snapshot: Snapshot, node: NodeStatus) -> Iterator[str]:
    yield from _absent(node)
    if not node.writable_primary:
        yield _takes_no_writes(node)
    if node.name != snapshot.primary:
        both = listed([each.name for each in snapshot.nodes if each.writable_primary])
        yield f"more than one node takes writes: {both}"
    yield from _out_of_line(node)
    if node.superseded_by is not None:
        yield f"node {node.superseded_by} is the primary of a later epoch"
    if node.epoch is not None and snapshot.epoch is not None and node.epoch < snapshot.epoch:
        yield f"it runs in epoch {node.epoch}, the cluster is in epoch {snapshot.epoch}"


def _takes_no_writes(node: NodeStatus) -> str:
    if node.actual_role is ServerRole.MASTER:
        return "it is not the master that leads"
    if node.held is Hold.EPOCH:
        return "it takes no writes: the cluster is in a later epoch"
    if node.held is Hold.FOLLOWERS:
        return f"it takes no writes: fewer than {node.min_followers} nodes follow it"
    return f"it is a {node.actual_role} and takes no writes"


def _against_replica(snapshot: Snapshot, node: NodeStatus,
                     most_seconds: float | None) -> Iterator[str]:
    yield from _absent(node)
    if node.actual_role not in FOLLOWING:
        yield f"it is a {node.actual_role} and follows nobody"
    yield from _out_of_line(node)
    yield from _cut_off(snapshot, node)
    if most_seconds is not None and node.lag_seconds is None:
        yield "its lag is not known"
    elif most_seconds is not None and (node.lag_seconds or 0.0) > most_seconds:
        yield f"it is {node.lag_seconds:.1f} s behind, more than {most_seconds:g} s"


def _cut_off(snapshot: Snapshot, node: NodeStatus) -> Iterator[str]:
    """The first link from a node up to the primary that does not stand."""
    by_name = {each.name: each for each in snapshot.nodes}
    for _hop in snapshot.nodes:
        if node.connected is not True:
            yield f"the link of node {node.name} to its upstream is down"
        upstream = by_name.get(node.upstream or "")
        if upstream is None:
            yield f"node {node.name} follows {node.upstream}, which is no node of this cluster"
            return
        if upstream.name == snapshot.primary:
            return
        if upstream.actual_role not in FOLLOWING:
            yield f"node {node.name} follows {upstream.name}, which is not the primary"
        node = upstream
    yield "the nodes follow each other in a circle"


def _absent(node: NodeStatus) -> Iterator[str]:
    if node.actual_role is None:
        yield f"it does not answer: {node.problem}" if node.problem else "it is no node of ours"


def _out_of_line(node: NodeStatus) -> Iterator[str]:
    if node.out_of_line:
        known = node.condition not in (None, Condition.OK)
        said = node.condition if known else Condition.DIVERGED
        yield f"its history is not the cluster's: {said}"
