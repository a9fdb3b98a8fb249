"""``zodbrepl bench compare``: two runs, or the suites of two folders, side by side."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import click
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from ..bench import comparing, results, suites
from ..bench.comparing import Comparison, Pair
from ..bench.results import Run
from ..errors import ExitCode, OperatorError
from . import bench_options
from .bench_view import console_of, number, plain

FOLDER = click.Path(path_type=Path)


@click.command("compare", params=[click.Argument(["old"], type=FOLDER),
                                  click.Argument(["new"], type=FOLDER), bench_options.as_json()])
def command(old: Path, new: Path, *, as_json: bool) -> None:
    """Show what two runs measured side by side: in OLD and in NEW, folders of var/bench.

    A difference is told where no round of one reaches a round of the other; with one round only
    nothing can be told.  Folders of `bench all` are compared suite by suite.

    Exit code: 0 compared, 2 one of the folders has no results.
    """
    olds, news = _by_suite(old), _by_suite(new)
    both = [name for name in olds if name in news]
    if not both:
        raise OperatorError("there is nothing to compare",
                            f"{old} has {', '.join(olds)}, {new} has {', '.join(news)}",
                            "name folders with results of the same suite", ExitCode.BAD_CONFIG)
    found = [comparing.compare(olds[name], news[name], suites.suite(name)) for name in both]
    alone = {str(folder): [name for name in mine if name not in both]
             for folder, mine in ((old, olds), (new, news))}
    if as_json:
        click.echo(json.dumps({"comparisons": [dataclasses.asdict(each) for each in found],
                               "alone": alone}, indent=1))
        return
    console = console_of()
    for comparison in found:
        for part in view(comparison):
            console.print(part, soft_wrap=isinstance(part, Text))
    for folder, names in alone.items():
        if names:
            console.print(Text(f"only in {folder}: {', '.join(names)}"), soft_wrap=True)


def view(found: Comparison) -> Iterator[RenderableType]:
    """A table of the main metric of each case, then what else there is to know."""
    yield Text(found.suite)
    mains = _mains(found)
    if mains:
        yield _table(mains)
    others = len(found.pairs) - len(mains)
    if others:
        yield Text(f"--json has {others} more figures, such as latencies.")
    for title, names in (("only in the old run", found.only_old),
                         ("only in the new run", found.only_new)):
        counts = Counter(name.partition(":")[0] for name in names)
        for storage, count in counts.items():
            yield Text(plain(f"{title}: {count} case{'' if count == 1 else 's'} of {storage}"))
    for note in found.notes:
        yield Text(plain(f"note: {note}"))
    yield Text()


def _table(mains: list[Pair]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for head in ("STORAGE", "CASE"):
        table.add_column(head, overflow="fold")
    for head in ("OLD", "NEW", "NEW/OLD"):
        table.add_column(head, justify="right", no_wrap=True)
    table.add_column("SHOWN", no_wrap=True)
    for pair in mains:
        case = " ".join([pair.test, *(f"{name} {value}" for name, value
                                      in pair.parameters.items())])
        table.add_row(Text(plain(pair.storage)), Text(plain(f"{case}, {pair.unit}")),
                      number(pair.old.median), number(pair.new.median),
                      f"{pair.ratio:.2f}" if pair.ratio else "", pair.verdict)
    return table


def _mains(found: Comparison) -> list[Pair]:
    """The first pair of each case."""
    mains: dict[tuple[str, str, str], Pair] = {}
    for pair in found.pairs:
        mains.setdefault((pair.storage, pair.test, str(sorted(pair.parameters.items()))), pair)
    return list(mains.values())


def _by_suite(folder: Path) -> dict[str, Run]:
    found = {}
    for run in results.read_folder(folder):
        if run.problem or run.suite not in suites.known():
            raise OperatorError(f"the results in {run.folder} can't be used",
                                run.problem or f"there is no suite {run.suite!r}", "",
                                ExitCode.BAD_CONFIG)
        found[run.suite] = run
    return found
