"""``zodbrepl seed``: a node gets a copy of another one's data and follows the primary."""

from __future__ import annotations

import click

from ..failover.requests import Request
from .app import App, pass_app
from .operating import DRY_RUN, EXPECT, REASON, answer


@click.command()
@click.argument("node")
@click.option("--from", "source", metavar="NODE", default=None,
              help="The node to copy from.  [default: the primary]")
@REASON
@DRY_RUN
@EXPECT
@pass_app
def seed(app: App, *, node: str, source: str | None, reason: str, dry_run: bool,
         expect: str) -> None:
    """Give NODE a copy of a running node's data, and let it follow the primary.

    The copy is made at disk speed while the other node's server goes on; what is committed
    meanwhile comes by replication.  Data that NODE has is kept in a folder beside its data
    directory.  An interrupted copy goes on when the command is given again.
    """
    options = {"source": source} if source else {}
    answer(app, Request("seed", node, reason, options), dry_run=dry_run, expect=expect)
