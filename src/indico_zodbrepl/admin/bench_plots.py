"""Runs of the tests inside Indico as plots: throughput, latency, and how both change.  Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

from indico_zodbrepl.admin import plots
from indico_zodbrepl.admin.bench_rows import PERCENTILES, Bar, Shown
from indico_zodbrepl.admin.plots import Line, Scale
from indico_zodbrepl.bench.in_app import CACHES

MOST_RUNS = 30
"""In a plot over time: the newest ones."""


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
    """A plot of the rates of each test: median, slowest and fastest round."""
    return [Plot(test, found[0].unit, tuple(found), plots.from_zero(
        row.fastest for row in found if row.fastest is not None))
        for test, found in _by_test(row for row in rows if row.rate is not None).items()]


def latency(rows: Iterable[Bar]) -> Plot | None:
    """All latencies on one axis, in milliseconds; None without any."""
    having = _by_test(row for row in rows if row.latency_ms)
    found = tuple(row for group in having.values() for row in group)
    if not found:
        return None
    return Plot("", "ms", found, plots.by_tens(
        row.latency_ms[name] for row in found for name in PERCENTILES if name in row.latency_ms))


def changes(runs: Sequence[Shown], like: Shown) -> list[Change]:
    """How the rate of each test changed over runs of the same instance, storage and modification.

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
                    (each.run.began, row.rate))
    found = []
    for test, by_caches in values.items():
        pairs = [pair for each in by_caches.values() for pair in each]
        moments = plots.span_of(moment for moment, _ in pairs)
        scale = plots.from_zero(rate for _, rate in pairs)
        if len({moment for moment, _ in pairs}) > 1:
            found.append(Change(test, units[test], {
                caches: plots.line(by_caches[caches], moments, scale)
                for caches in CACHES if caches in by_caches}, moments, scale))
    return found


def _kind(each: Shown) -> tuple[str, str, str]:
    return each.run.backend, each.instance, each.modify


def _by_test(rows: Iterable[Bar]) -> dict[str, list[Bar]]:
    found: dict[str, list[Bar]] = {}
    for row in rows:
        found.setdefault(row.test, []).append(row)
    return found
