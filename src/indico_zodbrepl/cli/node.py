"""``zodbrepl node``: commands about a single node."""

from __future__ import annotations

import os

import click

from ..errors import ExitCode, OperatorError
from ..node import run as node_run
from .app import App, pass_app


@click.group()
def node() -> None:
    """Commands about a single storage node."""


@node.command()
@click.argument("name")
@pass_app
def run(app: App, name: str) -> None:
    """Become the storage server of node NAME; this is what supervisor runs.

    Reads the node's state, checks that it may run in it, writes the server's
    configuration and becomes the server.  A refusal ends with exit code 2 or 8 and
    is not repeated by supervisor.
    """
    try:
        node_run.run(app.cluster, app.installation, name)
    except OperatorError as error:
        if error.exit_code in (ExitCode.BAD_CONFIG, ExitCode.REFUSED):
            click.echo(str(error), err=True)
            node_run.hold_refusal(os.environ)
            raise click.exceptions.Exit(int(error.exit_code)) from error
        raise
