"""Where the boxes and arrows of the picture of a cluster are.  Pure: snapshot in, places out.

``wide`` has a column for Indico and one for each step away from the primary; ``tall`` is a tree,
a row each, for narrow windows.  What is written in a box is the template's part.
"""

from __future__ import annotations

import dataclasses
import enum
import itertools
from collections.abc import Callable, Sequence

from indico_zodbrepl.admin import links
from indico_zodbrepl.admin.links import Link, Member, Tie
from indico_zodbrepl.monitor.snapshot import IndicoStatus, Level, Mark, NodeStatus, Snapshot

LINE = 17
"""Height of a line of text."""
PADDING = 10
FACTS = 3
"""Of an engine, in a box; all of them are below the table."""
NODE_WIDTH, INDICO_WIDTH = 252, 176
ROW_GAP = 22
LABEL_GAP, PLAIN_GAP = 118, 64
"""Between columns: with room for a label on the arrows, and without."""
LANE = 12
TALL_WIDTH, INDENT, TALL_GAP = 356, 40, 14


Point = tuple[float, float]


class Sign(enum.StrEnum):
    """How a node or an instance does: by its mark, and by the problems that are about it."""

    GOOD = "good"
    WARNING = "warning"
    CRITICAL = "critical"
    UNREACHABLE = "unreachable"


@dataclasses.dataclass(frozen=True)
class Box:
    """A node or an Indico instance: exactly one of the two is there.

    Attributes:
        x, y, width, height: in the units of the drawing, which are pixels when it isn't scaled.
        sign: how it does, at its worst.
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
    """A link with its way from corner to corner, the head at its end.

    Attributes:
        sign: where a cross stands when it is broken.
        label: where the middle of a label above it is; None where there is no room.
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
    """Lines of text that the template writes for a node."""
    return 3 + min(len(node.facts), FACTS)


def _height(of: Member) -> float:
    count = lines(of) if isinstance(of, NodeStatus) else 2
    return 2 * PADDING + count * LINE


def wide(snapshot: Snapshot) -> Drawing:
    """For windows with room for columns beside each other."""
    ties = links.ties(snapshot)
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
            boxes[links.key(each)] = _box(snapshot, each, x, y, width)
            y += _height(each) + ROW_GAP
        x += width
    place = {links.key(each): number for number, column in enumerate(columns) for each in column}
    arrows = tuple(_wide_arrow(tie, boxes, place, lanes) for tie in ties)
    return Drawing(x + 1, above + tallest + 2, tuple(boxes.values()), arrows)


Column = Sequence[NodeStatus] | Sequence[IndicoStatus]


def _columns(snapshot: Snapshot, ties: Sequence[Tie]) -> list[Column]:
    depths = links.depths(snapshot, ties)
    deepest = max(depths.values(), default=0)
    nodes = [[node for node in snapshot.nodes if depths[node.name] == depth]
             for depth in range(deepest + 1)]
    nodes[0].sort(key=lambda node: not node.writable_primary)
    for before, column in itertools.pairwise(nodes):
        order = {node.name: number for number, node in enumerate(before)}
        upstream = {tie.link.target: tie.link.source for tie in ties if not tie.from_indico}
        column.sort(key=lambda node: order.get(upstream.get(node.name, ""), len(order)))
    return [snapshot.indico, *nodes]


def _labelled(column: Column, ties: Sequence[Tie]) -> bool:
    names = {links.key(each) for each in column}
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
    """Heights above the boxes for links that pass a column, by where they end."""
    place = {links.key(each): number for number, column in enumerate(columns) for each in column}
    far = sorted({tie.end for tie in ties if abs(place[tie.end] - place[tie.begin]) != 1})
    return {end: LANE / 2 + number * LANE for number, end in enumerate(far)}


def _wide_arrow(tie: Tie, boxes: dict[str, Box], place: dict[str, int],
                lanes: dict[str, float]) -> Arrow:
    begin, end = boxes[tie.begin], boxes[tie.end]
    if tie.end in lanes and abs(place[tie.end] - place[tie.begin]) != 1:
        lane, out = lanes[tie.end], begin.right + PLAIN_GAP / 3
        back, into = end.x - PLAIN_GAP / 4, end.y + PADDING + 4
        return Arrow(tie.link, ((begin.right, begin.middle), (out, begin.middle), (out, lane),
                                (back, lane), (back, into), (end.x, into)),
                     ((out + back) / 2, lane), tie.from_indico)
    bend = begin.right + (PLAIN_GAP / 2 if tie.from_indico else 14)
    middle = (bend + end.x) / 2
    return Arrow(tie.link, ((begin.right, begin.middle), (bend, begin.middle),
                            (bend, end.middle), (end.x, end.middle)),
                 (middle, end.middle), tie.from_indico, (middle, end.middle - 9))


def tall(snapshot: Snapshot) -> Drawing:
    """For narrow windows: below each node those who talk to it and those who follow it."""
    ties = links.ties(snapshot)
    boxes: dict[str, Box] = {}
    arrows: list[Arrow] = []
    y = 1.0

    def put(each: Member, depth: int) -> None:
        nonlocal y
        x = 1 + depth * INDENT
        box = boxes[links.key(each)] = _box(snapshot, each, x, y, TALL_WIDTH - x - 1)
        y = box.y + box.height + TALL_GAP
        for tie in links.below(ties, each):
            child = links.other(snapshot, tie, each)
            if links.key(child) in boxes:
                continue
            put(child, depth + 1)
            arrows.append(_tall_arrow(tie, box, boxes[links.key(child)]))

    for root in links.roots(snapshot, ties):
        put(root, 0)
    left: list[Member] = [*snapshot.indico, *snapshot.nodes]
    for each in left:
        if links.key(each) not in boxes:
            put(each, 0)
    return Drawing(TALL_WIDTH, max(y - TALL_GAP + 1, 1.0), tuple(boxes.values()), tuple(arrows))


def _tall_arrow(tie: Tie, parent: Box, child: Box) -> Arrow:
    bottom = parent.y + parent.height
    trunk = parent.x + (INDENT * 0.3 if tie.from_indico else INDENT * 0.6)
    points = (child.x, child.middle), (trunk, child.middle), (trunk, bottom)
    return Arrow(tie.link, points if tie.from_indico else points[::-1],
                 (trunk, child.middle), tie.from_indico)
