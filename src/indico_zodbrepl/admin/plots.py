"""Where things are in a plot, in percent of its width and height.  Pure; templates draw.

Percentages fit any window, and leave the text beside a plot as large as all other text.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence

TOP = 8.0
"""Percent above the highest point of a line, and below 0, that are left free."""


@dataclasses.dataclass(frozen=True)
class Tick:
    """A mark of an axis: where it is, in percent, and what stands there."""

    at: float
    label: str


@dataclasses.dataclass(frozen=True)
class Scale:
    """An axis from ``low`` to ``high``, by powers of ten if ``by_tens``."""

    low: float
    high: float
    by_tens: bool = False

    def at(self, value: float) -> float:
        """A value's place in percent; the nearer end for one that is outside."""
        value = min(max(value, self.low), self.high)
        if self.by_tens:
            return _percent(math.log10(value / self.low), math.log10(self.high / self.low))
        return _percent(value - self.low, self.high - self.low)

    @property
    def ticks(self) -> list[Tick]:
        """Marks at round values, some five of them."""
        if self.by_tens:
            powers = range(round(math.log10(self.low)), round(math.log10(self.high)) + 1)
            return [Tick(self.at(10.0 ** power), number(10.0 ** power)) for power in powers]
        step = _round_step(self.high - self.low)
        count = math.floor((self.high - self.low) / step + 1e-9)
        return [Tick(self.at(self.low + step * index), number(self.low + step * index))
                for index in range(count + 1)]


def from_zero(values: Iterable[float]) -> Scale:
    """An axis from 0 to a round value that is none smaller than any of these."""
    highest = max((value for value in values if math.isfinite(value)), default=0.0)
    if highest <= 0:
        return Scale(0.0, 1.0)
    step = _round_step(highest)
    return Scale(0.0, math.ceil(highest / step - 1e-9) * step)


def by_tens(values: Iterable[float]) -> Scale:
    """An axis by powers of ten that has all of these that are above 0."""
    shown = [value for value in values if value > 0 and math.isfinite(value)]
    if not shown:
        return Scale(1.0, 10.0, True)
    low = math.floor(math.log10(min(shown)))
    high = max(low + 1, math.ceil(math.log10(max(shown)) - 1e-9))
    return Scale(10.0 ** low, 10.0 ** high, True)


@dataclasses.dataclass(frozen=True)
class Point:
    """A point of a line: from the left, from the top, and its moment and value."""

    left: float
    top: float
    moment: float
    value: float


@dataclasses.dataclass(frozen=True)
class Line:
    """Points in the order of time, and the pieces between neighbours."""

    points: tuple[Point, ...]

    @property
    def pieces(self) -> list[tuple[Point, Point]]:
        return list(zip(self.points, self.points[1:], strict=False))


def line(values: Sequence[tuple[float, float]], moments: Scale, scale: Scale) -> Line:
    """A line of (moment, value) pairs; what is no number is left out."""
    return Line(tuple(
        Point(moments.at(moment), _from_top(scale.at(value)), moment, value)
        for moment, value in sorted(values) if math.isfinite(value)))


def span_of(moments: Iterable[float]) -> Scale:
    """An axis of time with a little room at both ends."""
    known = list(moments)
    if not known:
        return Scale(0.0, 1.0)
    room = max(1.0, (max(known) - min(known)) * 0.04)
    return Scale(min(known) - room, max(known) + room)


def number(value: float) -> str:
    """With as many digits as are worth reading."""
    if value == 0:
        return "0"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}" if abs(value) < 10 else f"{value:.1f}".removesuffix(".0")


def _round_step(whole: float) -> float:
    """1, 2 or 5 times a power of ten, of which some five make up the whole."""
    power = 10.0 ** math.floor(math.log10(whole / 5))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= whole / 5 - 1e-12)


def _percent(part: float, whole: float) -> float:
    return round(100 * part / whole, 3) if whole else 0.0


def _from_top(percent: float) -> float:
    return round(TOP + (100 - 2 * TOP) * (100 - percent) / 100, 3)
