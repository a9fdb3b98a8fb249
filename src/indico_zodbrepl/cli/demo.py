"""``zodbrepl demo``."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from ..cluster import load
from ..cluster.installation import Installation
from ..demo.run import run
from .app import App, pass_app
from .steps import step_printer

EXAMPLES = "cluster-{name}.conf"
"""Besides cluster.conf, which is that of zrs."""


@click.command()
@click.option("--backend", "name", metavar="NAME",
              help="The cluster of etc/cluster-NAME.conf; zrs is etc/cluster.conf.")
@pass_app
def demo(app: App, name: str | None) -> None:
    """Bring the cluster up, fill it with conferences, show it; Ctrl-C stops it all.

    The first time this makes an admin user with a random password and loads 200
    conferences of 5 contributions; later runs find them.
    """
    cluster = (app.cluster if name is None else
               load(example(app.installation, name), app.installation.home))
    sys.exit(int(run(cluster, app.installation, click.echo, step_printer())))


def example(installation: Installation, name: str) -> Path:
    """The cluster file of an example; UsageError when there is none of that name."""
    folder = installation.home / "etc"
    known = {"zrs": folder / "cluster.conf"}
    known |= {path.stem.removeprefix("cluster-"): path
              for path in sorted(folder.glob(EXAMPLES.format(name="*")))}
    if name not in known:
        raise click.UsageError(f"no example for {name!r}; there are {', '.join(sorted(known))}")
    return known[name]
