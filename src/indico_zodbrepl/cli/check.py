"""``zodbrepl check``: is the cluster file right?"""

from __future__ import annotations

import click

from ..cluster import check_site_conf
from .app import App, pass_app


@click.command()
@pass_app
def check(app: App) -> None:
    """Say whether the cluster file is right; changes nothing.

    Each problem is one line with its file and line number, and the exit code is 2.
    """
    cluster = app.cluster
    check_site_conf(cluster)
    click.echo(f"{app.config} is right: cluster {cluster.name}, backend {cluster.backend}, "
               f"{_count(len(cluster.nodes), 'node')}, "
               f"{_count(len(cluster.indico), 'Indico instance')}")


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
