"""``zodbrepl failover``: a primary that is gone is replaced."""

from __future__ import annotations

import click

from ..failover.requests import Request
from .app import App, pass_app
from .operating import DRY_RUN, EXPECT, answer


@click.command()
@click.argument("target", required=False)
@click.option("--reason", default="", help="Why, for the journal; required but for a dry run.")
@DRY_RUN
@EXPECT
@pass_app
def failover(app: App, *, target: str | None, reason: str, dry_run: bool, expect: str) -> None:
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
    answer(app, Request("failover", target, reason), dry_run=dry_run, expect=expect)
