"""``zodbrepl failover``: a primary that is gone is replaced."""

from __future__ import annotations

import click

from ..failover.survey import survey_failover
from .app import App, pass_app
from .operating import show_or_execute


@click.command()
@click.argument("target", required=False)
@click.option("--reason", default="", help="Why, for the journal; required but for a dry run.")
@click.option("--dry-run", is_flag=True, help="Print what was found and each step; change nothing.")
@pass_app
def failover(app: App, target: str | None, reason: str, dry_run: bool) -> None:
    """Make TARGET primary in the place of one that is gone.

    TARGET is by default the node with the newest transaction.  Refused while anybody sees the
    primary alive.  The primary is fenced first; what only it has is exported and listed,
    and Indico is restarted if it may remember any of that.

    NEO elects a master by itself. There TARGET is a node that hangs, by default the most important
    one; it is killed, once several vantage points have seen that it hangs, and started again.
    """
    app.require("failover")
    if not reason.strip() and not dry_run:
        raise click.UsageError("--reason TEXT is needed: it goes into the journal")
    show_or_execute(app, survey_failover(app.cluster, app.installation, target, reason.strip()),
                    dry_run=dry_run)
