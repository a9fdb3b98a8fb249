"""The measurements that the monitor keeps, and the resolutions in which it keeps them.  Pure."""

from __future__ import annotations

import dataclasses
import enum
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

ABSENT = math.nan
"""Stored for a series that was not measured in a slot."""
UNKNOWN = math.inf
"""Stored for a series that was measured in a slot without a result, such as an unknown lag."""


class Kind(enum.StrEnum):
    """A kind of measurement; the subject of a series says of what.

    Seconds, bytes, and numbers a second; UNAVAILABLE (answers 503) and CONFLICTS a minute.
    """

    COMMITS = "commits"
    INSTANCE_COMMITS = "instance-commits"
    LATENCY_MEDIAN = "latency-median"
    LATENCY_P99 = "latency-p99"
    LAG = "lag"
    LAG_TRANSACTIONS = "lag-transactions"
    REQUESTS = "requests"
    UNAVAILABLE = "unavailable"
    CONFLICTS = "conflicts"
    DATA_SIZE = "data-size"
    DISK_FREE = "disk-free"

    @property
    def digits(self) -> int:
        """Return the number of significant digits that are kept."""
        return 9 if self in (Kind.DATA_SIZE, Kind.DISK_FREE) else 4


class Series(NamedTuple):
    """One line of a chart.

    Attributes:
        subject: name of the node or Indico instance, or of all that lies on a disk.
    """

    kind: Kind
    subject: str


class Resolution(NamedTuple):
    """Slots of equal length; a slot's number is its time in seconds since 1970 by the length.

    Attributes:
        seconds: length of a slot.
        slots: number of slots kept.
    """

    seconds: int
    slots: int

    @property
    def span(self) -> int:
        """Return the seconds that are kept."""
        return self.seconds * self.slots

    def number(self, at: float) -> int:
        """Return the slot of a time, seconds since 1970."""
        return int(at // self.seconds)


FINE = Resolution(5, 720)
MEDIUM = Resolution(60, 1440)
COARSE = Resolution(600, 1008)
RESOLUTIONS = (FINE, MEDIUM, COARSE)
"""An hour, a day and a week."""


@dataclasses.dataclass
class Figure:
    """The measurements of a series in one slot.

    Attributes:
        weight: of the measurements so far; 0.0 if none had a result.
    """

    least: float = UNKNOWN
    mean: float = UNKNOWN
    most: float = UNKNOWN
    weight: float = 0.0

    def add(self, value: float, weight: float = 1.0) -> None:
        """Add a measurement, unless its value is UNKNOWN."""
        if not math.isfinite(value):
            return
        if not self.weight:
            self.least = self.mean = self.most = value
        self.least = min(self.least, value)
        self.most = max(self.most, value)
        self.weight += weight
        self.mean += (value - self.mean) * weight / self.weight


Latencies = Mapping[float, int]
"""Numbers of commits by the upper bound of their duration in seconds, as of ``Counted``."""


@dataclasses.dataclass(frozen=True)
class Measured:
    """One round of measurements.

    Attributes:
        values: each series with its value, which may be UNKNOWN.
        latencies: of the commits since the round before, by Indico instance.
    """

    values: Sequence[tuple[Series, float]]
    latencies: Mapping[str, Latencies] = dataclasses.field(default_factory=dict)


class Slot:
    """The measurements of one slot.

    Attributes:
        number: of the slot.
        rounds: how many rounds of measurements it has.
    """

    def __init__(self, number: int, rounds: int = 0, figures: Mapping[Series, Figure] = {}) -> None:
        self.number = number
        self.rounds = rounds
        self.figures: dict[Series, Figure] = dict(figures)
        self._latencies: dict[str, Counter[float]] = {}

    def add(self, measured: Measured) -> None:
        """Add a round of measurements."""
        self.rounds += 1
        for series, value in measured.values:
            self.figures.setdefault(series, Figure()).add(value)
        for name, latencies in measured.latencies.items():
            if latencies:
                all_of_slot = self._latencies.setdefault(name, Counter())
                all_of_slot.update(latencies)
                for kind, share in QUANTILES.items():
                    seconds = quantile(all_of_slot, share)
                    weight = float(all_of_slot.total())
                    self.figures[Series(kind, name)] = Figure(seconds, seconds, seconds, weight)


QUANTILES = {Kind.LATENCY_MEDIAN: 0.5, Kind.LATENCY_P99: 0.99}


def quantile(latencies: Latencies, share: float) -> float:
    """Return the duration in seconds that a share of the commits did not exceed.

    Between two bounds, which differ by a factor of the square root of 2, it is interpolated.
    """
    left = share * sum(latencies.values())
    before = 0.0
    for bound, count in sorted(latencies.items()):
        if left <= count:
            if math.isinf(bound):
                return before
            lower = bound / math.sqrt(2)
            return lower + (bound - lower) * left / count
        left -= count
        before = bound
    return before


def rounded(value: float, digits: int) -> float:
    """Return a value with that many significant digits."""
    return float(f"{value:.{digits}g}") if math.isfinite(value) else value
