"""``zodbrepl convert``: a cluster's data, or a Data.fs, into another cluster of any backend."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import click

from ..cluster import Cluster, load
from ..cluster.commands import Commands
from ..cluster.layout import Layout
from ..convert import (
    Conversion,
    Done,
    Progress,
    carry_out,
    plan,
    source_of_cluster,
    source_of_file,
)
from .app import App, pass_app
from .convert_view import conversion_lines, done_lines, progress_line
from .steps import step_printer

TELL_SECONDS = 2.0


@click.command()
@click.option("--to", "target", metavar="CLUSTER.conf", required=True,
              type=click.Path(exists=True, dir_okay=False, path_type=Path),
              help="The cluster file of the target, which holds no other data.")
@click.option("--from", "file", metavar="DATA.fs",
              type=click.Path(exists=True, dir_okay=False, path_type=Path),
              help="Convert this Data.fs, in place of the data of the cluster of -c.")
@click.option("--reason", default="", help="Why, for the journal.")
@click.option("--dry-run", is_flag=True, help="Print what was found and each step; change nothing.")
@pass_app
def convert(app: App, target: Path, file: Path | None, reason: str, dry_run: bool) -> None:
    """Copy all data of the cluster into another one of whatever backend, and verify the copy.

    The whole history comes along, under the same transaction ids, as far as the target keeps
    one.  Both have to be down; the storage of either is started as long as it is needed.  The
    source is only read.

    May be interrupted or killed at any moment and given again: what the target holds is
    compared with the source, and the copy goes on after it.  Until the end no Indico starts on
    the target.

    Exit code: 0 all is there and was verified; 8 one of them runs, or the target holds other
    data, or has too little room.
    """
    there = load(Path(os.path.abspath(target)), app.installation.home)
    source = source_of_file(file) if file is not None else source_of_cluster(app.cluster)
    commands = Commands.here(there if file is not None else app.cluster)
    conversion = plan(source, there, commands)
    for line in conversion_lines(conversion):
        click.echo(line)
    if dry_run:
        click.echo("\nThis was a dry run: nothing was changed.")
        return
    step = step_printer()
    done = carry_out(conversion, app.installation, reason.strip(), step, _teller(step))
    _tell_done(conversion, done, there)


def _tell_done(conversion: Conversion, done: Done, target: Cluster) -> None:
    for line in done_lines(done):
        click.echo(line)
    source = conversion.source.cluster
    if source is not None and source.indico:
        click.echo(f"Uploads are no part of the database: copy {Layout(source).indico / 'archive'} "
                   f"to {Layout(target).indico / 'archive'}")
    click.echo(f"next: {Commands.here(target).zodbrepl('up')}")


def _teller(step: Callable[[str], None]) -> Callable[[Progress], None]:
    """What tells now and then how far a stage is, and of its end."""
    told = 0.0

    def tell(progress: Progress) -> None:
        nonlocal told
        now = time.monotonic()
        if progress.fraction == 1.0 or now - told >= TELL_SECONDS:
            told = now
            step(progress_line(progress))

    return tell
