"""``zodbrepl backup``: the database, or what is new in it, into a folder of backups."""

from __future__ import annotations

from pathlib import Path

import click
from rich.filesize import decimal

from ..cluster.commands import Commands
from ..errors import ExitCode, OperatorError
from ..failover import backup as backups
from .app import App, pass_app
from .steps import step_printer


@click.command()
@click.argument("node", required=False)
@click.option("--to", "folder", type=click.Path(file_okay=False, path_type=Path), metavar="FOLDER",
              help="The folder of backups.  [default: backup-directory of the cluster file]")
@click.option("--full", is_flag=True, help="Make a full backup, whatever there is already.")
@click.option("--reason", default="", help="Why, for the journal.")
@click.option("--dry-run", is_flag=True, help="Make the checks and change nothing.")
@pass_app
def backup(app: App, node: str | None, folder: Path | None, *, full: bool, reason: str,
           dry_run: bool) -> None:
    """Back up the database into a folder, and verify what was written.

    Servers and Indico go on meanwhile.  NODE is whose data are read; by default a secondary that
    is in step, so that the primary is not slowed.  NODE may run or be stopped.

    Of a Data.fs what is new since the last backup is added (ZODB's repozo), or all of it where it
    is no continuation, as after a pack.  SQLite is copied whole.  The folder is for its owner
    alone.  Files that users upload are no part of the database.

    May be interrupted and given again.

    Exit code: 0 done, or there was nothing new; 8 the data are damaged, so that nothing was kept,
    or another backup works in the folder.
    """
    app.require("backup")
    source = backups.prepare(app.cluster, app.installation, node, folder)
    click.echo(f"of node {source.node.name} ({source.why}), {decimal(source.size)}, "
               f"to {source.folder}")
    if dry_run:
        click.echo("\nThis was a dry run: nothing was changed.")
        return
    try:
        made = backups.back_up(app.cluster, app.installation, source, reason.strip(),
                               step_printer(), full=full)
    except KeyboardInterrupt:
        raise OperatorError("interrupted; the backups that were there are as they were",
                            str(source.folder), Commands.here(app.cluster).zodbrepl("backup"),
                            ExitCode.INTERRUPTED) from None
    for name in made.removed:
        click.echo(f"removed what an interrupted backup had left: {name}")
    if made.kind == "none":
        click.echo(f"nothing is new since the last backup: transaction {made.tid}, of {made.time}")
        return
    click.echo(f"{made.kind} backup {made.name}: {decimal(made.bytes)} in {made.seconds:.1f} s, "
               f"verified; up to transaction {made.tid}, of {made.time}")
