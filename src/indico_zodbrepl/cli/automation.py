"""The program of a host that elects the leader."""

from __future__ import annotations

import signal

import click

from indico_zodbrepl.cli.app import App, pass_app
from indico_zodbrepl.errors import ExitCode, OperatorError


@click.command()
@pass_app
def automation(app: App) -> None:
    """Elect the leader together with the other hosts, until SIGTERM or Ctrl-C.

    With `automatic true`, `up` runs this under supervisor on each host that has nodes.  It renews
    the lease of this host's primary, or replaces a primary of another host that is lost.  While it
    does not run, a primary of this host takes no commits.

    Exit code: 0 it was stopped; 2 the cluster file does not ask for it; 8 it runs already.
    """
    from indico_zodbrepl.automation.lock import alone
    from indico_zodbrepl.automation.program import Automation
    from indico_zodbrepl.cluster.lookup import own_host
    from indico_zodbrepl.host import releases

    cluster = app.cluster
    host = own_host(cluster)
    if not cluster.automates(host.name):
        raise OperatorError(
            f"host {host.name} takes no part in an election",
            "automatic is false" if not cluster.automatic else "it has no node",
            f"see automatic in {cluster.source}",
            ExitCode.BAD_CONFIG,
        )
    with alone(cluster):
        releases.note(cluster, host.automation)
        program = Automation(cluster, app.installation)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: program.stop())
        program.run()
