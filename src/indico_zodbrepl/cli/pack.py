"""``zodbrepl pack``: remove old revisions and what nothing refers to any more."""

from __future__ import annotations

import click

from ..failover.packing import DAYS
from ..failover.requests import Request
from .app import App, pass_app
from .operating import DRY_RUN, EXPECT, REASON, answer


@click.command()
@click.option("--days", type=click.FloatRange(0), default=DAYS, show_default=True, metavar="N",
              help="Keep what was current at any time in the last N days.")
@REASON
@DRY_RUN
@EXPECT
@pass_app
def pack(app: App, *, days: float, reason: str, dry_run: bool, expect: str) -> None:
    """Remove older revisions, and objects that nothing refers to, from the database.

    Servers and Indico go on meanwhile.  Where a pack is not replicated each node is packed, the
    primary last.  It is refused while a node is away or not in order.  What was packed away can't
    be undone any more.
    """
    answer(app, Request("pack", None, reason, {"days": str(days)}), dry_run=dry_run,
           expect=expect)
