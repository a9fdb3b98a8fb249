"""The subject of a report section: a usable run with its suite's metadata."""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Sequence

from indico_zodbrepl.bench import results, summary
from indico_zodbrepl.bench.results import Measurement, Run
from indico_zodbrepl.bench.sites.storages import STORAGES
from indico_zodbrepl.bench.suite import LATENCIES, MODULES, Better, Metric, Suite
from indico_zodbrepl.bench.summary import Ratio, Row

RATE = "rate"


@dataclasses.dataclass(frozen=True)
class Subject:
    """A run whose values have the expected types; only details may be anything.

    Attributes:
        title: the question that the suite answers.
        metrics: of the run, the main one first.
        control: the storage that ratios refer to; '' if it was not measured.
    """

    run: Run
    title: str
    metrics: tuple[Metric, ...]
    control: str
    rows: tuple[Row, ...]

    @property
    def main(self) -> Metric | None:
        """Return the metric that figures show; None if nothing was measured."""
        return self.metrics[0] if self.metrics else None

    @property
    def rounds(self) -> int:
        """Return the highest number of rounds of any case."""
        return max((row.rounds for row in self.rows), default=0)

    @property
    def storages(self) -> tuple[str, ...]:
        """Return the storages with figures, in the order of STORAGES."""
        measured = {row.storage for row in self.rows if row.metrics}
        known = [name for name in STORAGES if name in measured]
        return (*known, *sorted(measured - set(known)))

    def title_of(self, storage: str) -> str:
        """Return the display name of a storage."""
        return str(self.run.settings.get("storages", {}).get(storage, storage))

    def main_of(self, row: Row) -> Metric | None:
        """Return a row's first metric, in the unit of its measurements."""
        found = next((each for each in self.metrics if each.name in row.metrics), None)
        return self.in_unit_of(row, found) if found else None

    def in_unit_of(self, row: Row, metric: Metric) -> Metric:
        """Return a metric in a row's own unit: tests of a suite may count different things."""
        unit = self.detail(row, "unit") if metric.name == RATE else None
        return dataclasses.replace(metric, unit=unit) if isinstance(unit, str) else metric

    def detail(self, row: Row, name: str) -> object:
        """Return a detail from the last of a row's measurements that has it, or None."""
        return next(
            (each.details[name] for each in reversed(self.made(row)) if name in each.details), None
        )

    def control_of(self, row: Row) -> str:
        """Return the storage that a row is compared with.

        Its measurements may name one, such as the same engine without replication; default
        ``control``.
        """
        plain = self.detail(row, "plain")
        return plain if isinstance(plain, str) and plain in self.storages else self.control

    def made(self, row: Row) -> list[Measurement]:
        """Return the successful measurements of a row."""
        return [
            each
            for each in self.run.measurements
            if (each.storage, each.test) == (row.storage, row.test)
            and each.parameters == row.parameters
            and not each.error
        ]

    def values(self, row: Row, metric: str) -> list[float]:
        """Return a row's metric in each round."""
        return [each.metrics[metric] for each in self.made(row) if metric in each.metrics]

    def ratio(self, row: Row, metric: str) -> Ratio | None:
        """Return the ratio to the control; None for the control or without common rounds."""
        control = self.control_of(row)
        return summary.ratios(self.run, row, control, metric) if control else None


def subject(run: Run) -> Subject:
    """Return a run with its suite's metadata; a suite of another version may be unknown.

    Raises:
        ValueError: this program did not write these results; the text names the problem.
    """
    results.check(run)
    rows = tuple(summary.rows(run))
    suite = _suite(run.suite)
    found = {row.storage for row in rows if row.metrics}
    control = suite.control if suite else "zeo"
    metrics = _metrics(rows, suite.metrics if suite else ())
    return Subject(
        run, suite.title if suite else "", metrics, control if control in found else "", rows
    )


def _suite(name: str) -> Suite | None:
    if name not in MODULES:
        return None
    try:
        module = importlib.import_module(f"indico_zodbrepl.bench.suites.{MODULES[name]}")
        found: Suite = module.SUITE
    except (ImportError, AttributeError):
        return None
    return found


def _metrics(rows: Sequence[Row], known: Sequence[Metric]) -> tuple[Metric, ...]:
    """Return the suite's metrics that rows have, then other metrics of rows."""
    had = dict.fromkeys(
        name for row in rows for name in sorted(row.metrics, key=lambda name: (name != RATE, name))
    )
    found = [each for each in known if each.name in had]
    names = {each.name for each in known}
    usual = {each.name: each for each in LATENCIES}
    return (*found, *(usual.get(name) or _guessed(name) for name in had if name not in names))


def _guessed(name: str) -> Metric:
    what, _, unit = name.rpartition("_")
    if name == RATE:
        return Metric(name, "rate", "1/s", Better.HIGHER)
    return Metric(name, (what or name).replace("_", " "), unit if what else "", Better.NEITHER)
