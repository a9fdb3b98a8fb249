"""``zodbrepl rejoin``: a node that fell out follows the primary again."""

from __future__ import annotations

import click

from ..cluster.commands import Commands
from ..errors import ExitCode, OperatorError
from ..failover.requests import Request
from ..failover.steps import Refusal, Verdict
from .app import App, pass_app
from .operating import DRY_RUN, EXPECT, REASON, prepare, show_or_execute


@click.command()
@click.argument("node")
@REASON
@DRY_RUN
@EXPECT
@pass_app
def rejoin(app: App, *, node: str, reason: str, dry_run: bool, expect: str) -> None:
    """Let NODE follow the primary again after what only it has was exported and kept.

    Its data file is compared with the primary's, transaction by transaction.  What the
    primary never had is exported to a folder of var/lost-tails and cut off, with a copy of what
    is cut; `salvage` shows the folder and makes its transactions again.

    Where the engine replicates by itself (PostgreSQL, MariaDB), what only the node has is exported
    likewise; if there is any, its data are kept under another name, and it copies the primary's.

    With NEO, NODE is a storage. One that lost its disk, was dropped, or does not run is started,
    taken in and filled from the others, if these hold everything.

    Exit code: 0 the node has joined, or had already; 8 it can't: its lineage then says
    needs-seeding (`seed` gives it a copy) or quarantined.
    """
    found, history = prepare(app, Request("rejoin", node, reason), expect)
    if isinstance(found, Refusal) and all(each.verdict is Verdict.FINE
                                          for each in found.findings):
        click.echo(f"{found.notice}: {found.findings[0].text}, {found.findings[0].evidence}")
        return
    show_or_execute(app, found, dry_run=dry_run, history=history)
    if isinstance(found, Refusal) or dry_run:
        return
    for step in found.steps:
        if step.action == "rejoin-mark" and step.arguments["condition"] != "ok":
            seed = Commands.here(app.cluster).zodbrepl("seed", node)
            raise OperatorError(f"node {node} could not join: {step.arguments['condition']}",
                                str(step.arguments["detail"]), f"give it a copy: {seed}",
                                ExitCode.REFUSED)
