"""The figures of a run as tables: medians, spread and ratios to the control by test."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from indico_zodbrepl.bench.report import wording
from indico_zodbrepl.bench.report.figures.generic import by_test
from indico_zodbrepl.bench.report.subject import Subject
from indico_zodbrepl.bench.suite import Metric
from indico_zodbrepl.bench.summary import Row


@dataclasses.dataclass(frozen=True)
class Cell:
    """A number and its spread; both '' if there is none."""

    text: str = ""
    spread: str = ""


@dataclasses.dataclass(frozen=True)
class Table:
    """The table of one test.

    Attributes:
        parameters: headings of the columns that distinguish cases.
        columns: headings of the numbers.
        rows: the storage, its parameters, and a cell for each column.
    """

    caption: str
    parameters: tuple[str, ...]
    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[str, ...], tuple[Cell, ...]], ...]


def of(subject: Subject) -> list[Table]:
    """Return a table for each test that has figures."""
    return [_table(subject, test, rows) for test, rows in by_test(subject).items()]


def _table(subject: Subject, test: str, rows: Sequence[Row]) -> Table:
    metrics = [each for each in subject.metrics if any(each.name in row.metrics for row in rows)]
    names = tuple(dict.fromkeys(name for row in rows for name in row.parameters))
    compared = bool(subject.control) and any(row.storage != subject.control for row in rows)
    columns = [wording.axis(subject.in_unit_of(rows[0], each)) for each in metrics]
    if compared:
        controls = dict.fromkeys(map(subject.control_of, rows))
        columns.insert(1, f"ratio to {wording.listed([*map(subject.title_of, controls)])}")
    found = []
    for row in rows:
        cells = [_cell(row, each) for each in metrics]
        if compared:
            cells.insert(1, _ratio(subject, row, metrics[0]))
        cells.append(Cell(str(row.rounds)))
        found.append(
            (
                subject.title_of(row.storage),
                tuple(str(row.parameters.get(name, "")) for name in names),
                tuple(cells),
            )
        )
    return Table(
        test, tuple(name.replace("_", " ") for name in names), (*columns, "rounds"), tuple(found)
    )


def _cell(row: Row, metric: Metric) -> Cell:
    found = row.metrics.get(metric.name)
    return Cell(wording.number(found.median), wording.plus_minus(found)) if found else Cell()


def _ratio(subject: Subject, row: Row, metric: Metric) -> Cell:
    if row.storage == subject.control_of(row):
        return Cell("control")
    found = subject.ratio(row, metric.name)
    if not found:
        return Cell()
    if found.rounds == 1:
        return Cell(wording.ratio(found.median))
    return Cell(
        wording.ratio(found.median), f"{wording.ratio(found.low)} to {wording.ratio(found.high)}"
    )
