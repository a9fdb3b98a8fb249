"""``zodbrepl up`` and ``zodbrepl down``."""

from __future__ import annotations

import click

from ..cluster import Cluster
from ..node import lifecycle
from .app import App, pass_app
from .steps import step_printer


@click.command()
@pass_app
def up(app: App) -> None:
    """Start what doesn't run yet: storage nodes, Indico, the admin page, the watch.

    Returns when each of them does its work.  May be repeated.
    """
    if not lifecycle.up(app.cluster, app.installation, step_printer()):
        click.echo("everything runs already")
    click.echo(addresses(app.cluster))


@click.command()
@pass_app
def down(app: App) -> None:
    """End everything: admin page, watch, Indico, the primary, its followers, supervisord.

    May be repeated.
    """
    if not lifecycle.down(app.cluster, step_printer()):
        click.echo("nothing is running")


def addresses(cluster: Cluster) -> str:
    """The block of URLs that ends ``up``."""
    lines = [("Indico", instance.base_url, instance.name) for instance in cluster.indico]
    lines.append(("admin page", cluster.admin.base_url, ""))
    if cluster.watch:
        lines.append(("metrics", cluster.watch.metrics_url, ""))
    width = max(len(url) for _what, url, _name in lines)
    return "\n".join(f"{what:<12}{url:<{width}}  {name}".rstrip() for what, url, name in lines)
