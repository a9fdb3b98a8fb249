"""Runs of the tests inside Indico as pages show them.  Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping

from flask_babel import gettext as _

from indico_zodbrepl.bench import in_app
from indico_zodbrepl.bench.results import Run
from indico_zodbrepl.bench.storages import RUNNING
from indico_zodbrepl.bench.summary import Row, rows
from indico_zodbrepl.failover.wording import LATEST

PERCENTILES = ("p50", "p90", "p99", "max")
LEAST, MOST = 1e-9, 1e15
"""What is outside of these is no figure of ours."""


@dataclasses.dataclass(frozen=True)
class Bar:
    """One test in one state of the caches, over all rounds that succeeded.

    Attributes:
        unit: what is counted, such as "contributions".
        rate: units a second, the median of the rounds; None without any.
        slowest, fastest: rates of the slowest and the fastest round.
        spread: half of the way between them, as a part of the rate; None for fewer than two rounds.
        latency_ms: by PERCENTILES.
        conflicts, given_up: in a round.
        loads, stores: an operation.
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
    """A run with its rows; ``problem`` says why there are none."""

    run: Run
    rows: tuple[Bar, ...] = ()
    problem: str = ""
    instance: str = ""
    modify: str = ""


def is_drawn(run: Run) -> bool:
    """Whether a run is of this cluster's own Indico; one that can't be read may be."""
    if run.suite != in_app.SUITE.name:
        return False
    storages = run.settings.get("storages") if isinstance(run.settings, dict) else None
    return not isinstance(storages, dict) or set(storages) == {RUNNING}


def shown(run: Run) -> Shown:
    """A run as pages show it; results that a program of ours did not write are a problem."""
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
        return Shown(run, (), _("its results can't be used: %(problem)s",
                                problem=f"{type(error).__name__}: {error}"))


def _bars(run: Run) -> Iterable[Bar]:
    units = {each.test: each.details["unit"] for each in run.measurements if not each.error}
    return (_bar(row, units.get(row.test, "")) for row in rows(run))


def _bar(row: Row, unit: str) -> Bar:
    medians = {name: each.median for name, each in row.metrics.items()}
    rate = row.metrics.get("rate")
    return Bar(
        row.test, str(row.parameters["caches"]), str(row.parameters.get("modify", "")), unit,
        row.rounds, rate.median if rate else None, rate.least if rate else None,
        rate.most if rate else None, rate.half_range if rate and row.rounds > 1 else None,
        {name: medians[f"{name}_ms"] for name in PERCENTILES if f"{name}_ms" in medians},
        medians.get("conflicts", 0), medians.get("given_up", 0), medians.get("loads", 0),
        medians.get("stores", 0), row.error)


def _require_texts(run: Run) -> None:
    """Raise TypeError or ValueError where a page could not show what reading has let through."""
    if not run.began < LATEST:
        raise ValueError("the begin is out of bounds")
    for each in run.measurements:
        if not isinstance(each.details.get("unit", ""), str):
            raise TypeError("a measurement has no texts")
        if each.parameters["caches"] not in in_app.CACHES:
            raise ValueError("a measurement has an unknown state of the caches")


def _require_numbers(bar: Bar) -> None:
    """Raise TypeError or ValueError where a figure is none that can be drawn."""
    rates = [] if bar.rate is None else [bar.rate, bar.slowest, bar.fastest]
    for value in (*rates, *bar.latency_ms.values(), bar.loads, bar.stores, bar.conflicts,
                  bar.given_up):
        if not isinstance(value, int | float):
            raise TypeError(f"a figure is {value!r}")
        if value != 0 and not LEAST <= value < MOST:
            raise ValueError(f"a figure is {value!r}")
