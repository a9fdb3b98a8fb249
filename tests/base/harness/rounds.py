"""What rounds of measuring come to: medians and ranges; pure counting."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Iterable


@dataclasses.dataclass(frozen=True)
class Disturbance:
    """What a disturbance cost those who write.

    Attributes:
        gap: the longest time without a committed write, in seconds.
        told: how many commits were acknowledged around it.
        missing: how many of these the database lacks afterwards.
        exported: how many of the missing ones are in a lost tail.
        diverged: whether the old primary had transactions that the new one lacks, acknowledged or
            not.
    """

    gap: float
    told: int
    missing: int
    exported: int
    diverged: bool = False


@dataclasses.dataclass(frozen=True)
class Spread:
    """The middle of some values, the least and the most of them."""

    median: float
    least: float
    most: float

    def __str__(self) -> str:
        return f"{_short(self.median)} ({_short(self.least)}-{_short(self.most)})"


def _short(value: float) -> str:
    return f"{value:.2f}" if value < 10 else f"{value:.1f}"


def spread(values: Iterable[float]) -> Spread:
    """Return the middle and the range of one value or more."""
    found = sorted(values)
    return Spread(statistics.median(found), found[0], found[-1])


def time_left(done: float, total: float, elapsed: float) -> float | None:
    """Seconds until all is done, from the pace so far; None before anything is done."""
    return elapsed * (total - done) / done if done else None
