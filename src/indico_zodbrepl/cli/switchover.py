"""``zodbrepl switchover``: another node becomes primary, and nothing is lost."""

from __future__ import annotations

import click

from ..failover.requests import Request
from .app import App, pass_app
from .operating import DRY_RUN, EXPECT, REASON, answer


@click.command()
@click.argument("target", required=False)
@REASON
@DRY_RUN
@EXPECT
@pass_app
def switchover(app: App, *, target: str | None, reason: str, dry_run: bool, expect: str) -> None:
    """Make TARGET primary in the place of a running one; the old one follows it afterwards.

    TARGET is by default the follower that is furthest.  Writes wait for about a second;
    nothing is lost.  Before the point of no return any failure puts everything back; after a
    kill in the middle: `bin/zodbrepl resume`.
    """
    answer(app, Request("switchover", target, reason), dry_run=dry_run, expect=expect)
