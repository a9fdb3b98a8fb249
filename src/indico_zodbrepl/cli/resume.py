"""``zodbrepl resume``: ends an operation that was interrupted."""

from __future__ import annotations

import click

from ..failover import abandoning, executor
from .app import App, pass_app
from .operating import conclude
from .operation_view import ending_lines, remaining_lines


@click.command()
@click.option("--undo", is_flag=True, help="Take it back; before its point of no return only.")
@click.option("--abandon", is_flag=True,
              help="Close it as it stands, for when it can't be ended; needs --reason.")
@click.option("--reason", default="", help="Why it is abandoned, for the journal.")
@click.option("--dry-run", is_flag=True,
              help="Print each step that is left, or what would be closed; change nothing.")
@click.option("--expect", default="", hidden=True)
@pass_app
def resume(app: App, *, undo: bool, abandon: bool, reason: str, dry_run: bool,
           expect: str) -> None:
    """Go on with the operation that has begun and not ended.

    Before its point of no return it starts over, and skips what is done already; after it, it
    goes on where it stopped.
    """
    if undo and abandon:
        raise click.UsageError("--undo and --abandon exclude each other")
    if abandon and not reason.strip():
        raise click.UsageError("--abandon needs --reason TEXT")
    if abandon:
        _abandon(app, reason.strip(), expect, dry_run=dry_run)
        return
    if dry_run:
        found, steps = executor.foresee(app.cluster, app.installation, undo=undo)
        for line in remaining_lines(found, steps, undo=undo):
            click.echo(line)
        return
    conclude(app, executor.resume, undo=undo, expected=expect)


def _abandon(app: App, reason: str, expect: str, *, dry_run: bool) -> None:
    if dry_run:
        identifier, damaged = abandoning.to_abandon(app.cluster)
        click.echo(f"would be closed as it stands: {identifier}")
        if damaged:
            click.echo(f"would be kept under another name: {damaged}")
        click.echo("This was a dry run: nothing was changed.")
        return
    left = abandoning.abandon(app.cluster, reason, expect)
    click.echo(left.remark)
    for line in ending_lines(app.cluster, left):
        click.echo(line)
