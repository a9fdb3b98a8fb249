"""Summarise the rounds of a run: medians, spread, latencies and ratios to a control.  Pure."""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from indico_zodbrepl.bench.results import Measurement, Run

CONFIDENCE = 0.95
Key = tuple[str, str, tuple[tuple[str, str | int | float], ...]]
Value = TypeVar("Value", int, float)


@dataclasses.dataclass(frozen=True)
class Spread:
    """Median, minimum and maximum over some rounds."""

    median: float
    least: float
    most: float

    @property
    def half_range(self) -> float | None:
        """Return half of the range relative to the median; None for a median of 0."""
        return (self.most - self.least) / 2 / self.median if self.median else None


@dataclasses.dataclass(frozen=True)
class Ratio:
    """The ratios of one value to another, round by round.

    Attributes:
        low, high: the ends of the 95 % confidence interval of the median; with too few rounds for
            one (see ``is_interval``), the lowest and the highest ratio.
        rounds: number of ratios.
    """

    median: float
    low: float
    high: float
    rounds: int

    @property
    def is_interval(self) -> bool:
        """Return True if ``low`` and ``high`` are a confidence interval: from six rounds on."""
        return _left_out(self.rounds) is not None

    @property
    def side(self) -> int:
        """Return -1 or 1 if everything between the ends is below or above 1; 0 otherwise."""
        if self.high < 1:
            return -1
        return 1 if self.low > 1 else 0


@dataclasses.dataclass(frozen=True)
class Row:
    """A case on one storage, over all successful rounds.

    Attributes:
        rounds: number of successful rounds.
        metrics: by name, if at least one round has the metric.
        cpu: CPU seconds of each program per round.
        error: of the last failed round; '' if none failed.
    """

    storage: str
    test: str
    parameters: Mapping[str, str | int | float]
    rounds: int
    metrics: Mapping[str, Spread]
    cpu: Mapping[str, Spread]
    error: str = ""


def rows(run: Run) -> list[Row]:
    """Return the rows of a run, in the order of their first measurement."""
    return [_row(group) for group in _groups(run.measurements).values()]


def ratios(run: Run, row: Row, control: str, metric: str) -> Ratio | None:
    """Return the ratio of a row's metric to the control storage's, round by round.

    None for the control itself, or without a common round.
    """
    if row.storage == control:
        return None
    groups = _groups(run.measurements)
    own = _by_round(groups[_key(row.storage, row.test, row.parameters)], metric)
    other = _by_round(groups.get(_key(control, row.test, row.parameters), ()), metric)
    return ratio([value / other[number] for number, value in own.items() if other.get(number)])


def ratio(values: Sequence[float]) -> Ratio | None:
    """Return the ratio of some rounds; None without any.

    The confidence interval needs no assumption about the distribution: it lies between two of the
    ordered values, by the inversion of the sign test (Conover, Practical Nonparametric Statistics,
    3rd edition 1999, section 3.2).
    """
    if not values:
        return None
    found = sorted(values)
    out = _left_out(len(found)) or 0
    return Ratio(statistics.median(found), found[out], found[-1 - out], len(found))


def _left_out(count: int) -> int | None:
    """Return how many values at each end are outside of the interval; None for too few values.

    Each value is below the median with a probability of one half.
    """
    tail, out = 0, None
    for number in range(count):
        tail += math.comb(count, number)
        if 2 * tail > (1 - CONFIDENCE) * 2**count:
            break
        out = number
    return out


def spread(values: Iterable[float]) -> Spread | None:
    """Return the spread of some values; None without values."""
    found = sorted(values)
    return Spread(statistics.median(found), found[0], found[-1]) if found else None


def _key(storage: str, test: str, parameters: Mapping[str, str | int | float]) -> Key:
    return storage, test, tuple(sorted(parameters.items()))


def _groups(measurements: Iterable[Measurement]) -> dict[Key, list[Measurement]]:
    groups: dict[Key, list[Measurement]] = {}
    for each in measurements:
        groups.setdefault(_key(each.storage, each.test, each.parameters), []).append(each)
    return groups


def _by_round(group: Sequence[Measurement], metric: str) -> dict[int, float]:
    return {each.round: each.metrics[metric] for each in group if metric in each.metrics}


def _row(group: Sequence[Measurement]) -> Row:
    made = [each for each in group if not each.error]
    errors = [each.error for each in group if each.error]
    return Row(
        group[0].storage,
        group[0].test,
        group[0].parameters,
        len(made),
        _spreads([each.metrics for each in made]),
        _spreads([each.cpu for each in made]),
        errors[-1] if errors else "",
    )


def _spreads(found: Sequence[Mapping[str, float]]) -> dict[str, Spread]:
    names = dict.fromkeys(name for each in found for name in each)
    spreads = {name: spread(each[name] for each in found if name in each) for name in names}
    return {name: each for name, each in spreads.items() if each}


TICKS_PER_MS = 10_000
"""Programs count latencies in tenths of a microsecond."""
PERCENTS = (50, 90, 99)


def milliseconds(seconds: Sequence[float], percents: Sequence[int] = PERCENTS) -> dict[str, float]:
    """Return mean, p50, p90, p99 (nearest rank) and max in milliseconds; {} without values."""
    if not seconds:
        return {}
    ordered = sorted(seconds)
    found = {
        "mean": math.fsum(ordered) / len(ordered),
        **{
            f"p{percent}": ordered[math.ceil(percent * len(ordered) / 100) - 1]
            for percent in percents
        },
        "max": ordered[-1],
    }
    return {name: round(1000 * value, 4) for name, value in found.items()}


def latency_metrics(counted: Iterable[Sequence[tuple[int, int]]]) -> Mapping[str, float]:
    """Return the metrics ``suite.LATENCIES`` in milliseconds; {} without operations.

    Args:
        counted: for each process, pairs of latency (tenths of a microsecond) and count.
    """
    counts: Counter[int] = Counter()
    for each in counted:
        for ticks, count in each:
            counts[ticks] += count
    total = counts.total()
    if not total:
        return {}
    metrics = {
        "mean_ms": sum(ticks * count for ticks, count in counts.items()) / total,
        **{f"p{percent}_ms": nearest_rank(counts, percent / 100) for percent in PERCENTS},
        "max_ms": max(counts),
    }
    return {name: value / TICKS_PER_MS for name, value in metrics.items()}


def nearest_rank(counts: Mapping[Value, int], part: float) -> Value:
    """Return the smallest value that at least this fraction of the values does not exceed."""
    rank = math.ceil(part * sum(counts.values()))
    passed = 0
    for value in sorted(counts):
        passed += counts[value]
        if passed >= rank:
            return value
    raise ValueError("there are no values")
