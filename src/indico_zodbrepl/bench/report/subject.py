"""What a section of the report is about: a run that can be used, and what its suite says of it."""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Sequence

from .. import checking, summary
from ..results import Measurement, Run
from ..storages import STORAGES
from ..suite import LATENCIES, Better, Metric, Suite
from ..suites import MODULES
from ..summary import Row, Spread

RATE = "rate"


@dataclasses.dataclass(frozen=True)
class Subject:
    """A run whose values have the types that they should have; only details may be anything.

    Attributes:
        title: what the suite finds out.
        metrics: those that the run has, the main one first.
        control: the storage that ratios are taken to; '' when it was not measured.
    """

    run: Run
    title: str
    metrics: tuple[Metric, ...]
    control: str
    rows: tuple[Row, ...]

    @property
    def main(self) -> Metric | None:
        """The metric that figures show; None when nothing was measured."""
        return self.metrics[0] if self.metrics else None

    @property
    def rounds(self) -> int:
        """The most rounds that any case has."""
        return max((row.rounds for row in self.rows), default=0)

    @property
    def storages(self) -> tuple[str, ...]:
        """Names of those that have figures, in the order of STORAGES."""
        measured = {row.storage for row in self.rows if row.metrics}
        known = [name for name in STORAGES if name in measured]
        return (*known, *sorted(measured - set(known)))

    def title_of(self, storage: str) -> str:
        """What a storage is called in text."""
        return str(self.run.settings.get("storages", {}).get(storage, storage))

    def main_of(self, row: Row) -> Metric | None:
        """The first metric that a row has, in the unit that its measurements tell."""
        found = next((each for each in self.metrics if each.name in row.metrics), None)
        return self.in_unit_of(row, found) if found else None

    def in_unit_of(self, row: Row, metric: Metric) -> Metric:
        """A metric as a row has it: suites count other things in other tests by their rate."""
        unit = self.detail(row, "unit") if metric.name == RATE else None
        return dataclasses.replace(metric, unit=unit) if isinstance(unit, str) else metric

    def detail(self, row: Row, name: str) -> object:
        """A detail of the last of a row's measurements that has it; None without any."""
        return next((each.details[name] for each in reversed(self.made(row))
                     if name in each.details), None)

    def control_of(self, row: Row) -> str:
        """The storage that a row is compared with: one that its measurements name, or ``control``.

        Suites name the same engine without replication, for example.
        """
        plain = self.detail(row, "plain")
        return plain if isinstance(plain, str) and plain in self.storages else self.control

    def made(self, row: Row) -> list[Measurement]:
        """The measurements of a row that succeeded."""
        return [each for each in self.run.measurements
                if (each.storage, each.test) == (row.storage, row.test)
                and each.parameters == row.parameters and not each.error]

    def values(self, row: Row, metric: str) -> list[float]:
        """A row's metric in each of its rounds."""
        return [each.metrics[metric] for each in self.made(row) if metric in each.metrics]

    def ratio(self, row: Row, metric: str) -> Spread | None:
        """To the control; None for the control, or when no round has both."""
        control = self.control_of(row)
        return summary.ratios(self.run, row, control, metric) if control else None

    def pairs(self, row: Row, metric: str) -> int:
        """How many rounds a ratio to the control is of."""
        own = {each.round for each in self.made(row) if metric in each.metrics}
        control = self.control_of(row)
        return len(own & {each.round for each in self.run.measurements
                          if (each.storage, each.test) == (control, row.test)
                          and each.parameters == row.parameters and each.metrics.get(metric)})


def subject(run: Run) -> Subject:
    """A run with what its suite says of it; a suite of another version may be unknown.

    Raises:
        ValueError: no program of ours wrote these results; the text says what is wrong.
    """
    checking.check(run)
    rows = tuple(summary.rows(run))
    suite = _suite(run.suite)
    found = {row.storage for row in rows if row.metrics}
    control = suite.control if suite else "zeo"
    metrics = _metrics(rows, suite.metrics if suite else ())
    return Subject(run, suite.title if suite else "", metrics,
                   control if control in found else "", rows)


def _suite(name: str) -> Suite | None:
    if name not in MODULES:
        return None
    try:
        found: Suite = importlib.import_module(f"..{MODULES[name]}", __package__).SUITE
    except (ImportError, AttributeError):
        return None
    return found


def _metrics(rows: Sequence[Row], known: Sequence[Metric]) -> tuple[Metric, ...]:
    """The known ones that rows have, then others that rows have."""
    had = dict.fromkeys(name for row in rows for name in sorted(
        row.metrics, key=lambda name: (name != RATE, name)))
    found = [each for each in known if each.name in had]
    names = {each.name for each in known}
    usual = {each.name: each for each in LATENCIES}
    return (*found, *(usual.get(name) or _guessed(name) for name in had if name not in names))


def _guessed(name: str) -> Metric:
    what, _, unit = name.rpartition("_")
    if name == RATE:
        return Metric(name, "rate", "1/s", Better.HIGHER)
    return Metric(name, (what or name).replace("_", " "), unit if what else "", Better.NEITHER)
