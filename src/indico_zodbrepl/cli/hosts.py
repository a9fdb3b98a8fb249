"""Commands about the hosts of a cluster of several."""

from __future__ import annotations

import click

from indico_zodbrepl.cli.app import App, pass_app


@click.command()
@pass_app
def agent(app: App) -> None:
    """Serve this host to the other hosts of the cluster, in the foreground.

    It executes what commands typed on other hosts do to this host's nodes and programs.  Every
    caller needs a certificate of the cluster.  `up` and the service start it.  SIGTERM stops it;
    the programs of this host run on.
    """
    from indico_zodbrepl.host.remote import program

    program.serve(app.config, app.installation)
