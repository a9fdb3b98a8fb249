"""Results of benchmarks as tables of at most 100 columns."""

from __future__ import annotations

import dataclasses
import json
import sys
import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import click
from rich.console import Console, RenderableType
from rich.table import Table as Grid
from rich.text import Text

from indico_zodbrepl.bench import comparing, results, tables
from indico_zodbrepl.bench import suite as suites
from indico_zodbrepl.bench.comparing import Comparison, Pair
from indico_zodbrepl.bench.results import Run
from indico_zodbrepl.bench.suite import Metric, Suite
from indico_zodbrepl.bench.tables import Line, Table
from indico_zodbrepl.cli.app import App
from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.errors import ExitCode, OperatorError

WIDTH = 100
FIRST = ("p50_ms", "p90_ms", "p99_ms", "max_ms")
"""The metrics that are shown first where the width is too small for all."""
GAP = 2

Column = tuple[str, list[str]]


def show(run: Run, suite: Suite, app: App, *, as_json: bool) -> None:
    """Print a run as tables or as JSON."""
    if as_json:
        click.echo(results.as_json(run), nl=False)
        return
    console = console_of()
    for part in view(run, suite, min(WIDTH, console.width)):
        console.print(part, soft_wrap=isinstance(part, Text))
    for line in _next(app, run.folder, is_complete=run.is_complete):
        console.print(Text(line), soft_wrap=True)


def _next(app: App, folder: Path, *, is_complete: bool) -> Iterator[str]:
    """Yield what can be done with results."""
    commands = Commands(app.cluster, app.installation.home)
    if not is_complete:
        yield f"to continue: {commands.zodbrepl('bench', 'resume', str(folder))}"
    yield f"page with figures: {commands.zodbrepl('bench', 'report', str(folder))}"


def console_of() -> Console:
    """Return standard output, as wide as its terminal, or WIDTH without one."""
    return Console(highlight=False, width=None if sys.stdout.isatty() else WIDTH)


