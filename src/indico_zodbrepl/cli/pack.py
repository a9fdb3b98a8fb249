"""``zodbrepl pack``: remove old revisions and what nothing refers to any more."""

from __future__ import annotations

import click
from rich.filesize import decimal

from ..backends import can
from ..failover import packing, store
from ..node.packing import Packed
from .app import App, pass_app
from .steps import step_printer


@click.command()
@click.option("--days", type=click.FloatRange(0), default=7.0, show_default=True, metavar="N",
              help="Keep what was current at any time in the last N days.")
@click.option("--reason", default="", help="Why, for the journal.")
@click.option("--dry-run", is_flag=True, help="Make the checks and change nothing.")
@pass_app
def pack(app: App, *, days: float, reason: str, dry_run: bool) -> None:
    """Remove older revisions, and objects that nothing refers to, from the database.

    Servers and Indico go on meanwhile.  Where a pack is not replicated each node is packed, the
    primary last.  It is refused while a node is away or not in order.  What was packed away can't
    be undone any more.
    """
    app.require("pack")
    if dry_run:
        store.refuse_open(app.cluster)
        for target in packing.ready(app.cluster):
            click.echo(f"would pack {target.name}, and keep the last {days:g} days")
        click.echo("\nThis was a dry run: nothing was changed.")
        return
    for target, packed in packing.pack(app.cluster, app.installation, days, reason.strip(),
                                       step_printer()):
        click.echo(f"packed {target.name} in {packed.seconds:.1f} s{_sizes(app, packed)}")


def _sizes(app: App, packed: Packed) -> str:
    if packed.before is None or packed.after is None or not can(app.cluster, "size"):
        return ""
    return f": {decimal(packed.before)} before, {decimal(packed.after)} after"
