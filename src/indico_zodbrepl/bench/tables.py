"""A run as tables: for each test rows of storages and parameters.  Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

from .results import Run
from .suite import Metric, Suite
from .summary import Row, Spread, ratios, rows


@dataclasses.dataclass(frozen=True)
class Line:
    """One row of a table.

    Attributes:
        title: of the storage.
        parameters: values of those that the table's rows differ in.
        main: the main metric; None when every round failed.
        others: by name.
        ratio: of the main metric to that of the control storage, if it has one.
    """

    title: str
    parameters: Sequence[str]
    row: Row
    main: Spread | None
    others: Mapping[str, float]
    ratio: Spread | None


@dataclasses.dataclass(frozen=True)
class Table:
    """One test.

    Attributes:
        same: parameters that all of its rows have, with their values.
        unit: of the main metric; tests may say it in their details, such as "contributions".
        parameters: names of the others.
        main: the first of the suite's metrics that a row has; None without any.
        metrics: all others that a row has.
        ratios: whether a row has a ratio.
    """

    test: str
    same: Mapping[str, str]
    unit: str
    parameters: Sequence[str]
    main: Metric | None
    metrics: Sequence[Metric]
    lines: Sequence[Line]

    @property
    def ratios(self) -> bool:
        return any(line.ratio for line in self.lines)


def tables(run: Run, suite: Suite) -> Iterator[Table]:
    """Those of a run, in the order in which its tests were first measured.

    Rows with the same parameters follow each other, so that storages are side by side.
    """
    by_test: dict[str, list[Row]] = {}
    for row in rows(run):
        by_test.setdefault(row.test, []).append(row)
    for test, found in by_test.items():
        yield _table(run, suite, test, found)


def _table(run: Run, suite: Suite, test: str, found: Sequence[Row]) -> Table:
    names = dict.fromkeys(name for row in found for name in row.parameters)
    values = {name: dict.fromkeys(str(row.parameters.get(name, "")) for row in found)
              for name in names}
    same = {name: next(iter(each)) for name, each in values.items() if len(each) == 1}
    different = [name for name in names if name not in same]
    metrics = [metric for metric in suite.metrics
               if any(metric.name in row.metrics for row in found)]
    main, others = (metrics[0], metrics[1:]) if metrics else (None, [])
    groups: dict[tuple[str, ...], list[Line]] = {}
    for row in found:
        shown = tuple(str(row.parameters.get(name, "")) for name in different)
        groups.setdefault(shown, []).append(Line(
            title_of(run, row.storage), shown, row, row.metrics.get(main.name) if main else None,
            {each.name: row.metrics[each.name].median for each in others
             if each.name in row.metrics},
            ratios(run, row, suite.control, main.name) if main else None))
    told = next((str(each.details["unit"]) for each in run.measurements
                 if each.test == test and "unit" in each.details), "")
    unit = f"{told.removesuffix('/s')}/s" if told else main.unit if main else ""
    return Table(test, same, unit, different, main, others,
                 [line for group in groups.values() for line in group])


def title_of(run: Run, storage: str) -> str:
    """What reports call a storage."""
    return str(run.settings.get("storages", {}).get(storage, storage))
