"""A run as tables: rows of storages and parameters for each test.  Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

from indico_zodbrepl.bench.results import Run
from indico_zodbrepl.bench.suite import Metric, Suite
from indico_zodbrepl.bench.summary import Ratio, Row, Spread, ratios, rows


@dataclasses.dataclass(frozen=True)
class Line:
    """A row of a table.

    Attributes:
        title: of the storage.
        parameters: values of the varying parameters.
        main: the main metric; None if every round failed.
        others: by name.
        ratio: of the main metric to the control storage's, if any.
    """

    title: str
    parameters: Sequence[str]
    row: Row
    main: Spread | None
    others: Mapping[str, float]
    ratio: Ratio | None


@dataclasses.dataclass(frozen=True)
class Table:
    """The table of a test.

    Attributes:
        same: parameters with the same value in all rows.
        unit: of the main metric; tests may define it in their details, such as "contributions".
        parameters: names of the varying parameters.
        main: the first of the suite's metrics that a row has; None without any.
        metrics: all others that a row has.
        ratios: True if a row has a ratio.
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
    """Yield the tables of a run, in the order of the first measurement.

    Rows with the same parameters are adjacent, so that storages are side by side.
    """
    by_test: dict[str, list[Row]] = {}
    for row in rows(run):
        by_test.setdefault(row.test, []).append(row)
    for test, found in by_test.items():
        yield _table(run, suite, test, found)


def _table(run: Run, suite: Suite, test: str, found: Sequence[Row]) -> Table:
    names = dict.fromkeys(name for row in found for name in row.parameters)
    values = {
        name: dict.fromkeys(str(row.parameters.get(name, "")) for row in found) for name in names
    }
    same = {name: next(iter(each)) for name, each in values.items() if len(each) == 1}
    different = [name for name in names if name not in same]
    metrics = [
        metric for metric in suite.metrics if any(metric.name in row.metrics for row in found)
    ]
    main, others = (metrics[0], metrics[1:]) if metrics else (None, [])
    groups: dict[tuple[str, ...], list[Line]] = {}
    for row in found:
        shown = tuple(str(row.parameters.get(name, "")) for name in different)
        groups.setdefault(shown, []).append(
            Line(
                title_of(run, row.storage),
                shown,
                row,
                row.metrics.get(main.name) if main else None,
                {
                    each.name: row.metrics[each.name].median
                    for each in others
                    if each.name in row.metrics
                },
                ratios(run, row, suite.control, main.name) if main else None,
            )
        )
    told = next(
        (
            str(each.details["unit"])
            for each in run.measurements
            if each.test == test and "unit" in each.details
        ),
        "",
    )
    unit = f"{told.removesuffix('/s')}/s" if told else main.unit if main else ""
    return Table(
        test,
        same,
        unit,
        different,
        main,
        others,
        [line for group in groups.values() for line in group],
    )


def title_of(run: Run, storage: str) -> str:
    """Return the display name of a storage."""
    return str(run.settings.get("storages", {}).get(storage, storage))
