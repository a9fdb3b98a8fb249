"""The program ``bin/zodbrepl``."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any, TextIO

import click

from indico_zodbrepl import __version__
from indico_zodbrepl.cli.app import App, pass_app
from indico_zodbrepl.cli.group import Lazy, LazyGroup
from indico_zodbrepl.errors import ExitCode, OperatorError

COMMANDS = {
    "check": Lazy("cluster", "Check the cluster file; change nothing."),
    "render": Lazy("cluster", "Print every generated file; change nothing."),
    "up": Lazy("cluster", "Start storage nodes, Indico, the admin page and the monitor."),
    "down": Lazy("cluster", "Stop everything."),
    "run": Lazy("service", "Start everything and stay in the foreground, for service managers."),
    "install-service": Lazy("service", "Write a systemd unit that runs the cluster."),
    "hosts": Lazy("hosts", "Make and keep the hosts of a cluster file one cluster."),
    "etcd": Lazy("etcd", "Keep the members of etcd that run on the hosts."),
    "agent": Lazy("hosts", "Serve this host to the other hosts of the cluster."),
    "automation": Lazy("automation", "Elect the leader together with the other hosts."),
    "status": Lazy("cluster", "Show nodes, replication, Indico instances and problems."),
    "silence": Lazy("silence", "Acknowledge an alert, so that it is not sent for some hours."),
    "watch": Lazy("cluster", "Monitor the cluster until stopped, and report what changes."),
    "admin": Lazy("admin", "Serve the admin page, or manage its accounts."),
    "demo": Lazy("cluster", "Start the cluster, load conferences, stop everything on Ctrl-C."),
    "demo-hosts": Lazy("demo_hosts", "Run the demo on three hosts made of namespaces."),
    "node": Lazy("node", "Operate a single storage node."),
    "history": Lazy("data", "Compare the histories of nodes."),
    "switchover": Lazy("operate", "Make another node primary; lose nothing."),
    "failover": Lazy("operate", "Replace a primary that failed."),
    "rejoin": Lazy("operate", "Let a former primary or a failed node follow again."),
    "clone": Lazy("operate", "Copy another node's data to a node."),
    "recover": Lazy("data", "Show divergent transactions, and write them again."),
    "backup": Lazy("backups", "Back up the database and verify the backup."),
    "restore": Lazy("backups", "Restore a node's data from a backup."),
    "convert": Lazy("data", "Copy all data to a cluster of any backend, and verify the copy."),
    "adopt": Lazy("adopt", "Move an existing Indico onto the cluster, and verify it."),
    "files": Lazy("files", "Move uploaded files into the database or back, and verify them."),
    "pack": Lazy("operate", "Remove old revisions and unreferenced objects."),
    "restart": Lazy("operate", "Restart a node's server or an Indico instance."),
    "stats": Lazy("data", "Sum up the database's objects by class and module."),
    "bench": Lazy("bench", "Measure storages, and Indico on them."),
    "resume": Lazy("operate", "Continue an interrupted operation."),
    "synchronous": Lazy("synchronous", "Show or change how commits are acknowledged."),
    "pause": Lazy("maintenance", "Let the automation replace no primary for a while."),
    "resume-automation": Lazy("maintenance", "Let the automation act again."),
    "upgrade": Lazy("cluster", "Show what an upgrade of this tool still needs."),
    "setup": Lazy("setup", "Install Python 2.7's packages, Indico and the commands."),
    "journal": Lazy("operate", "Show past operations, or one in full."),
}


class _Commands(LazyGroup):
    """The commands; an OperatorError ends them with its own exit code."""

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,
    ) -> click.Context:
        """Name the program in usage texts as it is typed in the installation's folder."""
        return super().make_context(info_name and "bin/zodbrepl", args, parent, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except OperatorError as error:
            click.echo(str(error), err=True)
            ctx.exit(int(error.exit_code))
        except KeyboardInterrupt:
            click.echo("interrupted", err=True)
            ctx.exit(int(ExitCode.INTERRUPTED))


@click.group(cls=_Commands, lazy=COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "-c",
    "--config",
    type=click.Path(readable=False, path_type=Path),
    metavar="FILE",
    help="The cluster file.  [default: $ZODBREPL_CLUSTER or $ZODBREPL_HOME/etc/cluster.conf]",
)
@click.version_option(__version__, prog_name="zodbrepl", message="%(prog)s %(version)s")
@click.pass_context
def main(context: click.Context, config: Path | None) -> None:
    """Run Indico 1.2.2 on a replicated ZODB."""
    for stream in (sys.stdout, sys.stderr):
        _show_hidden(stream)
    from indico_zodbrepl.cluster.installation import (
        Installation,
        default_cluster_file,
        home_from_environment,
    )

    if context.invoked_subcommand == "setup":
        return  # there is no installation yet
    home = home_from_environment()
    config = config or default_cluster_file(home)
    context.obj = App(Path(os.path.abspath(config)), Installation(home))


def _show_hidden(stream: TextIO) -> None:
    """Let a terminal show hidden characters as ``?``; files and pipes get everything as it is."""
    if not stream.isatty():
        return
    from indico_zodbrepl.monitor.words import visible

    write = stream.write
    stream.write = lambda text: write(visible(text))  # type: ignore[method-assign]


__all__ = ["COMMANDS", "App", "main", "pass_app"]
