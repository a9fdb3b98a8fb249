"""Compare two runs of the same suite and judge their differences.  Pure."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from indico_zodbrepl.bench.results import Run, is_number
from indico_zodbrepl.bench.suite import Better, Metric, Suite
from indico_zodbrepl.bench.summary import Row, Spread, rows

MACHINE = ("cpu", "cores", "memory", "system", "python")
DISK = ("device", "type", "options")
SETTINGS = ("rounds", "seconds", "quick")
SCRATCH = ("port", "directory")
"""Ends of the keys of a cluster file whose values differ in each scratch cluster."""


class Verdict(enum.StrEnum):
    """The result of a comparison; a difference requires that the two ranges do not overlap."""

    FASTER = "faster"
    SLOWER = "slower"
    MORE = "more"
    LESS = "less"
    NONE = "no difference shown"
    ONE_ROUND = "one round only"


@dataclasses.dataclass(frozen=True)
class Pair:
    """One metric of one case on one storage, in both runs.

    Attributes:
        unit: of the metric in this test.
        ratio: new median / old median; None for an old median of 0.
    """

    suite: str
    storage: str
    test: str
    parameters: Mapping[str, str | int | float]
    metric: Metric
    unit: str
    old: Spread
    new: Spread
    ratio: float | None
    verdict: Verdict


@dataclasses.dataclass(frozen=True)
class Comparison:
    """Two runs of one suite.

    Attributes:
        pairs: of each case that both have its main metric first.
        notes: what else differs between the runs, one line each.
        only_old, only_new: cases that only one of them has figures of.
    """

    suite: str
    pairs: Sequence[Pair]
    notes: Sequence[str]
    only_old: Sequence[str]
    only_new: Sequence[str]


def compare(old: Run, new: Run, suite: Suite) -> Comparison:
    """Return the comparison of two runs of one suite."""
    olds = {_key(row): row for row in rows(old) if row.metrics}
    news = {_key(row): row for row in rows(new) if row.metrics}
    units = {
        each.test: f"{str(each.details['unit']).removesuffix('/s')}/s"
        for each in new.measurements
        if "unit" in each.details
    }
    return Comparison(
        old.suite,
        [
            pair
            for key, row in olds.items()
            if key in news
            for pair in _pairs(suite, row, news[key], units.get(row.test))
        ],
        list(notes(old, new)),
        [_name(row) for key, row in olds.items() if key not in news],
        [_name(row) for key, row in news.items() if key not in olds],
    )


def verdict(metric: Metric, old: Spread, new: Spread, rounds: int) -> Verdict:
    """Judge the rounds of a metric.

    Args:
        rounds: number of rounds of the run that has fewer.
    """
    if rounds < 2:
        return Verdict.ONE_ROUND
    if old.least <= new.most and new.least <= old.most:
        return Verdict.NONE
    more = new.least > old.most
    if metric.better is Better.HIGHER and metric.unit.endswith("/s"):
        return Verdict.FASTER if more else Verdict.SLOWER
    if metric.better is Better.LOWER and metric.unit in ("ms", "s"):
        return Verdict.SLOWER if more else Verdict.FASTER
    return Verdict.MORE if more else Verdict.LESS


def notes(old: Run, new: Run) -> Iterator[str]:
    """Return what makes two runs hard to compare: machine, disk, load, versions, settings."""
    for name in MACHINE:
        yield from _differing(name, old.environment.get(name), new.environment.get(name))
    for name in DISK:
        yield from _differing(
            f"disk, {name}",
            _of(old.environment.get("disk"), name),
            _of(new.environment.get("disk"), name),
        )
    for which, run in (("old", old), ("new", new)):
        load, cores = run.environment.get("load_before"), run.environment.get("cores")
        if (
            isinstance(load, list | tuple)
            and load
            and is_number(load[0])
            and is_number(cores)
            and load[0] > cores / 2
        ):
            yield f"the machine was busy before the {which} run: load {load[0]:g}, {cores} cores"
        if not run.is_complete:
            yield f"the {which} run has {len(run.measurements)} of {run.planned} measurements"
    for name in SETTINGS:
        yield from _differing(name, old.settings.get(name), new.settings.get(name))
    options = [run.settings.get("options", {}) for run in (old, new)]
    for name in dict.fromkeys([*options[0], *options[1]]):
        yield from _differing(f"--{name}", _text(options[0].get(name)), _text(options[1].get(name)))
    for name in sorted({*old.versions, *new.versions}):
        yield from _differing(f"version of {name}", old.versions.get(name), new.versions.get(name))
    for name in sorted({*old.configs} & {*new.configs}):
        if _shape(old.configs[name]) != _shape(new.configs[name]):
            yield f"the cluster files of {name} differ in more than ports and folders"


def _pairs(suite: Suite, old: Row, new: Row, unit: str | None) -> Iterator[Pair]:
    for metric in suite.metrics:
        if metric.name in old.metrics and metric.name in new.metrics:
            before, after = old.metrics[metric.name], new.metrics[metric.name]
            of_rate = unit if unit and metric.name == "rate" else metric.unit
            yield Pair(
                suite.name,
                old.storage,
                old.test,
                old.parameters,
                metric,
                of_rate,
                before,
                after,
                after.median / before.median if before.median else None,
                verdict(metric, before, after, min(old.rounds, new.rounds)),
            )


def _key(row: Row) -> tuple[Any, ...]:
    return row.storage, row.test, tuple(sorted(row.parameters.items()))


def _name(row: Row) -> str:
    return " ".join(
        [
            f"{row.storage}:",
            row.test,
            *(f"{name} {value}" for name, value in row.parameters.items()),
        ]
    )


def _differing(what: str, old: object, new: object) -> Iterator[str]:
    if old != new:
        yield f"{what}: {_told(old)}, now {_told(new)}"


def _told(value: object) -> str:
    return "unknown" if value is None else str(value)


def _text(value: object) -> str | None:
    """Format an option's value; tuples are lists in JSON."""
    return (
        None
        if value is None
        else (",".join(map(str, value)) if isinstance(value, list | tuple) else str(value))
    )


def _of(values: object, name: str) -> object:
    return values.get(name) if isinstance(values, Mapping) else None


def _shape(config: str) -> list[str]:
    """Return the lines of a cluster file that are the same in every scratch cluster."""
    return [line for line in config.splitlines() if not (line.split() or [""])[0].endswith(SCRATCH)]
