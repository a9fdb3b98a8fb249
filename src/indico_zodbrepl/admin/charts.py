"""Charts of the monitor's measurements: which there are, and what each one shows."""

from __future__ import annotations

import dataclasses
import math
import statistics
import threading
from collections.abc import Iterator, Mapping, Sequence

from flask_babel import lazy_gettext as _

from indico_zodbrepl.monitord.recorded import LEAST, MEAN, MOST, Reader, Recorded
from indico_zodbrepl.monitord.series import COARSE, FINE, MEDIUM, Kind, Resolution, Series

DAY = 24 * 3600
LEAST_HOURS = 2
"""Hours of measurements that an estimate of growth needs."""
MOST_DAYS = 3650
"""A disk that lasts longer does not count as growing."""

Values = Sequence[float | None]
"""None: not measured, or unknown."""


@dataclasses.dataclass(frozen=True)
class Range:
    """A period up to now that charts can show.

    Attributes:
        title: for people, translated.
        seconds: its length.
        resolution: of its measurements.
    """

    title: object
    seconds: int
    resolution: Resolution

    @property
    def slots(self) -> int:
        return self.seconds // self.resolution.seconds


RANGES: Mapping[str, Range] = {
    "15m": Range(_("15 minutes"), 900, FINE),
    "1h": Range(_("1 hour"), 3600, FINE),
    "24h": Range(_("24 hours"), DAY, MEDIUM),
    "7d": Range(_("7 days"), 7 * DAY, COARSE),
}
DEFAULT = "1h"


@dataclasses.dataclass(frozen=True)
class Chart:
    """One chart.

    Attributes:
        name: its id in the page.
        title: translated.
        unit: seconds, bytes, per-second or per-minute.
        labels: name of a series of each kind, with ``{}`` in place of its subject.
        about: what it means and how it was measured, in one sentence.
    """

    name: str
    title: object
    unit: str
    labels: Mapping[Kind, object]
    about: object


CHARTS = (
    Chart(
        "commits",
        _("Commits"),
        "per-second",
        {
            Kind.COMMITS: _("primary {}, all clients"),
            Kind.INSTANCE_COMMITS: _("Indico {}"),
        },
        _("As counted by the primary's server, if it counts, and by each Indico instance."),
    ),
    Chart(
        "latency",
        _("Commit latency"),
        "seconds",
        {Kind.LATENCY_MEDIAN: _("{}, median"), Kind.LATENCY_P99: _("{}, 99th percentile")},
        _("From the begin of a commit in Indico to its acknowledgement."),
    ),
    Chart(
        "lag",
        _("Replication lag"),
        "seconds",
        {Kind.LAG: "{}"},
        _("The largest lag of each moment."),
    ),
    Chart(
        "requests",
        _("Requests to Indico"),
        "per-second",
        {Kind.REQUESTS: "{}"},
        _("Without health probes."),
    ),
    Chart(
        "failures",
        _("Conflicts and answers 503"),
        "per-minute",
        {Kind.CONFLICTS: _("{}, conflicts"), Kind.UNAVAILABLE: _("{}, answers 503")},
        _("Indico repeats a request after a conflict. A user sees an answer 503."),
    ),
    Chart("free", _("Free disk space"), "bytes", {Kind.DISK_FREE: "{}"}, ""),
    Chart("size", _("Database size"), "bytes", {Kind.DATA_SIZE: "{}"}, ""),
)
DRAWN = {Kind.LAG: MOST}
"""The number of a slot that is drawn; MEAN for all other kinds."""


@dataclasses.dataclass(frozen=True)
class Line:
    """A series in a range.

    Attributes:
        series: which.
        values: one for each slot of the range, oldest first.
        least, median, most, last: of the measured ones; ``median`` and ``last`` of ``values``.
    """

    series: Series
    values: Values
    least: float
    median: float
    most: float
    last: float


@dataclasses.dataclass(frozen=True)
class Period:
    """The measurements of a range.

    Attributes:
        begins: start of the first slot, seconds since 1970.
        step: seconds of a slot.
        slots: their number.
        lines: those with a measurement, in the order of the charts.
    """

    begins: int
    step: int
    slots: int
    lines: tuple[Line, ...]

    @property
    def ends(self) -> int:
        """Return the end of the last slot in seconds since 1970."""
        return self.begins + self.step * self.slots

    def of(self, chart: Chart) -> tuple[Line, ...]:
        """Return the lines of a chart."""
        return tuple(each for each in self.lines if each.series.kind in chart.labels)


