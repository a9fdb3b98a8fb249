"""Positions of boxes and arrows in the drawing of a cluster.

``wide`` has a column for Indico and one for each level of replication.  ``tall`` is a tree with one
box in a row, for narrow windows.  The template writes the texts in the boxes.
"""

from __future__ import annotations

import dataclasses
import enum
import itertools
from collections.abc import Callable, Iterator, Sequence

from indico_zodbrepl.cluster.model import Role
from indico_zodbrepl.monitor.node_status import Mark, NodeStatus
from indico_zodbrepl.monitor.rules.replication import LARGE_LAG
from indico_zodbrepl.monitor.snapshot import IndicoStatus, Snapshot
from indico_zodbrepl.probing.answers import Level

LINE = 17
"""Height of a line of text."""
PADDING = 10
FACTS = 3
"""Facts of an engine in a box; the page lists all of them below the table."""
NODE_WIDTH, INDICO_WIDTH = 252, 176
ROW_GAP = 22
LABEL_GAP, PLAIN_GAP = 118, 64
"""Between columns, with and without room for labels of arrows."""
LANE = 12
TALL_WIDTH, INDENT, TALL_GAP = 356, 40, 14

Point = tuple[float, float]
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


class Sign(enum.StrEnum):
    """State of a node or an instance, by its mark and its problems."""

    GOOD = "good"
    WARNING = "warning"
    CRITICAL = "critical"
    UNREACHABLE = "unreachable"


@dataclasses.dataclass(frozen=True)
class Box:
    """The box of a node or an Indico instance; one of the two is not None.

    Attributes:
        x, y, width, height: in units of the drawing: unscaled pixels.
        sign: its worst state.
    """

    x: float
    y: float
    width: float
    height: float
    node: NodeStatus | None = None
    instance: IndicoStatus | None = None
    sign: Sign = Sign.GOOD

    @property
    def middle(self) -> float:
        return self.y + self.height / 2

    @property
    def right(self) -> float:
        return self.x + self.width


@dataclasses.dataclass(frozen=True)
class Arrow:
    """A link as a line from corner to corner, with the head at its end.

    Attributes:
        sign: place of the cross if it is broken.
        label: middle of the label above it; None if there is no room.
    """

    link: Link
    points: tuple[Point, ...]
    sign: Point
    from_indico: bool
    label: Point | None = None

    @property
    def path(self) -> str:
        return "M" + "L".join(f"{x:g} {y:g}" for x, y in self.points)


@dataclasses.dataclass(frozen=True)
class Drawing:
    width: float
    height: float
    boxes: tuple[Box, ...]
    arrows: tuple[Arrow, ...]


Layout = Callable[[Snapshot], Drawing]
"""``wide`` or ``tall``."""


def lines(node: NodeStatus) -> int:
    """Return the number of lines that the template writes for a node."""
    return 3 + min(len(node.facts), FACTS)


def _height(of: Member) -> float:
    count = lines(of) if isinstance(of, NodeStatus) else 2
    return 2 * PADDING + count * LINE


def wide(snapshot: Snapshot) -> Drawing:
    """Return the drawing for wide windows."""
    ties = ties_of(snapshot)
    columns = [column for column in _columns(snapshot, ties) if column]
    lanes = _lanes(columns, ties)
    above = len(lanes) * LANE
    tallest = max((_stacked(column) for column in columns), default=0.0)
    boxes: dict[str, Box] = {}
    x = 1.0
    for number, column in enumerate(columns):
        indico = isinstance(column[0], IndicoStatus)
        width = INDICO_WIDTH if indico else NODE_WIDTH
        if number:
            x += PLAIN_GAP if not _labelled(column, ties) else LABEL_GAP
        y = above + 1 + (tallest - _stacked(column)) / 2
        for each in column:
            boxes[key(each)] = _box(snapshot, each, x, y, width)
            y += _height(each) + ROW_GAP
        x += width
    place = {key(each): number for number, column in enumerate(columns) for each in column}
    arrows = tuple(_wide_arrow(tie, boxes, place, lanes) for tie in ties)
    return Drawing(x + 1, above + tallest + 2, tuple(boxes.values()), arrows)


Column = Sequence[NodeStatus] | Sequence[IndicoStatus]


