"""The last hour's lag of each node, read from the monitor process's file and drawn as SVG paths.

A plot has WIDTH by HEIGHT units and may be stretched; its texts stand beside it.
"""

from __future__ import annotations

import dataclasses
import itertools
import logging
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from indico_zodbrepl.monitord.files import Tail
from indico_zodbrepl.monitord.history import SPAN, Sample, samples

logger = logging.getLogger(__name__)

SLOT = 30
"""Seconds."""
SLOTS = round(SPAN / SLOT)
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

    def with_sample(self, sample: Sample) -> Slot:
        if sample.seconds is None or (self.worst is not None and self.worst >= sample.seconds):
            return self
        return Slot(sample.seconds, sample.at)


UNKNOWN = Slot(None, 0.0)


@dataclasses.dataclass(frozen=True)
class Hour:
    """The lags of the last hour.

    Attributes:
        ends: number of the slot after the last one; a slot's number is its time divided by SLOT.
        nodes: SLOTS slots each, oldest first, by node name; None without a sample.
        last: time of the newest sample, seconds since 1970; None if there is none.
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


class Lags:
    """The reader of all requests; it reads only new lines.

    Args:
        path: the file of ``monitord.history``; it need not exist.

    Threads: any.
    """

    def __init__(self, path: Path) -> None:
        self._tail = Tail(path)
        self._slots: dict[str, dict[int, Slot]] = {}
        self._last: float | None = None
        self._problem = ""
        self._lock = threading.Lock()

    def hour(self, now: float) -> Hour:
        """Return the hour before ``now``, seconds since 1970."""
        with self._lock:
            self._read(now)
            ends = int(now // SLOT) + 1
            for name, slots in list(self._slots.items()):
                for old in [number for number in slots if number < ends - SLOTS]:
                    del slots[old]
                if not slots:
                    del self._slots[name]
            return Hour(
                ends,
                {
                    name: tuple(slots.get(number) for number in range(ends - SLOTS, ends))
                    for name, slots in self._slots.items()
                },
                self._last,
                self._problem,
            )

    def _read(self, now: float) -> None:
        try:
            for line in self._tail.new():
                for name, sample in samples(line):
                    if now - SPAN <= sample.at <= now + SLOT:
                        self._keep(name, sample)
        except OSError as error:
            problem = f"{error.filename}: {error.strerror}"
            if problem != self._problem:
                logger.error("cannot read the history of lag: %s", problem)
            self._problem = problem
        else:
            self._problem = ""

    def _keep(self, name: str, sample: Sample) -> None:
        slots = self._slots.setdefault(name, {})
        number = int(sample.at // SLOT)
        slots[number] = slots.get(number, UNKNOWN).with_sample(sample)
        self._last = max(self._last or 0.0, sample.at)


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
