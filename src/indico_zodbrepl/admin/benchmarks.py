"""Benchmarks inside Indico as rows and plots: throughput, latency, and changes over time.

Positions in a plot are percentages of its width and height: plots fit any window, while the text
beside them keeps its size.  Templates draw.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence

from flask_babel import gettext as _

from indico_zodbrepl.bench.results import Run
from indico_zodbrepl.bench.sites.storages import RUNNING
from indico_zodbrepl.bench.suites import in_app
from indico_zodbrepl.bench.suites.in_app import CACHES
from indico_zodbrepl.bench.summary import Row, rows
from indico_zodbrepl.operations.messages import LATEST

TOP = 8.0
"""Percent of free space above the highest point of a line and below 0."""
MOST_RUNS = 30
"""Runs in a plot over time: the newest ones."""
PERCENTILES = ("p50", "p90", "p99", "max")
LEAST, MOST = 1e-9, 1e15
"""Figures outside of this range are invalid."""


@dataclasses.dataclass(frozen=True)
class Tick:
    """A mark on an axis: its position in percent, and its label."""

    at: float
    label: str


@dataclasses.dataclass(frozen=True)
class Scale:
    """An axis from ``low`` to ``high``, logarithmic if ``by_tens``."""

    low: float
    high: float
    by_tens: bool = False

    def at(self, value: float) -> float:
        """Return the position of a value in percent, clipped to the axis."""
        value = min(max(value, self.low), self.high)
        if self.by_tens:
            return _percent(math.log10(value / self.low), math.log10(self.high / self.low))
        return _percent(value - self.low, self.high - self.low)

    @property
    def ticks(self) -> list[Tick]:
        """Return about five marks at round values."""
        if self.by_tens:
            powers = range(round(math.log10(self.low)), round(math.log10(self.high)) + 1)
            return [Tick(self.at(10.0**power), number(10.0**power)) for power in powers]
        step = _round_step(self.high - self.low)
        count = math.floor((self.high - self.low) / step + 1e-9)
        return [
            Tick(self.at(self.low + step * index), number(self.low + step * index))
            for index in range(count + 1)
        ]


def from_zero(values: Iterable[float]) -> Scale:
    """Return an axis from 0 to a round value that is at least the largest of these."""
    highest = max((value for value in values if math.isfinite(value)), default=0.0)
    if highest <= 0:
        return Scale(0.0, 1.0)
    step = _round_step(highest)
    return Scale(0.0, math.ceil(highest / step - 1e-9) * step)


def by_tens(values: Iterable[float]) -> Scale:
    """Return a logarithmic axis that includes all positive values."""
    shown = [value for value in values if value > 0 and math.isfinite(value)]
    if not shown:
        return Scale(1.0, 10.0, True)
    low = math.floor(math.log10(min(shown)))
    high = max(low + 1, math.ceil(math.log10(max(shown)) - 1e-9))
    return Scale(10.0**low, 10.0**high, True)


@dataclasses.dataclass(frozen=True)
class Point:
    """A point of a line: percent from the left and the top, time and value."""

    left: float
    top: float
    moment: float
    value: float


@dataclasses.dataclass(frozen=True)
class Line:
    """Points ordered by time, and the pieces between neighbours."""

    points: tuple[Point, ...]

    @property
    def pieces(self) -> list[tuple[Point, Point]]:
        return list(zip(self.points, self.points[1:], strict=False))


def line(values: Sequence[tuple[float, float]], moments: Scale, scale: Scale) -> Line:
    """Return a line of the (moment, value) pairs whose values are finite."""
    return Line(
        tuple(
            Point(moments.at(moment), _from_top(scale.at(value)), moment, value)
            for moment, value in sorted(values)
            if math.isfinite(value)
        )
    )


def span_of(moments: Iterable[float]) -> Scale:
    """Return a time axis with a margin at both ends."""
    known = list(moments)
    if not known:
        return Scale(0.0, 1.0)
    room = max(1.0, (max(known) - min(known)) * 0.04)
    return Scale(min(known) - room, max(known) + room)


def number(value: float) -> str:
    """Return the value with three significant digits."""
    if value == 0:
        return "0"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}" if abs(value) < 10 else f"{value:.1f}".removesuffix(".0")


def _round_step(whole: float) -> float:
    """Return 1, 2 or 5 times a power of ten: about a fifth of the range."""
    power = 10.0 ** math.floor(math.log10(whole / 5))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= whole / 5 - 1e-12)


def _percent(part: float, whole: float) -> float:
    return round(100 * part / whole, 3) if whole else 0.0


def _from_top(percent: float) -> float:
    return round(TOP + (100 - 2 * TOP) * (100 - percent) / 100, 3)


@dataclasses.dataclass(frozen=True)
class Bar:
    """A test in one state of the caches, over all successful rounds.

    Attributes:
        unit: objects that are counted, such as "contributions".
        rate: units per second, the median of the rounds; None without any.
        slowest, fastest: rates of the slowest and the fastest round.
        spread: half of their difference, as a fraction of the rate; None for less than two rounds.
        latency_ms: by PERCENTILES.
        conflicts, given_up: per round.
        loads, stores: per operation.
    """

    test: str
    caches: str
    modify: str
    unit: str
    rounds: int
    rate: float | None
    slowest: float | None
    fastest: float | None
    spread: float | None
    latency_ms: Mapping[str, float]
    conflicts: float
    given_up: float
    loads: float
    stores: float
    error: str


@dataclasses.dataclass(frozen=True)
class Shown:
    """A run with its rows; ``problem`` is the reason if there are none."""

    run: Run
    rows: tuple[Bar, ...] = ()
    problem: str = ""
    instance: str = ""
    modify: str = ""


def is_drawn(run: Run) -> bool:
    """Return True for a run of this cluster's own Indico, or an unreadable run."""
    if run.suite != in_app.SUITE.name:
        return False
    storages = run.settings.get("storages") if isinstance(run.settings, dict) else None
    return not isinstance(storages, dict) or set(storages) == {RUNNING}


