"""``zodbrepl bench report``: results as a page with figures."""

from __future__ import annotations

from pathlib import Path

import click
import rich.progress
from rich.console import Console

PATH = click.Path(path_type=Path)


@click.command("report")
@click.argument("folder", type=PATH)
@click.option("--output", type=PATH, metavar="DIR",
              help="Where the page and its pictures go.  [default: FOLDER/report]")
def command(folder: Path, *, output: Path | None) -> None:
    """Make a page of the results in FOLDER, one of var/bench: figures, medians, what they show.

    The page needs no other file and no network; each figure is beside it as a PNG too.

    Exit code: 0 made, 1 it can't be written, 2 there are no results.
    """
    from ..bench import report  # noqa: PLC0415  # loads matplotlib, which takes a second

    console = Console(stderr=True, highlight=False)
    with rich.progress.Progress(
            rich.progress.BarColumn(bar_width=16), rich.progress.MofNCompleteColumn(),
            rich.progress.TextColumn("figures"), rich.progress.TimeRemainingColumn(),
            console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=None)
        page = report.make(folder, output, lambda done, planned: bar.update(
            task, completed=done, total=planned))
    click.echo(f"{page}")
