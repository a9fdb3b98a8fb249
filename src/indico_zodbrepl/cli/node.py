"""``zodbrepl node``: commands about a single node."""

from __future__ import annotations

import os

import click

from indico_zodbrepl.cli.app import App, pass_app
from indico_zodbrepl.cli.group import Lazy, LazyGroup
from indico_zodbrepl.errors import ExitCode, OperatorError

COMMANDS = {
    "run": Lazy("node", "Become a node's storage server; supervisor runs this."),
    "start": Lazy("node_steps", "Start a node's server."),
    "stop": Lazy("node_steps", "Stop a node's server cleanly."),
    "fence": Lazy("node_steps", "Kill a node's server and prove that it is gone."),
    "assign": Lazy("node_steps", "Write a node's role for its next start."),
    "pause-writes": Lazy("node_steps", "Make commits on a primary wait."),
    "resume-writes": Lazy("node_steps", "Let a primary accept commits again."),
    "promote": Lazy("node_steps", "Make a node the primary of a new epoch."),
    "follow": Lazy("node_steps", "Let a node follow another node."),
    "restart-client": Lazy("node_steps", "Restart an Indico instance and drop its caches."),
}


@click.group(cls=LazyGroup, lazy=COMMANDS)
def node() -> None:
    """Operate a single storage node.

    These are the steps of switchover, failover and rejoin, for use by hand.  Each change is
    recorded in the journal.
    """


@click.command()
@click.argument("name")
@pass_app
def run(app: App, name: str) -> None:
    """Become the storage server of node NAME; this is what supervisor runs.

    Reads the node's state, checks that it may run in it (a primary has to hold the
    current epoch, a follower's history has to be that of its upstream), writes the
    server's configuration and becomes the server.  A refusal ends with exit code 2 or 8
    and is not repeated by supervisor; a start on a full or failing disk is, until the
    disk works.
    """
    from indico_zodbrepl.host import run as node_run
    from indico_zodbrepl.operations.room import may_pass

    try:
        node_run.run(app.cluster, app.installation, name)
    except OperatorError as error:
        if error.exit_code in (ExitCode.BAD_CONFIG, ExitCode.REFUSED, ExitCode.NEWER_STATE):
            click.echo(str(error), err=True)
            node_run.hold(os.environ)
            code = (
                ExitCode.BAD_CONFIG if error.exit_code is ExitCode.BAD_CONFIG else ExitCode.REFUSED
            )
            raise click.exceptions.Exit(int(code)) from error
        if may_pass(error):
            node_run.hold(os.environ)
        raise
