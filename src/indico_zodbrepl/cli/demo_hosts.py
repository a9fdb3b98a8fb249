"""``zodbrepl demo-hosts``: the demo on several hosts, and faults of its hosts."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click
from click.core import ParameterSource

from indico_zodbrepl.cli.app import App, pass_app, step_printer

EXAMPLE = "cluster-hosts.conf"
FOLDER = "demo-hosts"
HOST = click.argument("host")


@click.group(invoke_without_command=True)
@click.option(
    "--conferences",
    type=click.IntRange(min=1),
    default=200,
    show_default=True,
    metavar="COUNT",
    help="Load COUNT conferences on the first run.",
)
@click.pass_context
def demo_hosts(context: click.Context, conferences: int) -> None:
    """Run the demo on three hosts, which are namespaces of this machine; Ctrl-C stops everything.

    Uses etc/cluster-hosts.conf, or the file of -c.  The hosts' data is kept in var/demo-hosts; with
    -c, in a folder demo-hosts next to that file.

    Each host has its own processes, network and data.  The commands below work in other terminals
    while it runs.
    """
    if context.invoked_subcommand is None:
        context.invoke(_run, conferences=conferences)


@pass_app
def _run(app: App, conferences: int) -> None:
    from indico_zodbrepl.cluster import load
    from indico_zodbrepl.demo.hosts.run import run

    cluster = load(_file(app), app.installation.home)
    say, progress = click.echo, step_printer()
    code = run(cluster, app.installation, _folder(app), conferences, say=say, progress=progress)
    sys.exit(int(code))


@demo_hosts.command(
    "sh", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False}
)
@HOST
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
@pass_app
def shell(app: App, host: str, command: tuple[str, ...]) -> None:
    """Run COMMAND on a host, or a shell, in the installation's folder.

    `bin/zodbrepl` acts on the demo's cluster there.
    """
    from indico_zodbrepl.demo.hosts.control import Request, ask
    from indico_zodbrepl.demo.hosts.service import environ
    from indico_zodbrepl.demo.lab.namespaces import environment

    found = ask(_folder(app), Request("enter", host), click.echo)
    words = [*found, *(command or [os.environ.get("SHELL", "/bin/sh")])]
    sys.stdout.flush()
    os.execvpe(words[0], words, environment(environ(app.installation)))  # noqa: S606


@demo_hosts.command()
@HOST
@pass_app
def kill(app: App, host: str) -> None:
    """Cut the power of a host: all its processes are gone at once."""
    _ask(app, "kill", host)


@demo_hosts.command()
@HOST
@pass_app
def start(app: App, host: str) -> None:
    """Boot a host that was killed: start its agent, then everything else."""
    _ask(app, "start", host)


@demo_hosts.command()
@HOST
@pass_app
def isolate(app: App, host: str) -> None:
    """Cut the network of a host: it neither hears the others nor is heard."""
    _ask(app, "isolate", host)


@demo_hosts.command()
@pass_app
def heal(app: App) -> None:
    """Undo all faults of the network."""
    _ask(app, "heal", "")


def _ask(app: App, verb: str, host: str) -> None:
    from indico_zodbrepl.demo.hosts.control import Request, ask

    ask(_folder(app), Request(verb, host), click.echo)


def _is_given() -> bool:
    """Return True if the command line names a cluster file."""
    root = click.get_current_context().find_root()
    return root.get_parameter_source("config") is ParameterSource.COMMANDLINE


def _file(app: App) -> Path:
    return app.config if _is_given() else app.installation.home / "etc" / EXAMPLE


def _folder(app: App) -> Path:
    return (app.config.parent if _is_given() else app.installation.home / "var") / FOLDER