def _columns(snapshot: Snapshot, ties: Sequence[Tie]) -> list[Column]:
    depths = depths_of(snapshot, ties)
    deepest = max(depths.values(), default=0)
    nodes = [
        [node for node in snapshot.nodes if depths[node.name] == depth]
        for depth in range(deepest + 1)
    ]
    nodes[0].sort(key=lambda node: not node.writable_primary)
    for before, column in itertools.pairwise(nodes):
        order = {node.name: number for number, node in enumerate(before)}
        upstream = {tie.link.target: tie.link.source for tie in ties if not tie.from_indico}
        column.sort(key=lambda node: order.get(upstream.get(node.name, ""), len(order)))
    return [snapshot.indico, *nodes]


def _labelled(column: Column, ties: Sequence[Tie]) -> bool:
    names = {key(each) for each in column}
    return any(tie.link.follower is not None and tie.end in names for tie in ties)


def _stacked(column: Column) -> float:
    return sum(map(_height, column)) + ROW_GAP * (len(column) - 1)


def _box(snapshot: Snapshot, of: Member, x: float, y: float, width: float) -> Box:
    sign = _sign(snapshot, of)
    if isinstance(of, NodeStatus):
        return Box(x, y, width, _height(of), node=of, sign=sign)
    return Box(x, y, width, _height(of), instance=of, sign=sign)


def _sign(snapshot: Snapshot, of: Member) -> Sign:
    if of.mark is Mark.UNREACHABLE:
        return Sign.UNREACHABLE
    levels = {alert.level for alert in snapshot.warnings if alert.subject == of.name}
    if Level.CRITICAL in levels:
        return Sign.CRITICAL
    differs = of.mark is Mark.DIFFERS or Level.WARNING in levels
    return Sign.WARNING if differs else Sign.GOOD


def _lanes(columns: Sequence[Column], ties: Sequence[Tie]) -> dict[str, float]:
    """Return heights above the boxes, for links that pass a column, by their ends."""
    place = {key(each): number for number, column in enumerate(columns) for each in column}
    far = sorted({tie.end for tie in ties if abs(place[tie.end] - place[tie.begin]) != 1})
    return {end: LANE / 2 + number * LANE for number, end in enumerate(far)}


def _wide_arrow(
    tie: Tie, boxes: dict[str, Box], place: dict[str, int], lanes: dict[str, float]
) -> Arrow:
    begin, end = boxes[tie.begin], boxes[tie.end]
    if tie.end in lanes and abs(place[tie.end] - place[tie.begin]) != 1:
        lane, out = lanes[tie.end], begin.right + PLAIN_GAP / 3
        back, into = end.x - PLAIN_GAP / 4, end.y + PADDING + 4
        return Arrow(
            tie.link,
            (
                (begin.right, begin.middle),
                (out, begin.middle),
                (out, lane),
                (back, lane),
                (back, into),
                (end.x, into),
            ),
            ((out + back) / 2, lane),
            tie.from_indico,
        )
    bend = begin.right + (PLAIN_GAP / 2 if tie.from_indico else 14)
    middle = (bend + end.x) / 2
    return Arrow(
        tie.link,
        (
            (begin.right, begin.middle),
            (bend, begin.middle),
            (bend, end.middle),
            (end.x, end.middle),
        ),
        (middle, end.middle),
        tie.from_indico,
        (middle, end.middle - 9),
    )


def tall(snapshot: Snapshot) -> Drawing:
    """Return the drawing for narrow windows: below each node its clients and followers."""
    ties = ties_of(snapshot)
    boxes: dict[str, Box] = {}
    arrows: list[Arrow] = []
    y = 1.0

    def put(each: Member, depth: int) -> None:
        nonlocal y
        x = 1 + depth * INDENT
        box = boxes[key(each)] = _box(snapshot, each, x, y, TALL_WIDTH - x - 1)
        y = box.y + box.height + TALL_GAP
        for tie in below(ties, each):
            child = other(snapshot, tie, each)
            if key(child) in boxes:
                continue
            put(child, depth + 1)
            arrows.append(_tall_arrow(tie, box, boxes[key(child)]))

    for root in roots(snapshot, ties):
        put(root, 0)
    left: list[Member] = [*snapshot.indico, *snapshot.nodes]
    for each in left:
        if key(each) not in boxes:
            put(each, 0)
    return Drawing(TALL_WIDTH, max(y - TALL_GAP + 1, 1.0), tuple(boxes.values()), tuple(arrows))


def _tall_arrow(tie: Tie, parent: Box, child: Box) -> Arrow:
    bottom = parent.y + parent.height
    trunk = parent.x + (INDENT * 0.3 if tie.from_indico else INDENT * 0.6)
    points = (child.x, child.middle), (trunk, child.middle), (trunk, bottom)
    return Arrow(
        tie.link,
        points if tie.from_indico else points[::-1],
        (trunk, child.middle),
        tie.from_indico,
    )


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
