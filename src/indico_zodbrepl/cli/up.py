"""``zodbrepl up`` and ``zodbrepl down``."""

from __future__ import annotations

import contextlib

import click

from ..cluster import Cluster
from ..cluster.commands import Commands
from ..cluster.layout import Layout
from ..errors import OperatorError
from ..failover import journal
from ..failover.journal import Told
from ..node import generated, lifecycle, rehearsal_of_all
from .app import App, pass_app
from .open_operation import what_is_open, with_what_is_open
from .rehearsing import DRY_RUN, REASON, show
from .steps import step_printer


@click.command()
@REASON
@DRY_RUN
@pass_app
def up(app: App, reason: str, dry_run: bool) -> None:
    """Start what doesn't run yet: storage nodes, Indico, the admin page, the watch.

    Returns when each of them does its work.  May be repeated.
    """
    cluster, installation = app.cluster, app.installation
    if dry_run:
        show(rehearsal_of_all.up(cluster, installation))
        return
    lifecycle.check(cluster, installation)
    generated.make_directories(cluster)
    try:
        with _journaled(cluster, "up", reason) as told:
            started = lifecycle.up(cluster, installation, step_printer())
            told.figures["started"] = list(started)
            told.remark = "" if started else "everything ran already"
    except OperatorError as error:
        raise with_what_is_open(cluster, error) from error
    if not started:
        click.echo("everything runs already")
    for line in what_is_open(cluster):
        click.echo(line)
    click.echo(addresses(cluster))
    if not Layout(cluster).accounts.exists():
        make_one = Commands.here(cluster).zodbrepl("admin", "user", "add", "NAME", "--level",
                                                   "operator")
        click.echo(f"nobody has an account on the admin page yet; to make one: {make_one}")


@click.command()
@REASON
@DRY_RUN
@pass_app
def down(app: App, reason: str, dry_run: bool) -> None:
    """End everything: admin page, watch, Indico, the primary, its followers, supervisord.

    May be repeated.
    """
    cluster = app.cluster
    if dry_run:
        show(rehearsal_of_all.down(cluster, app.installation))
        return
    with _journaled(cluster, "down", reason) as told:
        ended = lifecycle.down(cluster, step_printer())
        told.figures["ended"] = list(ended)
        told.remark = "" if ended else "nothing was running"
    if not ended:
        click.echo("nothing is running")


def _journaled(cluster: Cluster, what: str,
               reason: str) -> contextlib.AbstractContextManager[Told]:
    """Journal it where there is a place for the journal; without room it is done nevertheless."""
    if not Layout(cluster).var.is_dir():
        return contextlib.nullcontext(Told())
    return journal.journaled(cluster, what, cluster.name, reason,
                             otherwise=lambda problem: click.echo(f"NOTICE: {problem}", err=True))


def addresses(cluster: Cluster) -> str:
    """The block of URLs that ends ``up``."""
    lines = [("Indico", instance.base_url, instance.name) for instance in cluster.indico]
    lines.append(("admin page", cluster.admin.base_url, ""))
    if cluster.watch:
        lines.append(("metrics", cluster.watch.metrics_url, ""))
    width = max(len(url) for _what, url, _name in lines)
    return "\n".join(f"{what:<12}{url:<{width}}  {name}".rstrip() for what, url, name in lines)
