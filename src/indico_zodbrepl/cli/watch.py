"""``zodbrepl watch``: the program that watches the cluster."""

from __future__ import annotations

import click

from ..watch import program
from .app import App, pass_app


@click.command()
@pass_app
def watch(app: App) -> None:
    """Look at the cluster each second until ended, and tell what changes.

    With a <watch> section in the cluster file, `up` runs this under supervisor: it serves
    metrics, posts and mails events, and remembers in var/watch.  It changes no server;
    every three minutes it compares followers with the primary, and writes how far they are the
    same into their lineage files, so that their next start is short.  Without that section it
    does the same, but serves, posts and mails nothing.
    """
    program.run(app.cluster)
