"""The links between the members of a cluster: who follows whom, and which Indico reads where."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterator, Sequence

from indico_zodbrepl.cluster.model import Role
from indico_zodbrepl.monitor.node_status import NodeStatus
from indico_zodbrepl.monitor.rules.replication import LARGE_LAG
from indico_zodbrepl.monitor.snapshot import IndicoStatus, Snapshot

Member = NodeStatus | IndicoStatus


class Health(enum.StrEnum):
    """State of a link; odd: its follower lags far behind, or should follow another node."""

    GOOD = "good"
    ODD = "odd"
    BROKEN = "broken"
    UNKNOWN = "unknown"


@dataclasses.dataclass(frozen=True)
class Link:
    """A link between two members of a cluster.

    Attributes:
        source, target: names; transactions flow from an Indico instance to its server, and from
            a node to its follower.
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
    """Return a name that is unique among nodes and instances."""
    return f"{'node' if isinstance(of, NodeStatus) else 'indico'} {of.name}"


def ties_of(snapshot: Snapshot) -> tuple[Tie, ...]:
    """Return all links between members of the cluster."""
    return (*_from_indico(snapshot), *_between_nodes(snapshot))


def _from_indico(snapshot: Snapshot) -> Iterator[Tie]:
    names = {node.name for node in snapshot.nodes}
    for instance in snapshot.indico:
        server = instance.server_node
        if server is None and instance.connected and len(names) == 1:
            server = snapshot.nodes[0].name
        if server in names and instance.connected:
            yield Tie(
                Link(instance.name, server, _of_instance(instance)), key(instance), f"node {server}"
            )


def _of_instance(instance: IndicoStatus) -> Health:
    if instance.waits:
        return Health.BROKEN
    return Health.ODD if instance.read_only else Health.GOOD


def _between_nodes(snapshot: Snapshot) -> Iterator[Tie]:
    leader = next((node for node in snapshot.nodes if node.leads), None)
    for node in snapshot.nodes:
        upstream = followed(snapshot, node)
        if upstream is not None:
            yield Tie(
                Link(upstream, node.name, _of_follower(snapshot, node), node),
                f"node {upstream}",
                key(node),
            )
        elif leader is not None and node.assigned_role in (Role.STORAGE, Role.ADMIN):
            health = Health.GOOD if node.reachable else Health.BROKEN
            yield Tie(Link(leader.name, node.name, health), key(leader), key(node))


def followed(snapshot: Snapshot, node: NodeStatus) -> str | None:
    """Return the node that a node follows; while it does not run, its assigned upstream."""
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
    in_order = (
        node.assigned_upstream in (None, upstream.name)
        and not node.out_of_line
        and (node.lag_seconds or 0.0) <= LARGE_LAG
    )
    return Health.GOOD if in_order else Health.ODD


def depths_of(snapshot: Snapshot, tied: Sequence[Tie]) -> dict[str, int]:
    """Return the column of each node: its distance from the primary.

    NEO's masters, storages and admin nodes have the columns 0, 1 and 2.
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
    """Return the nodes that follow no other one, writable ones first."""
    below_others = {tie.link.target for tie in tied if not tie.from_indico}
    return sorted(
        (node for node in snapshot.nodes if node.name not in below_others),
        key=lambda node: not node.writable_primary,
    )


def below(tied: Sequence[Tie], of: Member) -> list[Tie]:
    """Return the links to the clients of a node, then those to its followers."""
    own = key(of)
    return [
        *(tie for tie in tied if tie.from_indico and tie.end == own),
        *(tie for tie in tied if not tie.from_indico and tie.begin == own),
    ]


def other(snapshot: Snapshot, tie: Tie, than: Member) -> Member:
    """Return the other end of a link."""
    wanted = tie.end if tie.begin == key(than) else tie.begin
    everybody: list[Member] = [*snapshot.nodes, *snapshot.indico]
    return next(each for each in everybody if key(each) == wanted)
