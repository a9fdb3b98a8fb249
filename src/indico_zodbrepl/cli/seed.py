"""``zodbrepl seed``: a node gets a copy of another one's data and follows the primary."""

from __future__ import annotations

import click

from ..cluster.commands import Commands
from ..failover import store
from ..failover.seed import plan_seed
from ..failover.seed_facts import gather
from .app import App, pass_app
from .operating import show_or_execute


@click.command()
@click.argument("node")
@click.option("--from", "source", metavar="NODE", default=None,
              help="The node to copy from.  [default: the primary]")
@click.option("--reason", default="", help="Why, for the journal.")
@click.option("--dry-run", is_flag=True, help="Print what was found and each step; change nothing.")
@pass_app
def seed(app: App, *, node: str, source: str | None, reason: str, dry_run: bool) -> None:
    """Give NODE a copy of a running node's data, and let it follow the primary.

    The copy is made at disk speed while the other node's server goes on; what is committed
    meanwhile comes by replication.  Data that NODE has is kept in a folder beside its data
    directory.  An interrupted copy goes on when the command is given again.
    """
    app.require("seed")
    store.refuse_open(app.cluster)
    facts = gather(app.cluster, app.installation, node, source)
    show_or_execute(app, plan_seed(app.cluster, facts, reason.strip(),
                                   Commands.here(app.cluster)), dry_run=dry_run)
