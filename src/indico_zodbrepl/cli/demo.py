"""``zodbrepl demo``."""

from __future__ import annotations

import sys

import click

from ..demo.run import run
from .app import App, pass_app
from .steps import step_printer


@click.command()
@pass_app
def demo(app: App) -> None:
    """Bring the cluster up, fill it with conferences, show it; Ctrl-C stops it all.

    The first time this makes an admin user with a random password and loads 200
    conferences of 5 contributions; later runs find them.
    """
    sys.exit(int(run(app.cluster, app.installation, click.echo, step_printer())))
