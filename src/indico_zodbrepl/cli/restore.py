"""``zodbrepl restore``: a node's data from a backup."""

from __future__ import annotations

from pathlib import Path

import click

from ..cluster.commands import Commands
from ..errors import ExitCode, OperatorError
from ..failover import store
from ..failover.restore import plan_restore
from ..failover.restore_facts import gather
from ..failover.steps import Plan
from ..node.backups import moment
from .app import App, pass_app
from .operating import show_or_execute


@click.command()
@click.argument("node")
@click.option("--from", "folder", type=click.Path(file_okay=False, path_type=Path),
              metavar="FOLDER",
              help="The folder of backups.  [default: backup-directory of the cluster file]")
@click.option("--at", metavar="TIME", default=None,
              help="The newest backup that was not made later: 2026-11-21T18:00, UTC.  "
                   "[default: the newest]")
@click.option("--reason", default="", help="Why, for the journal.")
@click.option("--dry-run", is_flag=True, help="Print what was found and each step; change nothing.")
@pass_app
def restore(app: App, *, node: str, folder: Path | None, at: str | None, reason: str,
            dry_run: bool) -> None:
    """Give NODE its data back from a backup, after what is newer in the present data was kept.

    The backup is verified first, and made a database beside the present data while everything
    goes on.  Then Indico and the server are ended; what the present data have and the backup lacks
    is exported to a folder of var/lost-tails, also from damaged data as far as it can be read;
    `salvage` shows that and makes it again.  The present data are kept.  Indico starts with
    nothing remembered.

    Where nodes replicate, it is for the loss of all of them: NODE becomes the primary of a new
    epoch, and `seed` gives the others a copy.

    Until the data are exchanged `resume --undo` takes it back; `resume` goes on at any time.

    Exit code: 0 done; 8 the backup is damaged, another node has more, or the like.
    """
    app.require("restore")
    store.refuse_open(app.cluster)
    commands = Commands.here(app.cluster)
    facts = gather(app.cluster, app.installation, node, folder, at=_moment(at),
                   say=click.echo)
    found = plan_restore(app.cluster, facts, reason.strip(), commands)
    try:
        show_or_execute(app, found, dry_run=dry_run)
    finally:
        if isinstance(found, Plan) and not dry_run:
            _tell_what_is_next(found, commands)


def _tell_what_is_next(found: Plan, commands: Commands) -> None:
    if not any(step.action == "restore-see" for step in found.steps):
        click.echo(f"next, when it is done: {commands.zodbrepl('up')}")
    for step in found.steps:
        if step.action == "assign":
            click.echo(f"next, when it is done: {commands.zodbrepl('seed', step.subject)}")


def _moment(text: str | None) -> str | None:
    if text is None:
        return None
    try:
        return moment(text)
    except ValueError as error:
        raise OperatorError(f"--at {text!r} is no time", str(error),
                            "such as 2026-11-21T18:00, in UTC", ExitCode.BAD_CONFIG) from error
