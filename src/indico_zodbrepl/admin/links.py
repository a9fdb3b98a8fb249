"""Who follows whom, and which server each Indico instance talks to.  Pure."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterator, Sequence

from indico_zodbrepl.cluster.model import Role
from indico_zodbrepl.monitor.rules.links import LARGE_LAG
from indico_zodbrepl.monitor.snapshot import IndicoStatus, NodeStatus, Snapshot

Member = NodeStatus | IndicoStatus


class Health(enum.StrEnum):
    """How a link stands; odd is one to a node far behind, or that should follow another."""

    GOOD = "good"
    ODD = "odd"
    BROKEN = "broken"
    UNKNOWN = "unknown"


@dataclasses.dataclass(frozen=True)
class Link:
    """A link between two of a cluster.

    Attributes:
        source, target: names; transactions go from a source to a follower, and an Indico
            instance is the source of what it saves.
        follower: the node that follows; None for an Indico instance and within NEO.
    """

    source: str
    target: str
    health: Health
    follower: NodeStatus | None = None


@dataclasses.dataclass(frozen=True)
class Tie:
    """A link between boxes; ``begin`` and ``end`` are their keys."""

    link: Link
    begin: str
    end: str

    @property
    def from_indico(self) -> bool:
        return self.begin.startswith("indico ")


def key(of: Member) -> str:
    """A name that a node and an instance can't share."""
    return f"{'node' if isinstance(of, NodeStatus) else 'indico'} {of.name}"


def ties(snapshot: Snapshot) -> tuple[Tie, ...]:
    """All links whose both ends are in the cluster."""
    return (*_from_indico(snapshot), *_between_nodes(snapshot))


def _from_indico(snapshot: Snapshot) -> Iterator[Tie]:
    names = {node.name for node in snapshot.nodes}
    for instance in snapshot.indico:
        server = instance.server_node
        if server is None and instance.connected and len(names) == 1:
            server = snapshot.nodes[0].name
        if server in names and instance.connected:
            yield Tie(Link(instance.name, server, _of_instance(instance)), key(instance),
                      f"node {server}")


def _of_instance(instance: IndicoStatus) -> Health:
    if instance.waits:
        return Health.BROKEN
    return Health.ODD if instance.read_only else Health.GOOD


def _between_nodes(snapshot: Snapshot) -> Iterator[Tie]:
    leader = next((node for node in snapshot.nodes if node.leads), None)
    for node in snapshot.nodes:
        upstream = followed(snapshot, node)
        if upstream is not None:
            yield Tie(Link(upstream, node.name, _of_follower(snapshot, node), node),
                      f"node {upstream}", key(node))
        elif leader is not None and node.assigned_role in (Role.STORAGE, Role.ADMIN):
            health = Health.GOOD if node.reachable else Health.BROKEN
            yield Tie(Link(leader.name, node.name, health), key(leader), key(node))


def followed(snapshot: Snapshot, node: NodeStatus) -> str | None:
    """The node that a node follows, or that it is meant to follow while it doesn't run."""
    if node.writable_primary:
        return None
    upstream = node.upstream or (node.assigned_upstream if node.assigned_role.follows else None)
    names = {other.name for other in snapshot.nodes if other is not node}
    return upstream if upstream in names else None


def _of_follower(snapshot: Snapshot, node: NodeStatus) -> Health:
    upstream = snapshot.node(followed(snapshot, node) or node.name)
    if not node.reachable or not upstream.reachable or node.connected is False:
        return Health.BROKEN
    if node.connected is None:
        return Health.UNKNOWN
    in_order = (node.assigned_upstream in (None, upstream.name) and not node.out_of_line
                and (node.lag_seconds or 0.0) <= LARGE_LAG)
    return Health.GOOD if in_order else Health.ODD


def depths(snapshot: Snapshot, tied: Sequence[Tie]) -> dict[str, int]:
    """How many steps each node is away from what it gets its transactions from.

    NEO's masters, storages and admin nodes are beside each other in this order.
    """
    upstream = {tie.link.target: tie.link.source for tie in tied if not tie.from_indico}
    by_role = {Role.MASTER: 0, Role.STORAGE: 1, Role.ADMIN: 2}

    def depth(node: NodeStatus) -> int:
        if node.assigned_role in by_role:
            return by_role[node.assigned_role]
        found, seen, at = 0, {node.name}, node.name
        while (above := upstream.get(at)) is not None and above not in seen:
            found, at = found + 1, above
            seen.add(above)
        return found

    return {node.name: depth(node) for node in snapshot.nodes}


def roots(snapshot: Snapshot, tied: Sequence[Tie]) -> list[NodeStatus]:
    """Nodes that follow nobody, those that take writes first."""
    below_others = {tie.link.target for tie in tied if not tie.from_indico}
    return sorted((node for node in snapshot.nodes if node.name not in below_others),
                  key=lambda node: not node.writable_primary)


def below(tied: Sequence[Tie], of: Member) -> list[Tie]:
    """The links to those who talk to a node, then to those who follow it."""
    own = key(of)
    return [*(tie for tie in tied if tie.from_indico and tie.end == own),
            *(tie for tie in tied if not tie.from_indico and tie.begin == own)]


def other(snapshot: Snapshot, tie: Tie, than: Member) -> Member:
    """The other end of a link."""
    wanted = tie.end if tie.begin == key(than) else tie.begin
    everybody: list[Member] = [*snapshot.nodes, *snapshot.indico]
    return next(each for each in everybody if key(each) == wanted)
