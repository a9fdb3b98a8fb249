"""``zodbrepl files``: uploaded files in the database and in Indico's archive."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from indico_zodbrepl.cli.app import DRY_RUN, REASON, UNCHANGED, App, pass_app, step_printer
from indico_zodbrepl.cli.group import Lazy, LazyGroup
from indico_zodbrepl.errors import ExitCode, OperatorError

if TYPE_CHECKING:
    from indico_zodbrepl.cluster.model import FileStore
    from indico_zodbrepl.operations.files import Move

COMMANDS = {
    "import": Lazy("files", "Move files from Indico's archive into the database."),
    "export": Lazy("files", "Move files from the database into Indico's archive."),
    "verify": Lazy("files", "Compare all files with their recorded digests, on each node."),
}
FOLDER = click.Path(file_okay=False, path_type=Path)


@click.group(cls=LazyGroup, lazy=COMMANDS)
def files() -> None:
    """Move uploaded files between Indico's archive and the database, and verify them.

    `files` of the cluster file says where new files go.  Files that exist stay where they are
    until these commands move them.
    """


@click.command("import")
@click.option(
    "--from",
    "folder",
    type=FOLDER,
    metavar="FOLDER",
    help="The folder with the files.  [default: Indico's ArchiveDir]",
)
@REASON
@DRY_RUN
@pass_app
def import_(app: App, *, folder: Path | None, reason: str, dry_run: bool) -> None:
    """Move the files of Indico's archive into the database.

    Indico may be in use.  Each file is stored, read back from a storage server and compared
    before Indico uses the stored one.  The archive itself stays as it is, for you to remove.
    Missing files are listed, and their entries stay.

    In a cluster of several hosts, type the command on the host that has the files.  With the
    backend filestorage stop the cluster first.

    --dry-run also counts the files that nothing refers to, and the room on each node's disk.
    The command may be interrupted or killed, and rerun.

    Exit code: 0 done; 1 some files can't be moved, or a disk is full; 8 refused: the backend
    keeps no files, the folder has none of them, or a disk has too little room.
    """
    from indico_zodbrepl.cli import files_view as view
    from indico_zodbrepl.cluster.model import FileStore
    from indico_zodbrepl.operations import files as moves

    move = moves.prepare_import(
        app.cluster,
        app.installation,
        None if folder is None else Path(os.path.abspath(folder)),
        unreferenced=dry_run,
    )
    if _is_dry(app, move, FileStore.BLOBS, dry_run=dry_run):
        return
    began = time.monotonic()
    done = moves.import_files(move, reason.strip(), view.printed(step_printer(), "imported"))
    _echo(view.imported_lines(done, time.monotonic() - began))
    if done.failed:
        raise click.exceptions.Exit(int(ExitCode.FAILED))


@click.command()
@click.option(
    "--to",
    type=FOLDER,
    metavar="FOLDER",
    help="Copy the files to FOLDER; the database keeps them, and Indico uses those.",
)
@REASON
@DRY_RUN
@pass_app
def export(app: App, *, to: Path | None, reason: str, dry_run: bool) -> None:
    """Move the files of the database into Indico's archive, as before a conversion to NEO.

    Indico may be in use.  Each file is written, forced to disk, read back and compared before
    Indico uses it.  No file is replaced: one whose name is taken gets a folder of its own.  The
    next pack removes the files from the database.

    Set `files archive` first, or new files go into the database meanwhile.  In a cluster of
    several hosts the archive must be a folder that they share.

    The command may be interrupted or killed, and rerun.

    Exit code: 0 done; 1 some files can't be moved, or the disk is full; 8 refused: the disk has
    too little room.
    """
    from indico_zodbrepl.cli import files_view as view
    from indico_zodbrepl.cluster.model import FileStore
    from indico_zodbrepl.operations import files as moves

    move = moves.prepare_export(
        app.cluster, app.installation, None if to is None else Path(os.path.abspath(to))
    )
    if _is_dry(app, move, FileStore.ARCHIVE, dry_run=dry_run):
        return
    began = time.monotonic()
    done = moves.export_files(move, reason.strip(), view.printed(step_printer(), "exported"))
    _echo(view.exported_lines(done, move.to, time.monotonic() - began))
    if done.failed:
        raise click.exceptions.Exit(int(ExitCode.FAILED))


@click.command()
@click.option(
    "--node",
    "name",
    metavar="NODE",
    help="Verify this node's files only.  [default: those of each node]",
)
@pass_app
def verify(app: App, *, name: str | None) -> None:
    """Compare the content of all files with the recorded sizes and digests; change nothing.

    Each node's own files are read, by its storage server where that is ours.  Of files in Indico's
    archive, the existence in this host's folder is checked.  Everything may be in use.

    Exit code: 0 all files are right; 6 a node does not answer; 8 a file is missing or differs.
    """
    from indico_zodbrepl.cli import files_view as view
    from indico_zodbrepl.operations import files as moves

    worst = ExitCode.OK
    for node, found in moves.verify_files(app.cluster, app.installation, name):
        label = f"node {node}" if node else "the database"
        began = time.monotonic()
        try:
            done = found.verify(view.printed(step_printer(), f"{label}: verified"))
        except OperatorError as error:
            if error.exit_code is not ExitCode.NOT_RUNNING:
                raise
            click.echo(f"{label}: not verified: {error.detail}")
            worst = max(worst, ExitCode.NOT_RUNNING)
            continue
        _echo(view.verified_lines(label, done, time.monotonic() - began))
        if done.findings:
            worst = ExitCode.REFUSED
    if worst is not ExitCode.OK:
        raise click.exceptions.Exit(int(worst))


def _is_dry(app: App, move: Move, new_files: FileStore, *, dry_run: bool) -> bool:
    """Print what a move would do; return True if nothing else was asked for.

    Raises OperatorError (exit 8) if a dry run finds a disk with too little room.
    """
    from indico_zodbrepl.cli import files_view as view
    from indico_zodbrepl.operations.files import refuse_short

    _echo(view.survey_lines(move.survey))
    _echo(view.new_files_lines(app.cluster, new_files))
    if not dry_run:
        return False
    _echo(view.dry_run_lines(move))
    refuse_short(move)
    click.echo(f"\n{UNCHANGED}")
    return True


def _echo(lines: list[str]) -> None:
    for line in lines:
        click.echo(line)
