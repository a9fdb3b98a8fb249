"""``zodbrepl restart``: a node's server or an Indico instance ends and starts again."""

from __future__ import annotations

import click

from ..failover.requests import Request
from .app import App, pass_app
from .operating import DRY_RUN, EXPECT, REASON, answer


@click.command()
@click.argument("name")
@REASON
@DRY_RUN
@EXPECT
@pass_app
def restart(app: App, *, name: str, reason: str, dry_run: bool, expect: str) -> None:
    """Restart node NAME's server, or Indico instance NAME.

    A server ends in order, is let start again by the checks of any start, and is seen to work
    again, with those that follow it and the Indico instances.  Its role stays.  An Indico instance
    that works hands over to a new worker, so that nobody waits.  Refused where the server would
    not start again, or holds what nobody else has up to date.
    """
    answer(app, Request("restart", name, reason), dry_run=dry_run, expect=expect)
