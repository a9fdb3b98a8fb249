"""``zodbrepl watch``: the program that watches the cluster."""

from __future__ import annotations

import os

import click

from ..failover import journal
from ..watch import program
from .app import App, pass_app
from .rehearsing import DRY_RUN, show


@click.command()
@DRY_RUN
@pass_app
def watch(app: App, dry_run: bool) -> None:
    """Look at the cluster each second until ended, and tell what changes.

    With a <watch> section in the cluster file, `up` runs this under supervisor: it serves
    metrics, posts and mails events, and remembers in var/watch.  It changes no server;
    every three minutes it compares followers with the primary, and writes how far they are the
    same into their lineage files, so that their next start is short.  Without that section it
    does the same, but serves, posts and mails nothing.
    """
    if dry_run:
        show(program.rehearse(app.cluster))
    elif "SUPERVISOR_ENABLED" in os.environ:  # who started it so has journaled that
        program.run(app.cluster)
    else:
        with journal.journaled(
                app.cluster, "watch", app.cluster.name, "",
                otherwise=lambda problem: click.echo(f"NOTICE: {problem}", err=True)):
            program.run(app.cluster)
