"""What ``zodbrepl bench`` prints of a run; 100 columns are enough, and mostly 80."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator, Sequence

import click
from rich.console import Console, RenderableType
from rich.table import Table as Grid
from rich.text import Text

from ..bench import results, tables
from ..bench.results import Run
from ..bench.suite import Metric, Suite
from ..bench.tables import Line, Table
from ..cluster.commands import Commands
from .app import App

WIDTH = 100
FIRST = ("p50_ms", "p90_ms", "p99_ms", "max_ms")
"""Those that are shown before others where there is no room for all."""
GAP = 2


def show(run: Run, suite: Suite, app: App, *, as_json: bool) -> None:
    """Print a run, for people or for programs."""
    if as_json:
        click.echo(results.as_json(run), nl=False)
        return
    console = console_of()
    for part in view(run, suite, min(WIDTH, console.width)):
        console.print(part, soft_wrap=isinstance(part, Text))
    command = Commands(app.cluster, app.installation.home).zodbrepl("bench", "report",
                                                                    str(run.folder))
    console.print(Text(f"with figures, as a page: {command}"), soft_wrap=True)


def console_of() -> Console:
    """Standard output: as wide as the terminal, or WIDTH where it is none."""
    return Console(highlight=False, width=None if sys.stdout.isatty() else WIDTH)


def view(run: Run, suite: Suite, width: int = WIDTH) -> Iterator[RenderableType]:
    """What was asked for, a table for each test, what failed, where the results are.

    Args:
        width: how many characters a table's line may have.
    """
    yield Text(_origin(run))
    hidden: dict[str, None] = {}
    found = list(tables.tables(run, suite))
    for table in found:
        yield Text(f"\n{_heading(table)}")
        grid, left = _grid(table, suite, width)
        hidden |= dict.fromkeys(left)
        yield grid
    yield Text()
    for line in (line for table in found for line in table.lines if line.row.error):
        failed = " ".join([line.row.test, *map(str, line.row.parameters.values())])
        yield Text(plain(f"failed: {line.title}, {failed}: {line.row.error}"))
    for name, why in run.left_out.items():
        yield Text(plain(f"left out: {tables.title_of(run, name)}: {why}"))
    if any(table.ratios for table in found):
        control = tables.title_of(run, suite.control)
        yield Text(f"xCTL is the first figure in times that of {control} in the same round.")
    if found and run.settings["rounds"] > 1:
        yield Text("Figures are medians of the rounds; ± is half of the way from the least to the "
                   "most.")
    if hidden:
        yield Text(textwrap.fill(f"Not every table has room for {', '.join(hidden)}.", width))
    yield Text(f"kept in {run.folder / results.FILE}")


def _origin(run: Run) -> str:
    rounds = run.settings["rounds"]
    options = run.settings["options"]
    where = f"indico-{options['instance']} of " if options.get("instance") else ""
    return (f"{run.suite} for {where}{run.cluster}: {len(run.measurements)} of {run.planned} "
            f"measurements of {run.settings['seconds']:g} s, {rounds} round"
            f"{'' if rounds == 1 else 's'}")


def _heading(table: Table) -> str:
    same = ", ".join(f"{name} {value}" for name, value in table.same.items())
    return table.test + (f" ({same})" if same else "")


def _grid(table: Table, suite: Suite, width: int) -> tuple[Grid, list[str]]:
    """A table, and the titles of the metrics that found no room."""
    lefts = [("STORAGE", [line.title for line in table.lines])]
    lefts += [(name.upper(), [line.parameters[index] for line in table.lines])
              for index, name in enumerate(table.parameters)]
    rights = []
    if table.main:
        rights = [(f"{table.main.title}\n{table.unit}", [_main(line) for line in table.lines])]
        if any(halves := [_half(line) for line in table.lines]):
            rights.append(("±", halves))
        if table.ratios:
            rights.append(("xCTL", [_ratio(line, suite.control) for line in table.lines]))
    room = width - sum(_width(*each) + GAP for each in lefts + rights)
    shown, hidden = _fitting(table, room)
    order = [(metric, column) for metric in table.metrics
             for kept, column in shown if kept == metric]
    grid = Grid(box=None, pad_edge=False, padding=(0, GAP, 0, 0))
    for number, (head, cells) in enumerate([*lefts, *rights, *(each for _, each in order)]):
        grid.add_column(Text(head), justify="left" if number < len(lefts) else "right",
                        no_wrap=True, min_width=_width(head, cells))
    columns = [cells for _, cells in (*lefts, *rights, *(column for _, column in order))]
    for row in zip(*columns, strict=True):
        grid.add_row(*map(Text, row))
    return grid, hidden


Column = tuple[str, list[str]]


def _fitting(table: Table, room: int) -> tuple[list[tuple[Metric, Column]], list[str]]:
    wanted = sorted(table.metrics, key=lambda each: (each.name not in FIRST,
                                                     each.name == "mean_ms"))
    shown: list[tuple[Metric, Column]] = []
    hidden = []
    for metric in wanted:
        cells = [number(line.others[metric.name]) if metric.name in line.others else ""
                 for line in table.lines]
        column = _title(metric), cells
        room -= _width(*column) + GAP
        if room < 0:
            hidden.append(metric.title)
        elif any(cell not in ("", "0") for cell in cells):
            shown.append((metric, column))
        else:
            room += _width(*column) + GAP
    return shown, hidden


def _title(metric: Metric) -> str:
    return f"{metric.title}\n{metric.unit}"


def _width(head: str, cells: Sequence[str]) -> int:
    return max(map(len, [*head.splitlines(), *cells]))


def _main(line: Line) -> str:
    return number(line.main.median) if line.main else "failed"


def _half(line: Line) -> str:
    half = line.main.half_range if line.main and line.row.rounds > 1 else None
    return "" if half is None else f"{100 * half:.0f}%"


def _ratio(line: Line, control: str) -> str:
    if line.row.storage == control:
        return "1"
    return f"{line.ratio.median:.2f}" if line.ratio else ""


def number(value: float) -> str:
    """With as many digits as are worth reading."""
    if value == 0:
        return "0"
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.3g}"


def plain(text: str) -> str:
    """A text without what a terminal would obey; programs and files may say anything."""
    return "".join(each if each.isprintable() or each in "\n\t" else "?" for each in text)
