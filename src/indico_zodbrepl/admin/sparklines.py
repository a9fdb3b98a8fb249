"""Lag over the last hour as lines to draw.  Pure: numbers in, paths of an SVG out.

A plot is WIDTH by HEIGHT units and may be stretched; words are put beside it, not into it.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Sequence

from indico_zodbrepl.admin import lags
from indico_zodbrepl.admin.lags import Hour, Slot

WIDTH, HEIGHT = 240, 60
LEAST = 1.0
"""Seconds; the top of a plot is no lower, so that what is nothing looks like nothing."""
MOMENTS = 5
"""Times that are written below a plot, evenly apart."""


@dataclasses.dataclass(frozen=True)
class Plot:
    """The lag of one node, ready to draw.

    Attributes:
        line: path of the lag, a piece for each stretch in which it is known.
        area: the same closed along the bottom.
        gaps: x and width of each stretch in which it isn't known though something was kept.
        top: seconds at the upper edge.
        worst, worst_at: the largest lag of the hour in seconds, and when, seconds since 1970;
            None when none is known.
        latest: the newest slot's; None when unknown.
        known, unknown: how many slots there are of each.
        moments: times below the plot, seconds since 1970, the first at its left edge.
    """

    line: str
    area: str
    gaps: tuple[tuple[float, float], ...]
    top: float
    worst: float | None
    worst_at: float | None
    latest: float | None
    known: int
    unknown: int
    moments: tuple[float, ...]


def plot(hour: Hour, name: str) -> Plot | None:
    """The plot of a node; None when nothing was kept of it."""
    slots = hour.nodes.get(name)
    if slots is None:
        return None
    highest = max((slot for slot in slots if slot is not None and slot.worst is not None),
                  key=lambda slot: slot.worst or 0.0, default=None)
    worst = None if highest is None else highest.worst
    top = _top(worst or 0.0)
    stretches = list(_stretches(slots))
    pieces = [piece for kind, piece in stretches if kind == "known"]
    gaps = [piece for kind, piece in stretches if kind == "unknown"]
    lines = [_line(slots, piece, top) for piece in pieces]
    newest = next((slot for slot in reversed(slots) if slot is not None), None)
    span = lags.SLOTS * lags.WIDTH
    return Plot(
        line=" ".join(lines),
        area=" ".join(f"{line}V{HEIGHT}H{_x(piece[0])}Z"
                      for line, piece in zip(lines, pieces, strict=True)),
        gaps=tuple((_x(piece[0]), _x(piece[-1] + 1) - _x(piece[0])) for piece in gaps),
        top=top, worst=worst, worst_at=None if highest is None else highest.at,
        latest=None if newest is None else newest.worst,
        known=sum(map(len, pieces)), unknown=sum(map(len, gaps)),
        moments=tuple(hour.begins_at + span * step / (MOMENTS - 1) for step in range(MOMENTS)))


def _top(worst: float) -> float:
    """The upper edge for a largest value: 1, 2 or 5 times a power of ten."""
    step = LEAST
    for factor in itertools.cycle((2.0, 2.5, 2.0)):
        if step >= worst:
            return step
        step *= factor
    raise AssertionError("the steps never end")


def _kind(slot: Slot | None) -> str:
    if slot is None:
        return "missing"
    return "unknown" if slot.worst is None else "known"


def _stretches(slots: Sequence[Slot | None]) -> Iterator[tuple[str, list[int]]]:
    """Neighbouring slots of one kind: the kind, and their positions."""
    for kind, those in itertools.groupby(range(len(slots)), key=lambda at: _kind(slots[at])):
        yield kind, list(those)


def _x(position: float) -> float:
    return round(position * WIDTH / lags.SLOTS, 2)


def _y(seconds: float, top: float) -> float:
    return round(HEIGHT * (1 - seconds / top), 2)


def _line(slots: Sequence[Slot | None], piece: Sequence[int], top: float) -> str:
    """Level within each slot, so that a single one shows too."""
    points: list[str] = []
    for position in piece:
        slot = slots[position]
        y = _y((slot.worst if slot else None) or 0.0, top)
        points.append(f"{'L' if points else 'M'}{_x(position)} {y}H{_x(position + 1)}")
    return "".join(points)
