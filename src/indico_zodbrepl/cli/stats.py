"""``zodbrepl stats``: what the database holds."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click
import rich.progress
from rich.console import Console

from ..errors import OperatorError
from ..node import statistics
from ..node.kept_statistics import Kept, keep
from ..node.statistics import Progress, Source
from .app import App, pass_app
from .stats_view import view


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print everything as one JSON object.")
@click.option("--top", type=click.IntRange(0), default=15, show_default=True, metavar="N",
              help="How many classes, modules and largest objects to show.")
@click.option("--node", "name", metavar="NODE",
              help="Read this node's own copy of the database.  [default: what Indico uses]")
@click.option("--no-history", is_flag=True,
              help="Read each object once, as it is now; quicker where no Data.fs can be read.")
@pass_app
def stats(app: App, *, as_json: bool, top: int, name: str | None, no_history: bool) -> None:
    """Sum the objects of the database by class and module, and show the largest.

    The whole database is read and nothing is written; servers may run, and Ctrl-C does no harm.
    A Data.fs on this host is read itself, also when its server is stopped; any other
    storage as Indico reads it.  Bytes are those of objects' data, without what a storage adds.
    What was found is kept, in var/statistics.json, for the admin page.
    """
    where = statistics.source(app.cluster, name)
    with _progress(where) as tell:
        found = statistics.statistics(app.installation, where, top, history=not no_history,
                                      on_progress=tell)
    try:
        keep(app.cluster, Kept(time.time(), where, found))
    except OperatorError as error:
        click.echo(f"NOTICE: {error.notice}: {error.detail}", err=True)
    if as_json:
        values = dataclasses.asdict(where) | {"path": str(where.path)}
        click.echo(json.dumps({"cluster": app.cluster.name} | values | found, indent=2))
        return
    console = Console(highlight=False)
    for part in view(where, found, top):
        console.print(part)


@contextmanager
def _progress(where: Source) -> Iterator[Callable[[Progress], None]]:
    """A bar on standard error while it is a terminal; it is gone afterwards."""
    console = Console(stderr=True)
    counted = rich.progress.DownloadColumn() if where.kind == "file" else (
        rich.progress.MofNCompleteColumn())
    bar = rich.progress.Progress(
        rich.progress.BarColumn(bar_width=16), counted,
        rich.progress.TextColumn("{task.fields[records]:,} records, {task.fields[rate]:,.0f}/s"),
        rich.progress.TimeRemainingColumn(), console=console, transient=True,
        disable=not console.is_terminal)
    with bar:
        task = bar.add_task("", total=None, records=0, rate=0.0)

        def tell(progress: Progress) -> None:
            seconds = bar.tasks[task].elapsed or 0.0
            rate = progress.records / seconds if seconds else 0.0
            bar.update(task, completed=progress.done, total=progress.total,
                       records=progress.records, rate=rate)

        yield tell
