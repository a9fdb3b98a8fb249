"""The commands ``backup`` and ``restore``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from indico_zodbrepl.cli.app import DRY_RUN, REASON, UNCHANGED, App, pass_app, step_printer
from indico_zodbrepl.errors import ExitCode, OperatorError

if TYPE_CHECKING:
    from indico_zodbrepl.cluster.commands import Commands
    from indico_zodbrepl.host.backup_retention import Series
    from indico_zodbrepl.operations.model import Plan


@click.command()
@click.argument("node", required=False)
@click.option(
    "--to",
    "folder",
    metavar="[HOST:]FOLDER",
    help="The folder of backups, on this host or on HOST.  "
    "[default: backup-directory of the cluster file]",
)
@click.option("--full", is_flag=True, help="Make a full backup instead of an incremental one.")
@click.option(
    "--keep-days",
    type=click.IntRange(min=1),
    metavar="DAYS",
    default=None,
    help="Afterwards remove the backups that no restore to a time of the last DAYS needs.  "
    "[default: remove nothing]",
)
@REASON
@click.option("--dry-run", is_flag=True, help="Run the checks; change nothing.")
@pass_app
def backup(
    app: App,
    *,
    node: str | None,
    folder: str | None,
    full: bool,
    keep_days: int | None,
    reason: str,
    dry_run: bool,
) -> None:
    """Back up the database into a folder, and verify the backup.

    Servers and Indico keep running.  The data of NODE are read; NODE may be running or stopped.
    By default NODE is a secondary in sync, so that the primary is not slowed down.

    In a cluster of several hosts, NODE and the folder may be on any two of them.

    Backups of a Data.fs are incremental (ZODB's repozo).  A full backup is made if the file no
    longer continues the last backup, as after a pack.  SQLite databases are always copied in
    full.  Only the owner can read the folder.

    Uploaded files in the database are copied once; the folder has each of them with its SHA-256,
    and all backups that need it share it.  --full also reads those that older backups have, and
    replaces damaged ones.  Files in Indico's archive (`files archive`) are not in the backup.

    --keep-days removes a full backup only together with its incremental ones, and only if the
    next full backup is older than DAYS.  The newest full backup and its incremental ones are
    never removed; they are read and verified first.  --dry-run lists what would be removed.

    The command may be interrupted and rerun.

    Exit code: 0 done, or nothing new; 8 the data are damaged and no backup was kept, another
    backup into the folder is running, or the newest backup is damaged and nothing was removed.
    """
    from rich.filesize import decimal

    from indico_zodbrepl.cluster.commands import Commands
    from indico_zodbrepl.operations import backup as backups
    from indico_zodbrepl.operations.candidates import files

    app.require("backup")
    source = backups.prepare(app.cluster, app.installation, node, folder)
    click.echo(
        f"of node {source.node.name} ({source.why}), {decimal(source.size)}, to {source.folder}"
    )
    if dry_run:
        if keep_days is not None:
            old = backups.too_old(app.cluster, app.installation, source.folder, keep_days)
            _print_series("would remove", old)
        click.echo(f"\n{UNCHANGED}")
        return
    try:
        made = backups.back_up(
            app.cluster, app.installation, source, reason.strip(), step_printer(), full=full
        )
    except KeyboardInterrupt:
        raise OperatorError(
            "the backup was interrupted; earlier backups are unchanged",
            str(source.folder),
            Commands.here(app.cluster).zodbrepl("backup"),
            ExitCode.INTERRUPTED,
        ) from None
    for name in made.removed:
        click.echo(f"removed the rest of an interrupted backup: {name}")
    if made.kind == "none":
        click.echo(
            f"nothing new since the last backup: transaction {made.tid}, committed {made.time}"
        )
    else:
        uploaded = f" and {files(made.blobs)} of {decimal(made.blob_bytes)}" if made.blobs else ""
        click.echo(
            f"{made.kind} backup {made.name}: {decimal(made.bytes)}{uploaded} "
            f"in {made.seconds:.1f} s, "
            f"verified; up to transaction {made.tid}, committed {made.time}"
        )
    if keep_days is not None:
        gone = backups.prune(
            app.cluster,
            app.installation,
            source.folder,
            reason.strip(),
            step_printer(),
            keep_days=keep_days,
        )
        _print_series("removed", gone)


def _print_series(what: str, series: list[Series]) -> None:
    from rich.filesize import decimal

    from indico_zodbrepl.host.backup import iso

    for each in series:
        more = len(each.names) - 1
        click.echo(
            f"{what} the full backup of {iso(each.first)} and {more} incremental ones up to "
            f"{iso(each.last)}, {decimal(each.bytes)}"
            if more
            else f"{what} the full backup of {iso(each.first)}, {decimal(each.bytes)}"
        )
    if not series:
        click.echo(f"{what}: no backup, none is too old")


@click.command()
@click.argument("node")
@click.option(
    "--from",
    "folder",
    metavar="[HOST:]FOLDER",
    help="The folder of backups, on this host or on HOST.  "
    "[default: backup-directory of the cluster file]",
)
@click.option(
    "--at",
    metavar="TIME",
    default=None,
    help="Use the newest backup made before TIME (UTC), such as 2026-11-21T18:00.  "
    "[default: the newest]",
)
@REASON
@DRY_RUN
@pass_app
def restore(
    app: App, *, node: str, folder: str | None, at: str | None, reason: str, dry_run: bool
) -> None:
    """Restore NODE's data from a backup; export what the present data have and the backup lacks.

    The backup is verified and unpacked beside the present data while everything runs.  Then
    Indico and the server are stopped.  Newer transactions of the present data are exported to a
    folder in var/lost-tails, also from a damaged file as far as it can be read.  `recover` shows
    the export and writes its transactions again.  The present data are kept.  Indico starts with
    empty caches.

    In a replicated cluster this is for the loss of all nodes: NODE becomes the primary of a new
    epoch.  Then `clone` copies its data to the others.

    In a cluster of several hosts, a backup on another host than NODE's is copied there first.

    `resume` continues an interrupted restore.  `resume --undo` undoes it until the data are
    replaced.

    Exit code: 0 done; 8 refused: the backup is damaged, or another node has newer data.
    """
    from indico_zodbrepl.cli.running import show_or_execute
    from indico_zodbrepl.cluster.commands import Commands
    from indico_zodbrepl.operations import store
    from indico_zodbrepl.operations.model import Plan
    from indico_zodbrepl.operations.restore import plan_restore
    from indico_zodbrepl.operations.restore_facts import gather

    app.require("restore")
    store.refuse_open(app.cluster)
    commands = Commands.here(app.cluster)
    facts = gather(app.cluster, app.installation, node, folder, at=_moment(at), say=click.echo)
    found = plan_restore(app.cluster, facts, reason.strip(), commands)
    try:
        show_or_execute(app, found, dry_run=dry_run)
    finally:
        if isinstance(found, Plan) and not dry_run:
            _print_next_steps(found, commands)


def _print_next_steps(found: Plan, commands: Commands) -> None:
    if not any(step.action == "restore-see" for step in found.steps):
        click.echo(f"next, when it is done: {commands.zodbrepl('up')}")
    for step in found.steps:
        if step.action == "assign":
            click.echo(f"next, when it is done: {commands.zodbrepl('clone', step.subject)}")


def _moment(text: str | None) -> str | None:
    from indico_zodbrepl.host.backup import moment

    if text is None:
        return None
    try:
        return moment(text)
    except ValueError as error:
        raise OperatorError(
            f"--at {text!r} is not a time",
            str(error),
            "use a time such as 2026-11-21T18:00, in UTC",
            ExitCode.BAD_CONFIG,
        ) from error
