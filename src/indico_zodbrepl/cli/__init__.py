"""``bin/zodbrepl``: the commands, each loaded when it is called."""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from typing import Any

import click

from ..cluster.installation import Installation, home_from_environment
from ..errors import ExitCode, OperatorError
from .app import App, pass_app

# command: the module of this package that defines it, under the same name
COMMANDS = {
    "check": "check",
    "render": "render",
    "up": "up",
    "down": "up",
    "status": "status",
    "watch": "watch",
    "admin": "admin",
    "demo": "demo",
    "node": "node",
    "lineage": "lineage",
    "switchover": "switchover",
    "failover": "failover",
    "rejoin": "rejoin",
    "seed": "seed",
    "salvage": "salvage",
    "backup": "backup",
    "restore": "restore",
    "convert": "convert",
    "pack": "pack",
    "restart": "restart",
    "stats": "stats",
    "bench": "bench",
    "resume": "resume",
    "journal": "journal",
}


class _Commands(click.Group):
    """A group that imports a command's module when the command is asked for."""

    def make_context(self, info_name: str | None, args: list[str],
                     parent: click.Context | None = None, **extra: Any) -> click.Context:
        """Usage texts name the command as it is typed in the installation's folder."""
        return super().make_context(info_name and "bin/zodbrepl", args, parent, **extra)

    def list_commands(self, _ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, _ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"{__package__}.{COMMANDS[cmd_name]}")
        command: click.Command = getattr(module, cmd_name)
        return command

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; what an operator has to know of ends it with its own exit code."""
        try:
            return super().invoke(ctx)
        except OperatorError as error:
            click.echo(str(error), err=True)
            ctx.exit(int(error.exit_code))
        except KeyboardInterrupt:
            click.echo("interrupted", err=True)
            ctx.exit(int(ExitCode.INTERRUPTED))


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("-c", "--config", type=click.Path(readable=False, path_type=Path), metavar="FILE",
              help="The cluster file.  [default: $ZODBREPL_HOME/etc/cluster.conf]")
@click.pass_context
def main(context: click.Context, config: Path | None) -> None:
    """Indico 1.2.2 on a replicated ZODB."""
    installation = Installation(home_from_environment())
    config = config or installation.home / "etc" / "cluster.conf"
    context.obj = App(Path(os.path.abspath(config)), installation)


__all__ = ["COMMANDS", "App", "main", "pass_app"]
