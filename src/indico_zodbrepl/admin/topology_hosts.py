"""Positions in the drawing of a cluster of several hosts: a box around all that is on a host.

``wide`` has a row for each host, and the columns of ``topology.wide``.  ``tall``, for narrow
windows, has one box in a row, and all arrows beside the hosts.
"""

from __future__ import annotations

from collections.abc import Iterator

from indico_zodbrepl.admin.links import Member, Tie, key, ties_of
from indico_zodbrepl.admin.topology import (
    INDICO_WIDTH,
    LABEL_GAP,
    LANE,
    LINE,
    NODE_WIDTH,
    PADDING,
    PLAIN_GAP,
    ROW_GAP,
    TALL_GAP,
    TALL_WIDTH,
    Arrow,
    Box,
    Drawing,
    HostBox,
    Point,
    Sign,
    box_of,
    columns_of,
    labelled,
    lanes_of,
    sign_of,
    stacked,
    wide_arrow,
)
from indico_zodbrepl.monitor.host_status import HostStatus
from indico_zodbrepl.monitor.rules.facts import RUNNING
from indico_zodbrepl.monitor.snapshot import IndicoStatus, Snapshot

TITLE_WIDTH = 184
"""Width of the column of texts about a host, on its left."""
HOST_GAP = 14
PORT_OUT, PORT_IN, PORT_INDICO = -12, -3, 10
"""Where arrows touch a tall box, from its middle: to a follower, from an upstream, of Indico."""


def wide(snapshot: Snapshot) -> Drawing:
    """Return the drawing for wide windows."""
    ties = ties_of(snapshot)
    columns = [column for column in columns_of(snapshot, ties) if column]
    place = {key(each): number for number, column in enumerate(columns) for each in column}
    lefts, x = [], 1.0 + TITLE_WIDTH
    for number, column in enumerate(columns):
        if number:
            x += LABEL_GAP if labelled(column, ties) else PLAIN_GAP
        lefts.append(x)
        x += _width(column[0])
    right = x + PADDING
    boxes: dict[str, Box] = {}
    frames: list[tuple[HostStatus, float, float]] = []
    lanes = lanes_of(columns, ties)
    top = y = len(lanes) * LANE + 1.0
    for host, there in _groups(snapshot):
        rows = [[each for each in column if key(each) in there] for column in columns]
        tallest = max([_title_height(snapshot, host), *(stacked(row) for row in rows if row)])
        for left, row in zip(lefts, rows, strict=True):
            at = y + PADDING + (tallest - stacked(row)) / 2 if row else 0.0
            for each in row:
                box = boxes[key(each)] = box_of(snapshot, each, left, at, _width(each))
                at += box.height + ROW_GAP
        height = tallest + 2 * PADDING
        if host is not None:
            frames.append((host, y, height))
        y += height + HOST_GAP
    return Drawing(
        right + 1,
        max(y - HOST_GAP, top) + 1,
        tuple(boxes.values()),
        tuple(_straight(tie, boxes, place) or wide_arrow(tie, boxes, place, lanes) for tie in ties),
        tuple(
            _host_box(snapshot, host, (1.0, at), right - 1, height) for host, at, height in frames
        ),
    )


def _width(of: Member) -> float:
    return INDICO_WIDTH if isinstance(of, IndicoStatus) else NODE_WIDTH


def _groups(snapshot: Snapshot) -> Iterator[tuple[HostStatus | None, set[str]]]:
    """Yield each host with the keys of what is on it, then None with what is on no host."""
    members: list[Member] = [*snapshot.nodes, *snapshot.indico]
    for host in snapshot.hosts:
        yield host, {key(each) for each in members if each.host == host.name}
    names = {host.name for host in snapshot.hosts}
    if left := {key(each) for each in members if each.host not in names}:
        yield None, left