def period(recorded: Recorded, wanted: Range, now: float) -> Period:
    """Return the measurements of a range that ends with the present slot.

    Args:
        recorded: the slots of its resolution.
        now: seconds since 1970.
    """
    step = recorded.resolution.seconds
    first = recorded.resolution.number(now) - wanted.slots + 1
    those = recorded.since(first)
    places = [number - first for number in those.numbers]
    return Period(first * step, step, wanted.slots, tuple(_lines(those, places, wanted.slots)))


def _lines(recorded: Recorded, places: Sequence[int], slots: int) -> Iterator[Line]:
    order = [kind for chart in CHARTS for kind in chart.labels]
    shown = sorted(
        (each for each in recorded.ids if each.kind in order),
        key=lambda each: (order.index(each.kind), each.subject),
    )
    for series in shown:
        column = recorded.column(series, DRAWN.get(series.kind, MEAN))
        known = _finite(column)
        if not known:
            continue
        values: list[float | None] = [None] * slots
        for place, value in zip(places, column, strict=True):
            if known is column or math.isfinite(value):
                values[place] = value
        yield Line(
            series,
            values,
            min(_finite(recorded.column(series, LEAST))),
            statistics.median(known),
            max(_finite(recorded.column(series, MOST))),
            known[-1],
        )


def _finite(column: Sequence[float]) -> Sequence[float]:
    """Return the numbers that were measured; the column itself if these are all."""
    if math.isfinite(sum(column)):
        return column
    return [each for each in column if math.isfinite(each)]


class Periods:
    """The measurements of each range, computed once for all requests of the same slots.

    Threads: any.
    """

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._lock = threading.Lock()
        self._made: dict[str, tuple[object, Period]] = {}
        self._days: tuple[object, dict[str, float]] = (None, {})

    def of(self, name: str, now: float) -> Period:
        """Return the measurements of a range.

        Args:
            name: key of RANGES.
            now: seconds since 1970.

        Raises:
            OSError: the measurements are unreadable.
        """
        wanted = RANGES[name]
        recorded = self._reader.recorded(wanted.resolution, now)
        key = recorded.version, wanted.resolution.number(now)
        with self._lock:
            known = self._made.get(name)
            if known is None or known[0] != key:
                known = self._made[name] = key, period(recorded, wanted, now)
        return known[1]

    def days_until_full(self, now: float) -> dict[str, float]:
        """Return the result of that function, computed once a minute.  Raises as ``of``."""
        key = MEDIUM.number(now)
        with self._lock:
            if self._days[0] != key:
                found = days_until_full(self._reader.recorded(MEDIUM, now), now)
                self._days = key, found
            return self._days[1]


def label(chart: Chart, line: Line) -> str:
    """Return the name of a line in its chart, translated."""
    return str(chart.labels[line.series.kind]).format(line.series.subject)


def days_until_full(recorded: Recorded, now: float) -> dict[str, float]:
    """Return the days until each disk is full if it fills as on the last day, by its subject.

    A straight line is fitted to the free space by least squares.  Disks that do not fill, or were
    measured for less than LEAST_HOURS, are absent.

    Args:
        recorded: slots of a day.
        now: seconds since 1970.
    """
    step = recorded.resolution.seconds
    those = recorded.since(recorded.resolution.number(now - DAY))
    found = {}
    for series in those.ids:
        if series.kind is not Kind.DISK_FREE:
            continue
        points = [
            ((number * step - now) / DAY, free)
            for number, free in zip(those.numbers, those.column(series, MEAN), strict=True)
            if math.isfinite(free)
        ]
        days = _until_zero(points)
        if days is not None:
            found[series.subject] = days
    return found


def _until_zero(points: Sequence[tuple[float, float]]) -> float | None:
    """Return when a line through points of days and bytes reaches zero, in days after day 0."""
    if len(points) < LEAST_HOURS * 30 or points[-1][0] - points[0][0] < LEAST_HOURS / 24:
        return None
    slope, at_zero = statistics.linear_regression(*zip(*points, strict=True))
    days = at_zero / -slope if slope < 0 else math.inf
    return max(0.0, days) if days < MOST_DAYS else None
