"""Commands about the whole cluster: its file, start, stop, state, monitor and demo."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from indico_zodbrepl.cli.app import DRY_RUN, REASON, App, pass_app, step_printer
from indico_zodbrepl.errors import ExitCode, OperatorError

if TYPE_CHECKING:
    from indico_zodbrepl.cluster import Cluster
    from indico_zodbrepl.cluster.installation import Installation
    from indico_zodbrepl.operations.journal import Told

UNKNOWN_STATE = 3
"""``State.UNKNOWN.exit_code``, without an import of the monitor."""


@click.command()
@click.option(
    "--system",
    "with_system",
    is_flag=True,
    help="Also check this host for production; run it as the user that will run the cluster.",
)
@pass_app
def check(app: App, *, with_system: bool) -> None:
    """Check the cluster file; change nothing.

    Each problem is printed as one line with file and line number.  The exit code is then 2.

    With --system: one line for each finding about the clock, disks and their speed, limits, ports,
    users, permissions, the kernel, and the blob files of the nodes on this host.  Exit code 11
    if a line says AGAINST.
    """
    from indico_zodbrepl.cluster import check_site_conf
    from indico_zodbrepl.cluster.model import FileStore

    cluster = app.cluster
    check_site_conf(cluster)
    click.echo(
        f"{app.config} is valid: cluster {cluster.name}, backend {cluster.backend}, "
        f"{_count(len(cluster.nodes), 'node')}, "
        f"{_count(len(cluster.indico), 'Indico instance')}"
    )
    names = sorted({each.on for each in cluster.indico if each.on is not None})
    if len(names) > 1 and cluster.files is FileStore.ARCHIVE:
        click.echo(
            f"uploaded files are not replicated: {', '.join(names)} have to share "
            "archive-directory; `check --system` and `status` say whether they do"
        )
    if with_system:
        _check_system(app)


def _check_system(app: App) -> None:
    from indico_zodbrepl.cli.operation_view import finding_line
    from indico_zodbrepl.host import lifecycle, system
    from indico_zodbrepl.operations import suitability
    from indico_zodbrepl.operations.model import Finding, Verdict

    try:
        lifecycle.check(app.cluster, app.installation)
        installed = Finding(Verdict.FINE, "installation", "complete")
    except OperatorError as error:
        detail = " ".join(error.detail.split())
        installed = Finding(Verdict.AGAINST, "installation", f"{error.notice}: {detail}")
    findings = [installed, *suitability.judge(app.cluster, system.read(app.cluster))]
    for node in app.cluster.nodes:
        if app.cluster.is_here(node):
            findings += suitability.blobs(node.name, app.host.audit_blobs(node.name))
    if app.cluster.hosts:
        from indico_zodbrepl.operations import hosts_check

        findings += hosts_check.findings(app.cluster)
    for each in findings:
        click.echo(finding_line(each))
    if any(each.verdict is Verdict.AGAINST for each in findings):
        raise click.exceptions.Exit(int(ExitCode.UNSUITABLE))


@click.command()
@click.option(
    "--into",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Write the files below this folder, with their full paths, instead of printing them.",
)
@pass_app
def render(app: App, into: Path | None) -> None:
    """Print every generated file; change nothing."""
    from indico_zodbrepl.host import generated

    files = {
        **generated.cluster_files(app.cluster, app.installation),
        **generated.node_files(app.cluster),
    }
    for path, text in files.items():
        if into is not None:
            copy = into / path.relative_to("/")
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_text(text, "utf-8")
            continue
        click.secho(f"==> {path} <==", bold=True)
        click.echo(text)


THIS_HOST = click.option(
    "--this-host",
    "here",
    is_flag=True,
    help="Only the programs of this host, in a cluster of several.",
)


@click.command()
@THIS_HOST
@REASON
@DRY_RUN
@pass_app
def up(app: App, here: bool, reason: str, dry_run: bool) -> None:
    """Start what does not run yet: storage nodes, Indico, the admin page and the monitor.

    In a cluster of several hosts, on all of them, and first the agent of this host.  Returns when
    all of them work.  Idempotent.
    """
    from indico_zodbrepl.cluster.commands import Commands
    from indico_zodbrepl.cluster.layout import Layout

    start_all(app, reason, dry_run=dry_run, here=here)
    if dry_run:
        return
    cluster = app.cluster
    if cluster.is_here(cluster.admin) and not Layout(cluster).accounts.exists():
        command = Commands.here(cluster).zodbrepl(
            "admin", "user", "add", "NAME", "--level", "operator"
        )
        click.echo(f"The admin page has no accounts yet. Add one: {command}")


@click.command()
@THIS_HOST
@REASON
@DRY_RUN
@pass_app
def down(app: App, here: bool, reason: str, dry_run: bool) -> None:
    """Stop everything: admin page, monitor, Indico, primary, followers, supervisord.

    In a cluster of several hosts, on all of them in that order; their agents run on.  If a host
    does not answer, the rest stops.  Idempotent.

    Exit code: 0 nothing runs; 7 something did not stop in time, or a host does not answer.
    """
    stop_all(app, reason, dry_run=dry_run, here=here)


def start_all(app: App, reason: str, *, dry_run: bool = False, here: bool = False) -> None:
    """Start what does not run yet, and print the addresses; journaled.

    Args:
        here: leave the other hosts alone.

    Raises OperatorError as ``lifecycle.up``; it names an interrupted operation.
    """
    from indico_zodbrepl.cli.running import answer_single, open_operation, with_open_operation
    from indico_zodbrepl.host import generated, lifecycle
    from indico_zodbrepl.operations.single import Up

    cluster, step = app.cluster, Up.named(app.cluster.name, here=here)
    if dry_run:
        answer_single(app, step, reason, dry_run=True)
        return
    lifecycle.check(cluster, app.installation)
    generated.make_directories(cluster)
    if cluster.hosts and not here:
        from indico_zodbrepl.host.remote import program

        if program.ensure(cluster, app.installation):
            click.echo(f"the agent of host {cluster.here} was started")
    entry = _journaled(cluster, "up", reason)
    try:
        answer_single(app, step, reason, dry_run=False, entry=entry)
    except OperatorError as error:
        raise with_open_operation(cluster, error) from error
    for line in open_operation(cluster):
        click.echo(line)
    click.echo(addresses(cluster))


def stop_all(app: App, reason: str, *, dry_run: bool = False, here: bool = False) -> None:
    """Stop everything; journaled.  Raises OperatorError as ``lifecycle.down``.

    Args:
        here: as of ``start_all``.
    """
    from indico_zodbrepl.cli.running import answer_single
    from indico_zodbrepl.operations.single import Down

    entry = _journaled(app.cluster, "down", reason)
    step = Down.named(app.cluster.name, here=here)
    answer_single(app, step, reason, dry_run=dry_run, entry=entry)


@click.command()
@click.option("--check", "checked", is_flag=True, help="Required: nothing else is done.")
@pass_app
def upgrade(app: App, checked: bool) -> None:
    """Show which release wrote the state and runs, and the commands of a rolling upgrade.

    Changes nothing.  The commands are printed in the order in which they are to be typed.  With
    <host> sections they are those of this host; the primary's host comes last.

    Exit code: 0 nothing to do; 10 the upgrade is not complete; 8 it can't begin now, as an
    operation is running or was interrupted; 9 a state file is of a
    newer release.
    """
    from indico_zodbrepl.cluster.commands import Commands
    from indico_zodbrepl.operations import upgrade as planning

    if not checked:
        raise click.UsageError("--check is missing: the upgrade itself is done by the commands")
    found = planning.survey(app.cluster, app.installation)
    for line in planning.in_words(found):
        click.echo(line)
    planning.refuse(app.cluster, found)
    commands = planning.commands(found, Commands(app.cluster, app.installation.home))
    if not commands:
        click.echo("Nothing to do.")
        return
    click.echo("Type these commands in this order; go on when each has succeeded:")
    for command in commands:
        click.echo(f"  {command}")
    raise click.exceptions.Exit(int(ExitCode.UPGRADE_PENDING))


class _ForMonitoring(click.Command):
    """A command whose failures exit with 3, unknown: 1 and 2 are states of the cluster."""

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,
    ) -> click.Context:
        with _failures_are_unknown():
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        with _failures_are_unknown():
            return super().invoke(ctx)


@contextlib.contextmanager
def _failures_are_unknown() -> Iterator[None]:
    try:
        yield
    except (click.exceptions.Exit, BrokenPipeError):
        raise
    except Exception as error:
        if isinstance(error, click.ClickException):
            error.show()
        elif isinstance(error, OperatorError):
            click.echo(str(error), err=True)
        else:
            traceback.print_exc()
        raise click.exceptions.Exit(UNKNOWN_STATE) from error


@click.command(cls=_ForMonitoring)
@click.option("--json", "as_json", is_flag=True, help="Print the snapshot as one JSON object.")
@click.option("--watch", "repeat", is_flag=True, help="Repeat each second until Ctrl-C.")
@pass_app
def status(app: App, as_json: bool, repeat: bool) -> None:
    """Show nodes, replication, Indico instances and problems.

    Marks before a role: * as assigned, ! differs or is disconnected, ? unreachable.

    Exit code: 0 healthy; 1 degraded; 2 critical (split brain) or down (no writable primary, or
    no Indico instance works); 3 unknown (nothing could be probed, or the cluster file or the
    command line is invalid).
    """
    if as_json and repeat:
        raise click.UsageError("--json and --watch exclude each other")
    if as_json:
        from indico_zodbrepl.monitor import take_snapshot

        snapshot = take_snapshot(app.cluster)
        click.echo(json.dumps(snapshot.to_json(), indent=2))
    else:
        from indico_zodbrepl.cli import status_view

        show_state = status_view.watch if repeat else status_view.show
        snapshot = show_state(app.cluster, app.installation.home)
    raise click.exceptions.Exit(snapshot.state.exit_code)


@click.command()
@DRY_RUN
@pass_app
def watch(app: App, dry_run: bool) -> None:
    """Check the cluster each second until stopped, and report every change.

    With a <watch> section in the cluster file, `up` runs this under supervisor.  It serves
    metrics, sends events by webhook and mail, and keeps the past in var/watch.  Without that
    section it only prints and keeps events.

    It changes no server.  Every three minutes it compares followers with the primary, and
    records the result in their history files, so that their next start is fast.
    """
    from indico_zodbrepl.cli.running import show_plan
    from indico_zodbrepl.monitord import program

    if dry_run:
        show_plan(*program.plan(app.cluster))
    elif "SUPERVISOR_ENABLED" in os.environ:  # `up` has recorded this start.
        program.run(app.cluster)
    else:
        with _journaled(app.cluster, "watch", ""):
            program.run(app.cluster)


@click.command()
@click.option(
    "--backend",
    "name",
    metavar="NAME",
    help="Use the cluster file etc/cluster-NAME.conf, or etc/cluster.conf for zrs.",
)
@click.option(
    "--conferences",
    type=click.IntRange(min=1),
    default=200,
    show_default=True,
    metavar="COUNT",
    help="Load COUNT conferences on the first run.",
)
@pass_app
def demo(app: App, name: str | None, conferences: int) -> None:
    """Start the cluster, load conferences and print the addresses; Ctrl-C stops everything.

    The first run creates an admin user with a random password and loads conferences with 5
    contributions each.  Later runs reuse them.
    """
    from indico_zodbrepl.cluster import load
    from indico_zodbrepl.demo.run import run

    cluster = (
        app.cluster
        if name is None
        else load(example(app.installation, name), app.installation.home)
    )
    sys.exit(int(run(cluster, app.installation, conferences, click.echo, step_printer())))


def example(installation: Installation, name: str) -> Path:
    """Return the example cluster file of that name.  Raises UsageError for an unknown name."""
    folder = installation.home / "etc"
    known = {"zrs": folder / "cluster.conf"}
    known |= {
        path.stem.removeprefix("cluster-"): path for path in sorted(folder.glob("cluster-*.conf"))
    }
    known.pop("hosts", None)  # it takes several: `demo-hosts`
    if name not in known:
        raise click.UsageError(f"no example {name!r}; known: {', '.join(sorted(known))}")
    return known[name]


def addresses(cluster: Cluster) -> str:
    """Return the URLs that ``up`` prints, one a line."""
    lines = [("Indico", instance.base_url, instance.name) for instance in cluster.indico]
    lines.append(("admin page", cluster.admin.base_url, ""))
    if cluster.watch:
        lines.append(("metrics", cluster.watch.metrics_url, ""))
    width = max(len(url) for _what, url, _name in lines)
    return "\n".join(f"{what:<12}{url:<{width}}  {name}".rstrip() for what, url, name in lines)


def _journaled(cluster: Cluster, what: str, reason: str) -> contextlib.AbstractContextManager[Told]:
    """Record a command in the journal; a journal that cannot be written stops nothing."""
    from indico_zodbrepl.cluster.layout import Layout
    from indico_zodbrepl.operations import journal

    if not Layout(cluster).var.is_dir():
        return contextlib.nullcontext(journal.Told())
    return journal.journaled(
        cluster,
        what,
        cluster.name,
        reason,
        otherwise=lambda problem: click.echo(f"NOTICE: {problem}", err=True),
    )


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