def shown(run: Run) -> Shown:
    """Return a run for the page; invalid results become its problem."""
    if run.problem:
        return Shown(run, (), run.problem)
    try:
        _require_texts(run)
        found = tuple(_bars(run))
        for bar in found:
            _require_numbers(bar)
        options = run.settings["options"]
        return Shown(run, found, "", str(options["instance"]), str(options["modify"]))
    except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        return Shown(
            run,
            (),
            _("invalid results: %(problem)s", problem=f"{type(error).__name__}: {error}"),
        )


def _bars(run: Run) -> Iterable[Bar]:
    units = {each.test: each.details["unit"] for each in run.measurements if not each.error}
    return (_bar(row, units.get(row.test, "")) for row in rows(run))


def _bar(row: Row, unit: str) -> Bar:
    medians = {name: each.median for name, each in row.metrics.items()}
    rate = row.metrics.get("rate")
    return Bar(
        row.test,
        str(row.parameters["caches"]),
        str(row.parameters.get("modify", "")),
        unit,
        row.rounds,
        rate.median if rate else None,
        rate.least if rate else None,
        rate.most if rate else None,
        rate.half_range if rate and row.rounds > 1 else None,
        {name: medians[f"{name}_ms"] for name in PERCENTILES if f"{name}_ms" in medians},
        medians.get("conflicts", 0),
        medians.get("given_up", 0),
        medians.get("loads", 0),
        medians.get("stores", 0),
        row.error,
    )


def _require_texts(run: Run) -> None:
    """Raise TypeError or ValueError if a text is invalid."""
    if not run.began < LATEST:
        raise ValueError("the start time is out of bounds")
    for each in run.measurements:
        if not isinstance(each.details.get("unit", ""), str):
            raise TypeError("a measurement has no texts")
        if each.parameters["caches"] not in in_app.CACHES:
            raise ValueError("a measurement has an unknown state of the caches")


def _require_numbers(bar: Bar) -> None:
    """Raise TypeError or ValueError if a figure cannot be drawn."""
    rates = [] if bar.rate is None else [bar.rate, bar.slowest, bar.fastest]
    for value in (
        *rates,
        *bar.latency_ms.values(),
        bar.loads,
        bar.stores,
        bar.conflicts,
        bar.given_up,
    ):
        if not isinstance(value, int | float):
            raise TypeError(f"a figure is {value!r}")
        if value != 0 and not LEAST <= value < MOST:
            raise ValueError(f"a figure is {value!r}")


@dataclasses.dataclass(frozen=True)
class Plot:
    """Rows of one test on one axis."""

    test: str
    unit: str
    rows: tuple[Bar, ...]
    scale: Scale


@dataclasses.dataclass(frozen=True)
class Change:
    """Rates of one test over several runs: a line for each state of the caches."""

    test: str
    unit: str
    lines: dict[str, Line]
    moments: Scale
    scale: Scale


def throughput(rows: Iterable[Bar]) -> list[Plot]:
    """Return a plot of the rates of each test: median, slowest and fastest round."""
    return [
        Plot(
            test,
            found[0].unit,
            tuple(found),
            from_zero(row.fastest for row in found if row.fastest is not None),
        )
        for test, found in _by_test(row for row in rows if row.rate is not None).items()
    ]


def latency(rows: Iterable[Bar]) -> Plot | None:
    """Return all latencies on one axis, in milliseconds; None without any."""
    having = _by_test(row for row in rows if row.latency_ms)
    found = tuple(row for group in having.values() for row in group)
    if not found:
        return None
    return Plot(
        "",
        "ms",
        found,
        by_tens(
            row.latency_ms[name] for row in found for name in PERCENTILES if name in row.latency_ms
        ),
    )


def changes(runs: Sequence[Shown], like: Shown) -> list[Change]:
    """Return the rates over runs of the same instance, storage and modification.

    Args:
        runs: the newest first.
    """
    same = [each for each in runs if not each.problem and _kind(each) == _kind(like)]
    values: dict[str, dict[str, list[tuple[float, float]]]] = {}
    units = {}
    for each in same[:MOST_RUNS]:
        for row in each.rows:
            if row.rate is not None:
                units[row.test] = row.unit
                values.setdefault(row.test, {}).setdefault(row.caches, []).append(
                    (each.run.began, row.rate)
                )
    found = []
    for test, by_caches in values.items():
        pairs = [pair for each in by_caches.values() for pair in each]
        moments = span_of(moment for moment, _ in pairs)
        scale = from_zero(rate for _, rate in pairs)
        if len({moment for moment, _ in pairs}) > 1:
            found.append(
                Change(
                    test,
                    units[test],
                    {
                        caches: line(by_caches[caches], moments, scale)
                        for caches in CACHES
                        if caches in by_caches
                    },
                    moments,
                    scale,
                )
            )
    return found


def _kind(each: Shown) -> tuple[str, str, str]:
    return each.run.backend, each.instance, each.modify


def _by_test(rows: Iterable[Bar]) -> dict[str, list[Bar]]:
    found: dict[str, list[Bar]] = {}
    for row in rows:
        found.setdefault(row.test, []).append(row)
    return found
