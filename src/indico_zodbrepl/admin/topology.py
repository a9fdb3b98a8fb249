"""Positions of boxes and arrows in the drawing of a cluster.

``wide`` has a column for Indico and one for each level of replication.  ``tall`` is a tree with one
box in a row, for narrow windows.  The template writes the texts in the boxes.
"""

from __future__ import annotations

import dataclasses
import enum
import itertools
from collections.abc import Callable, Sequence

from indico_zodbrepl.admin.links import (
    Link,
    Member,
    Tie,
    below,
    depths_of,
    key,
    other,
    roots,
    ties_of,
)
from indico_zodbrepl.monitor.host_status import EtcdMember, HostStatus
from indico_zodbrepl.monitor.node_status import Mark, NodeStatus
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
class HostBox:
    """The box of a host, around those of its nodes and Indico instances.

    Attributes:
        x, y, width, height: in units of the drawing.
        host: its state.
        member: of etcd on it; None without one, or if nothing is known of it.
        automates: True if it takes part in the election of the leader.
        sign: its worst state.
    """

    x: float
    y: float
    width: float
    height: float
    host: HostStatus
    member: EtcdMember | None
    automates: bool
    sign: Sign


@dataclasses.dataclass(frozen=True)
class Drawing:
    """The positions of all that is drawn; ``hosts`` is empty if everything runs on one."""

    width: float
    height: float
    boxes: tuple[Box, ...]
    arrows: tuple[Arrow, ...]
    hosts: tuple[HostBox, ...] = ()


Layout = Callable[[Snapshot], Drawing]
"""``wide`` or ``tall``."""


def lines(node: NodeStatus) -> int:
    """Return the number of lines that the template writes for a node."""
    return 3 + min(len(node.facts), FACTS)


def height_of(of: Member) -> float:
    """Return the height of the box of a node or an instance."""
    count = lines(of) if isinstance(of, NodeStatus) else 2
    return 2 * PADDING + count * LINE


def wide(snapshot: Snapshot) -> Drawing:
    """Return the drawing for wide windows."""
    ties = ties_of(snapshot)
    columns = [column for column in columns_of(snapshot, ties) if column]
    lanes = lanes_of(columns, ties)
    above = len(lanes) * LANE
    tallest = max((stacked(column) for column in columns), default=0.0)
    boxes: dict[str, Box] = {}
    x = 1.0
    for number, column in enumerate(columns):
        indico = isinstance(column[0], IndicoStatus)
        width = INDICO_WIDTH if indico else NODE_WIDTH
        if number:
            x += PLAIN_GAP if not labelled(column, ties) else LABEL_GAP
        y = above + 1 + (tallest - stacked(column)) / 2
        for each in column:
            boxes[key(each)] = box_of(snapshot, each, x, y, width)
            y += height_of(each) + ROW_GAP
        x += width
    place = {key(each): number for number, column in enumerate(columns) for each in column}
    arrows = tuple(wide_arrow(tie, boxes, place, lanes) for tie in ties)
    return Drawing(x + 1, above + tallest + 2, tuple(boxes.values()), arrows)


Column = Sequence[NodeStatus] | Sequence[IndicoStatus]


def columns_of(snapshot: Snapshot, ties: Sequence[Tie]) -> list[Column]:
    """Return the instances, then the nodes of each level of replication."""
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


def labelled(column: Column, ties: Sequence[Tie]) -> bool:
    names = {key(each) for each in column}
    return any(tie.link.follower is not None and tie.end in names for tie in ties)


def stacked(column: Sequence[Member]) -> float:
    """Return the height of boxes that are drawn below each other."""
    return sum(map(height_of, column)) + ROW_GAP * (len(column) - 1)


def box_of(snapshot: Snapshot, of: Member, x: float, y: float, width: float) -> Box:
    """Return the box of a node or an instance at a position."""
    marked = sign(snapshot, of)
    if isinstance(of, NodeStatus):
        return Box(x, y, width, height_of(of), node=of, sign=marked)
    return Box(x, y, width, height_of(of), instance=of, sign=marked)


def sign(snapshot: Snapshot, of: Member) -> Sign:
    """Return the state of a node or an instance."""
    if of.mark is Mark.UNREACHABLE:
        return Sign.UNREACHABLE
    issues = isinstance(of, NodeStatus) and bool(of.oddities)
    return sign_of(snapshot, of.name, issues or of.mark is Mark.DIFFERS)


def sign_of(snapshot: Snapshot, name: str, differs: bool) -> Sign:
    """Return the state of what answers: by the problems of that name, and if it differs."""
    levels = {alert.level for alert in snapshot.warnings if alert.subject == name}
    if Level.CRITICAL in levels:
        return Sign.CRITICAL
    return Sign.WARNING if differs or Level.WARNING in levels else Sign.GOOD


def lanes_of(columns: Sequence[Column], ties: Sequence[Tie]) -> dict[str, float]:
    """Return heights above the boxes, for links that pass a column, by their ends."""
    place = {key(each): number for number, column in enumerate(columns) for each in column}
    far = sorted({tie.end for tie in ties if abs(place[tie.end] - place[tie.begin]) != 1})
    return {end: LANE / 2 + number * LANE for number, end in enumerate(far)}


def wide_arrow(
    tie: Tie, boxes: dict[str, Box], place: dict[str, int], lanes: dict[str, float]
) -> Arrow:
    """Return the arrow of a link between columns; from lane to lane if it passes one."""
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
        box = boxes[key(each)] = box_of(snapshot, each, x, y, TALL_WIDTH - x - 1)
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