def _straight(tie: Tie, boxes: dict[str, Box], place: dict[str, int]) -> Arrow | None:
    """Return the arrow of a link that passes a column where that has no box; else None."""
    begin, end = boxes[tie.begin], boxes[tie.end]
    if place[tie.end] - place[tie.begin] < 2:
        return None
    # Below the middle, where arrows between neighbours and their labels are.
    back, into = end.x - PLAIN_GAP / 4, end.y + end.height - PADDING - 4
    out = min(max(into, begin.y + PADDING), begin.y + begin.height - PADDING)
    between = (box for box in boxes.values() if begin.right < box.x < end.x)
    if any(box.y - 2 < out < box.y + box.height + 2 for box in between):
        return None
    return Arrow(
        tie.link,
        ((begin.right, out), (back, out), (back, into), (end.x, into)),
        ((begin.right + back) / 2, out),
        tie.from_indico,
    )


def tall(snapshot: Snapshot) -> Drawing:
    """Return the drawing for narrow windows: the hosts below each other."""
    ties = ties_of(snapshot)
    lanes = {lane: number for number, lane in enumerate(dict.fromkeys(map(_lane, ties)))}
    left = 1.0 + len(lanes) * LANE
    x, right = left + PADDING, TALL_WIDTH - 1.0
    boxes: dict[str, Box] = {}
    frames: list[HostBox] = []
    y = 1.0
    for host, there in _groups(snapshot):
        top = y
        if host is not None:
            y += _title_height(snapshot, host) + PADDING
        members: list[Member] = [*snapshot.nodes, *snapshot.indico]
        for each in members:
            if key(each) in there:
                box = boxes[key(each)] = box_of(snapshot, each, x, y, right - PADDING - x)
                y += box.height + TALL_GAP
        y += PADDING - TALL_GAP if there else 0.0
        if host is not None:
            frames.append(_host_box(snapshot, host, (left, top), right - left, y - top))
        y += HOST_GAP
    arrows = tuple(_tall_arrow(tie, boxes, left - (lanes[_lane(tie)] + 0.5) * LANE) for tie in ties)
    return Drawing(
        TALL_WIDTH, max(y - HOST_GAP, 1.0) + 1, tuple(boxes.values()), arrows, tuple(frames)
    )


def _lane(tie: Tie) -> tuple[str, bool]:
    """Return what all links of one lane share: their server or their upstream."""
    return (tie.end if tie.from_indico else tie.begin), tie.from_indico


def _tall_arrow(tie: Tie, boxes: dict[str, Box], lane: float) -> Arrow:
    begin, end = boxes[tie.begin], boxes[tie.end]
    out = begin.middle + (PORT_INDICO if tie.from_indico else PORT_OUT)
    into = end.middle + (PORT_INDICO if tie.from_indico else PORT_IN)
    return Arrow(
        tie.link,
        ((begin.x, out), (lane, out), (lane, into), (end.x, into)),
        (lane, (out + into) / 2),
        tie.from_indico,
    )


def _host_box(
    snapshot: Snapshot, host: HostStatus, corner: Point, width: float, height: float
) -> HostBox:
    member = None if snapshot.etcd is None else snapshot.etcd.on(host.name)
    automates = _automates(snapshot, host)
    return HostBox(*corner, width, height, host, member, automates, _sign(snapshot, host))


def _automates(snapshot: Snapshot, host: HostStatus) -> bool:
    return snapshot.automation is not None and any(
        node.managed and node.host == host.name for node in snapshot.nodes
    )


def _sign(snapshot: Snapshot, host: HostStatus) -> Sign:
    if not host.up:
        return Sign.UNREACHABLE
    member = None if snapshot.etcd is None else snapshot.etcd.on(host.name)
    lacks_member = member is not None and bool(member.problem)
    stopped = host.automation is not None and host.automation.state not in RUNNING
    return sign_of(snapshot, host.name, lacks_member or stopped)


def _title_height(snapshot: Snapshot, host: HostStatus | None) -> float:
    """Return the height of the texts about a host: name, agent, etcd, automation."""
    if host is None:
        return 0.0
    member = None if snapshot.etcd is None else snapshot.etcd.on(host.name)
    return PADDING + LINE * (2 + (member is not None) + _automates(snapshot, host))
