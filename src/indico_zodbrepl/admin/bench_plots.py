"""Runs of the tests inside Indico as plots: throughput, latency, and how both change.  Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

from flask_babel import gettext as _

from indico_zodbrepl.admin import plots
from indico_zodbrepl.admin.plots import Line, Scale
from indico_zodbrepl.bench.in_app import CACHES
from indico_zodbrepl.bench.results import Run
from indico_zodbrepl.bench.summary import Summary, summaries
from indico_zodbrepl.failover.wording import LATEST

PERCENTILES = ("p50", "p90", "p99", "max")
LEAST, MOST = 1e-9, 1e15
"""What is outside of these is no figure of ours."""
MOST_RUNS = 30
"""In a plot over time: the newest ones."""


@dataclasses.dataclass(frozen=True)
class Plot:
    """Rows of one test on one axis."""

    test: str
    unit: str
    rows: tuple[Summary, ...]
    scale: Scale


@dataclasses.dataclass(frozen=True)
class Change:
    """Rates of one test over several runs: a line for each state of the caches."""

    test: str
    unit: str
    lines: dict[str, Line]
    moments: Scale
    scale: Scale


@dataclasses.dataclass(frozen=True)
class Shown:
    """A run with its summaries; ``problem`` says why there are none."""

    run: Run
    rows: tuple[Summary, ...] = ()
    problem: str = ""


def shown(run: Run) -> Shown:
    """A run as pages show it; results that a program of ours did not write are a problem."""
    if run.problem:
        return Shown(run, (), run.problem)
    try:
        _require_texts(run)
        rows = tuple(summaries(run))
        for row in rows:
            _require_numbers(row)
    except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        return Shown(run, (), _("its results can't be used: %(problem)s",
                                   problem=f"{type(error).__name__}: {error}"))
    return Shown(run, rows)


def throughput(rows: Iterable[Summary]) -> list[Plot]:
    """A plot of the rates of each test: median, slowest and fastest round."""
    return [Plot(test, found[0].unit, tuple(found), plots.from_zero(
        row.fastest for row in found if row.fastest is not None))
        for test, found in _by_test(row for row in rows if row.rate is not None).items()]


def latency(rows: Iterable[Summary]) -> Plot | None:
    """All latencies on one axis, in milliseconds; None without any."""
    having = _by_test(row for row in rows if row.latency_ms)
    found = tuple(row for group in having.values() for row in group)
    if not found:
        return None
    return Plot("", "ms", found, plots.by_tens(
        row.latency_ms[name] for row in found for name in PERCENTILES if name in row.latency_ms))


def changes(runs: Sequence[Shown], like: Run) -> list[Change]:
    """How the rate of each test changed over runs of the same instance, storage and modification.

    Args:
        runs: the newest first.
    """
    same = [each for each in runs if not each.problem and _kind(each.run) == _kind(like)]
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


def _kind(run: Run) -> tuple[str, str, str]:
    return run.backend, run.instance, str(run.settings.get("modify", ""))


def _by_test(rows: Iterable[Summary]) -> dict[str, list[Summary]]:
    found: dict[str, list[Summary]] = {}
    for row in rows:
        found.setdefault(row.test, []).append(row)
    return found


def _require_texts(run: Run) -> None:
    """Raise TypeError or ValueError where a page could not show something."""
    for value, kind in ((run.backend, str), (run.instance, str), (run.settings, dict),
                        (run.environment, dict), (run.began, int | float),
                        (run.ended, int | float | None), (run.planned, int)):
        if not isinstance(value, kind):
            raise TypeError(f"a value is {value!r}")
    if not 0 <= run.began < LATEST:
        raise ValueError("the begin is out of bounds")
    for each in run.measurements:
        if not all(isinstance(text, str) for text in (
                each.test, each.caches, each.modify, each.error)):
            raise TypeError("a measurement has no texts")


def _require_numbers(row: Summary) -> None:
    """Raise TypeError or ValueError where a figure is none that can be drawn."""
    if not isinstance(row.unit, str):
        raise TypeError(f"the unit is {row.unit!r}")
    for value in (row.rate, row.slowest, row.fastest, *row.latency_ms.values(), row.loads,
                  row.stores, row.stored_bytes, row.conflicts, row.given_up):
        if value is None:
            continue
        if not isinstance(value, int | float):
            raise TypeError(f"a figure is {value!r}")
        if value != 0 and not LEAST <= value < MOST:
            raise ValueError(f"a figure is {value!r}")
