"""The last hour's lag of each node, drawn as SVG paths.

A plot has WIDTH by HEIGHT units and may be stretched; its texts stand beside it.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence

from indico_zodbrepl.monitord.recorded import MOST, Recorded
from indico_zodbrepl.monitord.series import FINE, Kind, Series

SLOT = 30
"""Seconds."""
SLOTS = FINE.span // SLOT
WIDTH, HEIGHT = 240, 60
LEAST = 1.0
"""Seconds; the minimum of the upper edge of a plot, so that tiny lags look tiny."""
MOMENTS = 5
"""Times below a plot, evenly spaced."""


@dataclasses.dataclass(frozen=True)
class Slot:
    """The samples of SLOT seconds.

    Attributes:
        worst: the largest lag in seconds; None if unknown.
        at: time of that measurement, seconds since 1970; 0.0 without ``worst``.
    """

    worst: float | None
    at: float

    def with_lag(self, seconds: float, at: float) -> Slot:
        """Return the slot with a lag, which may be infinite: it is unknown."""
        if not math.isfinite(seconds) or (self.worst is not None and self.worst >= seconds):
            return self
        return Slot(seconds, at)


UNKNOWN = Slot(None, 0.0)


@dataclasses.dataclass(frozen=True)
class Hour:
    """The lags of the last hour.

    Attributes:
        ends: number of the slot after the last one; a slot's number is its time divided by SLOT.
        nodes: SLOTS slots each, oldest first, by node name; None without a sample.
        last: when the newest measurement was made, seconds since 1970; None if there is none.
        problem: why the file is unreadable; empty if it is readable.
    """

    ends: int
    nodes: Mapping[str, tuple[Slot | None, ...]]
    last: float | None = None
    problem: str = ""

    @property
    def begins_at(self) -> float:
        """Seconds since 1970."""
        return float((self.ends - SLOTS) * SLOT)


def hour(recorded: Recorded, now: float, problem: str = "") -> Hour:
    """Return the hour before a time.

    Args:
        recorded: the slots of the finest resolution.
        now: seconds since 1970.
        problem: as of the result.
    """
    ends = int(now // SLOT) + 1
    step = recorded.resolution.seconds
    nodes: dict[str, tuple[Slot | None, ...]] = {}
    for kind, name in recorded.ids:
        if kind is not Kind.LAG:
            continue
        slots: list[Slot | None] = [None] * SLOTS
        lags = recorded.column(Series(kind, name), MOST)
        for number, seconds in zip(recorded.numbers, lags, strict=True):
            place = number * step // SLOT - (ends - SLOTS)
            if 0 <= place < SLOTS and not math.isnan(seconds):
                slots[place] = (slots[place] or UNKNOWN).with_lag(seconds, float(number * step))
        if any(slots):
            nodes[name] = tuple(slots)
    return Hour(ends, nodes, recorded.last, problem)


@dataclasses.dataclass(frozen=True)
class Plot:
    """The lag of one node as shapes to draw.

    Attributes:
        line: path of the lag, a piece for each period in which it is known.
        area: the same closed along the bottom.
        gaps: x and width of each period with samples but without a known lag.
        top: seconds at the upper edge.
        worst, worst_at: the largest lag of the hour in seconds, and its time, seconds since 1970;
            None if unknown.
        latest: lag in the newest slot; None if unknown.
        known, unknown: numbers of slots.
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
    """Return the plot of a node; None without any sample."""
    slots = hour.nodes.get(name)
    if slots is None:
        return None
    highest = max(
        (slot for slot in slots if slot is not None and slot.worst is not None),
        key=lambda slot: slot.worst or 0.0,
        default=None,
    )
    worst = None if highest is None else highest.worst
    top = _top(worst or 0.0)
    stretches = list(_stretches(slots))
    pieces = [piece for kind, piece in stretches if kind == "known"]
    gaps = [piece for kind, piece in stretches if kind == "unknown"]
    lines = [_line(slots, piece, top) for piece in pieces]
    newest = next((slot for slot in reversed(slots) if slot is not None), None)
    span = SLOTS * SLOT
    return Plot(
        line=" ".join(lines),
        area=" ".join(
            f"{line}V{HEIGHT}H{_x(piece[0])}Z" for line, piece in zip(lines, pieces, strict=True)
        ),
        gaps=tuple((_x(piece[0]), _x(piece[-1] + 1) - _x(piece[0])) for piece in gaps),
        top=top,
        worst=worst,
        worst_at=None if highest is None else highest.at,
        latest=None if newest is None else newest.worst,
        known=sum(map(len, pieces)),
        unknown=sum(map(len, gaps)),
        moments=tuple(hour.begins_at + span * step / (MOMENTS - 1) for step in range(MOMENTS)),
    )


def _top(worst: float) -> float:
    """Return the upper edge for a maximum: 1, 2 or 5 times a power of ten."""
    step = LEAST
    for factor in itertools.cycle((2.0, 2.5, 2.0)):
        if step >= worst:
            return step
        step *= factor
    raise AssertionError("cycle() is endless")


def _kind(slot: Slot | None) -> str:
    if slot is None:
        return "missing"
    return "unknown" if slot.worst is None else "known"


def _stretches(slots: Sequence[Slot | None]) -> Iterator[tuple[str, list[int]]]:
    """Yield neighbouring slots of one kind: the kind and their positions."""
    for kind, those in itertools.groupby(range(len(slots)), key=lambda at: _kind(slots[at])):
        yield kind, list(those)


def _x(position: float) -> float:
    return round(position * WIDTH / SLOTS, 2)


def _y(seconds: float, top: float) -> float:
    return round(HEIGHT * (1 - seconds / top), 2)


def _line(slots: Sequence[Slot | None], piece: Sequence[int], top: float) -> str:
    """Return a path that is level within each slot, so that a single slot is visible."""
    points: list[str] = []
    for position in piece:
        slot = slots[position]
        y = _y((slot.worst if slot else None) or 0.0, top)
        points.append(f"{'L' if points else 'M'}{_x(position)} {y}H{_x(position + 1)}")
    return "".join(points)