def view(run: Run, suite: Suite, width: int = WIDTH) -> Iterator[RenderableType]:
    """Yield a table for each test, failures, and the folder of the results.

    Args:
        width: of a table, in characters.
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
        yield Text(f"xCTL is the first figure divided by that of {control} in the same round.")
    if found and run.settings["rounds"] > 1:
        yield Text(
            "Figures are medians of the rounds; ± is half of the range from lowest to highest."
        )
    if hidden:
        yield Text(textwrap.fill(f"Left out of some tables: {', '.join(hidden)}.", width))
    yield Text(f"kept in {run.folder / results.FILE}")


def _origin(run: Run) -> str:
    rounds = run.settings["rounds"]
    options = run.settings["options"]
    where = f"indico-{options['instance']} of " if options.get("instance") else ""
    return (
        f"{run.suite} for {where}{run.cluster}: {len(run.measurements)} of {run.planned} "
        f"measurements of {run.settings['seconds']:g} s, {rounds} round"
        f"{'' if rounds == 1 else 's'}"
    )


def _heading(table: Table) -> str:
    same = ", ".join(f"{name} {value}" for name, value in table.same.items())
    return table.test + (f" ({same})" if same else "")


def _grid(table: Table, suite: Suite, width: int) -> tuple[Grid, list[str]]:
    """Return a table, and the titles of the metrics that do not fit."""
    lefts = [("STORAGE", [line.title for line in table.lines])]
    lefts += [
        (name.upper(), [line.parameters[index] for line in table.lines])
        for index, name in enumerate(table.parameters)
    ]
    rights = []
    if table.main:
        rights = [(f"{table.main.title}\n{table.unit}", [_main(line) for line in table.lines])]
        if any(halves := [_half(line) for line in table.lines]):
            rights.append(("±", halves))
        if table.ratios:
            rights.append(("xCTL", [_ratio(line, suite.control) for line in table.lines]))
    room = width - sum(_width(*each) + GAP for each in lefts + rights)
    shown, hidden = _fitting(table, room)
    order = [
        (metric, column) for metric in table.metrics for kept, column in shown if kept == metric
    ]
    grid = Grid(box=None, pad_edge=False, padding=(0, GAP, 0, 0))
    for number, (head, cells) in enumerate([*lefts, *rights, *(each for _, each in order)]):
        grid.add_column(
            Text(head),
            justify="left" if number < len(lefts) else "right",
            no_wrap=True,
            min_width=_width(head, cells),
        )
    columns = [cells for _, cells in (*lefts, *rights, *(column for _, column in order))]
    for row in zip(*columns, strict=True):
        grid.add_row(*map(Text, row))
    return grid, hidden


def _fitting(table: Table, room: int) -> tuple[list[tuple[Metric, Column]], list[str]]:
    wanted = sorted(
        table.metrics, key=lambda each: (each.name not in FIRST, each.name == "mean_ms")
    )
    shown: list[tuple[Metric, Column]] = []
    hidden = []
    for metric in wanted:
        cells = [
            number(line.others[metric.name]) if metric.name in line.others else ""
            for line in table.lines
        ]
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


def show_all(
    app: App, folder: Path, made: Sequence[Run], failures: Mapping[str, str], *, as_json: bool
) -> None:
    """Print a line for each suite of ``bench all``, or the runs as JSON.

    Args:
        failures: the error of each suite that failed.
    """
    if as_json:
        click.echo(
            json.dumps({run.suite: json.loads(results.as_json(run)) for run in made}, indent=1)
        )
        return
    for run in made:
        failed = f", {len(run.failed)} failed" if run.failed else ""
        took = f" in {run.ended - run.began:.0f} s" if run.ended and not run.resumed else ""
        click.echo(
            f"{run.suite:<13} {len(run.measurements)} of {run.planned} measurements{took}{failed}"
        )
        for name, why in run.left_out.items():
            click.echo(f"{'':<13} left out: {name}: {why}")
    for name, why in failures.items():
        click.echo(f"{name:<13} failed: {why}")
    click.echo(f"kept in {folder}")
    if made:
        done = {run.suite for run in made if run.is_complete}
        is_complete = done | failures.keys() >= set(suites.known())
        for line in _next(app, folder, is_complete=is_complete):
            click.echo(line)


def show_comparison(old: Path, new: Path, *, as_json: bool) -> None:
    """Print the comparison of two runs, or of the suites of two folders.

    Raises OperatorError (exit 2) if a folder has no results, or they share no suite.
    """
    olds, news = _by_suite(old), _by_suite(new)
    both = [name for name in olds if name in news]
    if not both:
        raise OperatorError(
            "there is nothing to compare",
            f"{old} has {', '.join(olds)}, {new} has {', '.join(news)}",
            "name folders with results of the same suite",
            ExitCode.BAD_CONFIG,
        )
    found = [comparing.compare(olds[name], news[name], suites.suite(name)) for name in both]
    alone = {
        str(folder): [name for name in mine if name not in both]
        for folder, mine in ((old, olds), (new, news))
    }
    if as_json:
        values = {"comparisons": [dataclasses.asdict(each) for each in found], "alone": alone}
        click.echo(json.dumps(values, indent=1))
        return
    console = console_of()
    for comparison in found:
        for part in comparison_view(comparison):
            console.print(part, soft_wrap=isinstance(part, Text))
    for folder, names in alone.items():
        if names:
            console.print(Text(f"only in {folder}: {', '.join(names)}"), soft_wrap=True)


def _by_suite(folder: Path) -> dict[str, Run]:
    found = {}
    for run in results.read_folder(folder):
        if run.problem or run.suite not in suites.known():
            raise OperatorError(
                f"the results in {run.folder} cannot be used",
                run.problem or f"there is no suite {run.suite!r}",
                "",
                ExitCode.BAD_CONFIG,
            )
        found[run.suite] = run
    return found


def comparison_view(found: Comparison) -> Iterator[RenderableType]:
    """Yield a table of the main metric of each case, then notes."""
    yield Text(found.suite)
    mains = _mains(found)
    if mains:
        yield _comparison_grid(mains)
    others = len(found.pairs) - len(mains)
    if others:
        yield Text(f"--json has {others} more figures, such as latencies.")
    for title, names in (
        ("only in the old run", found.only_old),
        ("only in the new run", found.only_new),
    ):
        counts = Counter(name.partition(":")[0] for name in names)
        for storage, count in counts.items():
            yield Text(plain(f"{title}: {count} case{'' if count == 1 else 's'} of {storage}"))
    for note in found.notes:
        yield Text(plain(f"note: {note}"))
    yield Text()


def _comparison_grid(mains: list[Pair]) -> Grid:
    table = Grid(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for head in ("STORAGE", "CASE"):
        table.add_column(head, overflow="fold")
    for head in ("OLD", "NEW", "NEW/OLD"):
        table.add_column(head, justify="right", no_wrap=True)
    table.add_column("SHOWN", no_wrap=True)
    for pair in mains:
        case = " ".join(
            [pair.test, *(f"{name} {value}" for name, value in pair.parameters.items())]
        )
        table.add_row(
            Text(plain(pair.storage)),
            Text(plain(f"{case}, {pair.unit}")),
            number(pair.old.median),
            number(pair.new.median),
            f"{pair.ratio:.2f}" if pair.ratio else "",
            pair.verdict,
        )
    return table


def _mains(found: Comparison) -> list[Pair]:
    """Return the first pair of each case."""
    mains: dict[tuple[str, str, str], Pair] = {}
    for pair in found.pairs:
        mains.setdefault((pair.storage, pair.test, str(sorted(pair.parameters.items()))), pair)
    return list(mains.values())


def number(value: float) -> str:
    """Return a number with three significant digits."""
    if value == 0:
        return "0"
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.3g}"


def plain(text: str) -> str:
    """Replace characters that control a terminal."""
    return "".join(each if each.isprintable() or each in "\n\t" else "?" for each in text)
