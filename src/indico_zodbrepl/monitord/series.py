"""The measurements that the monitor keeps, and the resolutions in which it keeps them.  Pure."""

from __future__ import annotations

import dataclasses
import enum
import math
from collections.abc import Iterable, Mapping
from typing import NamedTuple

ABSENT = math.nan
"""Stored for a series that was not measured in a slot."""
UNKNOWN = math.inf
"""Stored for a series that was measured in a slot without a result, such as an unknown lag."""


class Kind(enum.StrEnum):
    """A kind of measurement; the subject of a series says of what."""

    LAG = "lag"
    LAG_TRANSACTIONS = "lag-transactions"
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
    """What was measured of a series in one slot.

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

    def add(self, values: Iterable[tuple[Series, float]]) -> None:
        """Add a round of measurements."""
        self.rounds += 1
        for series, value in values:
            self.figures.setdefault(series, Figure()).add(value)


def rounded(value: float, digits: int) -> float:
    """Return a value with that many significant digits."""
    return float(f"{value:.{digits}g}") if math.isfinite(value) else value
