"""``zodbrepl node``: commands about a single node; the steps of all operations, by hand."""

from __future__ import annotations

import importlib
import os

import click

from ..errors import ExitCode, OperatorError
from ..node import run as node_run
from .app import App, pass_app

STEPS = ("start", "stop", "fence", "assign", "hold", "release", "promote", "follow",
         "restart-client")


class _Node(click.Group):
    """``run`` is here; the other commands are imported when they are asked for.

    Supervisor runs ``run`` to bring a server back, so its start-up time counts.
    """

    def list_commands(self, _ctx: click.Context) -> list[str]:
        return ["run", *STEPS]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in STEPS:
            return super().get_command(ctx, cmd_name)
        command: click.Command = importlib.import_module(
            ".node_steps", __package__).COMMANDS[cmd_name]
        return command


@click.group(cls=_Node)
def node() -> None:
    """Commands about a single storage node.

    These are the steps that switchover, failover and rejoin take; each can be typed by
    hand, and leaves an entry in the journal if it changes anything.
    """


@node.command()
@click.argument("name")
@pass_app
def run(app: App, name: str) -> None:
    """Become the storage server of node NAME; this is what supervisor runs.

    Reads the node's state, checks that it may run in it (a primary has to hold the
    current epoch, a follower's history has to be that of its upstream), writes the
    server's configuration and becomes the server.  A refusal ends with exit code 2 or 8
    and is not repeated by supervisor.
    """
    try:
        node_run.run(app.cluster, app.installation, name)
    except OperatorError as error:
        if error.exit_code in (ExitCode.BAD_CONFIG, ExitCode.REFUSED):
            click.echo(str(error), err=True)
            node_run.hold_refusal(os.environ)
            raise click.exceptions.Exit(int(error.exit_code)) from error
        raise
