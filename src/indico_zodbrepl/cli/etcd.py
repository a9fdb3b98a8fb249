"""Commands about the members of etcd."""

from __future__ import annotations

import click

from indico_zodbrepl.cli.app import DRY_RUN, REASON, App, pass_app
from indico_zodbrepl.cli.group import Lazy, LazyGroup

ETCD = {"replace": Lazy("etcd", "Replace this host's member by an empty one.")}


@click.group(cls=LazyGroup, lazy=ETCD)
def etcd() -> None:
    """Keep the members of etcd that run on the hosts."""


@click.command()
@REASON
@DRY_RUN
@pass_app
def replace(app: App, reason: str, dry_run: bool) -> None:
    """Replace this host's member of etcd by an empty one, which copies the keys from the others.

    Run it on a host that lost the data of its member, or that was added to the cluster file.  The
    other members need a majority.  The former data is kept beside the new.
    """
    from indico_zodbrepl.cli.running import answer_single
    from indico_zodbrepl.operations.etcd_members import Replace

    here = app.cluster.here or "(none)"
    answer_single(app, Replace.named(here), reason, dry_run=dry_run)
