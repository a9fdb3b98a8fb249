"""``zodbrepl switchover``: another node becomes primary, and nothing is lost."""

from __future__ import annotations

import click

from ..failover.survey import survey_switchover
from .app import App, pass_app
from .operating import show_or_execute


@click.command()
@click.argument("target", required=False)
@click.option("--reason", default="", help="Why, for the journal.")
@click.option("--dry-run", is_flag=True, help="Print what was found and each step; change nothing.")
@pass_app
def switchover(app: App, target: str | None, reason: str, dry_run: bool) -> None:
    """Make TARGET primary in the place of a running one; the old one follows it afterwards.

    TARGET is by default the follower that is furthest.  Writes wait for about a second;
    nothing is lost.  Before the point of no return any failure puts everything back; after a
    kill in the middle: `bin/zodbrepl resume`.
    """
    app.require("switchover")
    show_or_execute(app, survey_switchover(app.cluster, app.installation, target, reason),
                    dry_run=dry_run)
