"""Commands about the hosts of a cluster of several."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import click

from indico_zodbrepl.cli.app import DRY_RUN, REASON, App, pass_app, step_printer
from indico_zodbrepl.cli.group import Lazy, LazyGroup

if TYPE_CHECKING:
    from indico_zodbrepl.operations.hosts_list import Line


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


HOSTS = {
    "init": Lazy("hosts", "Create the certificate authority and the certificate of this host."),
    "add": Lazy("hosts", "Give a host its certificate, the cluster file and the secrets."),
    "join": Lazy("hosts", "Become a host of a cluster, by a bundle of `hosts add`."),
    "remove": Lazy("hosts", "Take its certificate from a host that runs nothing."),
    "list": Lazy("hosts", "Show each host: agent, cluster file, clock, certificate."),
    "push": Lazy("hosts", "Give all hosts the cluster file of this one."),
    "issue": Lazy("hosts", "Issue a certificate to an operator or a monitoring system."),
    "rotate-certificates": Lazy("hosts", "Give all hosts new certificates."),
}


@click.group(cls=LazyGroup, lazy=HOSTS)
def hosts() -> None:
    """Make and keep the hosts of a cluster file one cluster."""


@click.command()
@REASON
@DRY_RUN
@pass_app
def init(app: App, reason: str, dry_run: bool) -> None:
    """Create the certificate authority of the cluster, and the certificate of this host.

    Run it on one host of the cluster file, as the user that runs the cluster.  Its key stays here,
    in var/tls/ca.key.  Idempotent.
    """
    from indico_zodbrepl.cli.running import answer_single
    from indico_zodbrepl.operations.hosts import Init

    answer_single(app, Init.named(app.cluster.name), reason, dry_run=dry_run)


@click.command()
@click.argument("name")
@click.option(
    "--to-file",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write a bundle for `hosts join` instead of using ssh.",
)
@REASON
@DRY_RUN
@pass_app
def add(app: App, name: str, to_file: Path | None, reason: str, dry_run: bool) -> None:
    """Give host NAME of the cluster file its certificate, that file and the shared secrets.

    Type it where `hosts init` ran.  By ssh, as the present user, to the same folders on the host's
    address; the agent is started there.  The shared secrets are Indico's first user, generated
    passwords of databases and the secret for benchmarks; not the accounts of the admin page, and
    no file that the cluster file names, such as password-file.

    With --to-file: into a file of mode 0600, which you copy there.  Who has it is that host.
    """
    from indico_zodbrepl.cli.running import answer_single
    from indico_zodbrepl.operations.hosts import Add

    file = str(to_file.absolute()) if to_file else ""
    answer_single(app, Add.named(name, file=file), reason, dry_run=dry_run)


@click.command()
@click.argument("file", type=click.File("rb"))
@DRY_RUN
@pass_app
def join(app: App, file: BinaryIO, dry_run: bool) -> None:
    """Become the host for which `hosts add` has written the bundle FILE; - is standard input.

    Writes the cluster file (-c), certificates and secrets, and starts this host's agent.  Refuses a
    bundle for another machine or of another cluster, and never replaces a cluster file.
    """
    from indico_zodbrepl.cli.running import show_plan
    from indico_zodbrepl.host import bundle
    from indico_zodbrepl.operations import single
    from indico_zodbrepl.operations.hosts_join import Join

    content = file.read(bundle.LONGEST + 1)
    joining = bundle.check(bundle.parse(content, str(file.name)), app.config, app.installation.home)
    step = Join.of(joining)
    if dry_run:
        show_plan(*single.plan(joining.cluster, app.installation, step, ""))
        return
    done, notes = single.take(
        joining.cluster, app.installation, step, "", say=step_printer(), entry=step.entry()
    )
    click.echo(done)
    for note in notes:
        click.echo(note, err=True)


@click.command()
@click.argument("name")
@REASON
@DRY_RUN
@pass_app
def remove(app: App, name: str, reason: str, dry_run: bool) -> None:
    """Take its certificate from host NAME, and stop its agent.

    Refused while the cluster file places something on it.  Delete its section afterwards, and push
    the file: hosts refuse a host that is not in their file.  A copy of its certificate stays
    valid until it expires or the authority is rotated.
    """
    from indico_zodbrepl.cli.running import answer_single
    from indico_zodbrepl.operations.hosts import Remove

    answer_single(app, Remove.named(name), reason, dry_run=dry_run)


@click.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON array.")
@pass_app
def list_(app: App, as_json: bool) -> None:
    """Show each host: agent, release, cluster file, clock and certificate.

    Answers within two seconds, also if hosts are silent.

    Exit code: 0 all is fine; 1 a line says what is not; 2 no majority of the hosts answers.
    """
    from indico_zodbrepl.cluster.lookup import own_host
    from indico_zodbrepl.operations import hosts_check, hosts_list

    own_host(app.cluster)
    lines = hosts_check.seen(app.cluster)
    if as_json:
        click.echo(json.dumps([dataclasses.asdict(each) for each in lines], indent=2))
    else:
        for text in _table(lines):
            click.echo(text)
    code = hosts_list.exit_code(lines)
    sys.stdout.flush()
    raise click.exceptions.Exit(code)


def _table(lines: Sequence[Line]) -> list[str]:
    rows = [("host", "address", "agent", "release", "file", "clock", "certificate", "")]
    for line in lines:
        ahead, days = line.clock_ahead, line.certificate_days
        rows.append(
            (
                line.name + ("*" if line.here else ""),
                line.address,
                "up" if line.up else "away",
                line.release or "-",
                line.cluster_file or "-",
                "-" if ahead is None else f"{ahead:+.1f} s",
                "-" if days is None else f"{days:.0f} days",
                "; ".join(line.issues),
            )
        )
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]) - 1)]
    return [_row(row, widths) for row in rows]


def _row(row: Sequence[str], widths: Sequence[int]) -> str:
    *cells, issues = row
    padded = [f"{cell:<{width}}" for cell, width in zip(cells, widths, strict=True)]
    return "  ".join([*padded, issues]).rstrip()


@click.command()
@REASON
@DRY_RUN
@pass_app
def push(app: App, reason: str, dry_run: bool) -> None:
    """Give all hosts the cluster file of this one; show the differences first.

    Each host checks it before any host replaces its own, and keeps the old one as FILE.before.  A
    host refuses a file that it had before: it is older.  `up` applies what changed.  Hosts also get
    the shared secrets that they lack, such as passwords of database users.

    Exit code: 0 all hosts have it; 7 hosts did not answer; 8 a host refuses it.
    """
    from indico_zodbrepl.cli.running import answer_single
    from indico_zodbrepl.cluster.lookup import own_host
    from indico_zodbrepl.operations.hosts import Push, differences

    own_host(app.cluster)
    for line in differences(app.cluster):
        click.echo(line)
    answer_single(app, Push.named(str(app.cluster.here)), reason, dry_run=dry_run)


@click.command()
@click.argument("name")
@click.option(
    "--role",
    type=click.Choice(["operator", "monitor"]),
    required=True,
    help="Both open the pages of all hosts; agents let a monitor read only.",
)
@click.option(
    "--to-file",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    required=True,
    help="A new file: the certificate, its key and the authorities.",
)
@REASON
@DRY_RUN
@pass_app
def issue(  # noqa: PLR0917 - as click calls it
    app: App, name: str, role: str, to_file: Path, reason: str, dry_run: bool
) -> None:
    """Issue a certificate to NAME, an operator or a monitoring system such as Prometheus.

    Type it where `hosts init` ran.  With it a machine that is no host opens the admin page, the
    metrics and Indico at the addresses of the hosts.  The file has mode 0600: who has it is NAME.
    """
    from indico_zodbrepl.cli.running import answer_single
    from indico_zodbrepl.operations.hosts_issue import Issue

    step = Issue.named(name, role=role, file=str(to_file.absolute()))
    answer_single(app, step, reason, dry_run=dry_run)


@click.command("rotate-certificates")
@click.option("--authority", is_flag=True, help="Also replace the certificate authority.")
@REASON
@DRY_RUN
@pass_app
def rotate_certificates(app: App, authority: bool, reason: str, dry_run: bool) -> None:
    """Give all hosts new certificates while everything runs.

    Type it where `hosts init` ran.  If a host is away, repeat it later: the others have theirs.

    With --authority: all hosts trust a new authority beside the old one, then get certificates of
    it, then trust it alone.  It ends at the first of these steps that a host misses, and the same
    command continues.  On a host without the authority's key it makes this host the one that
    issues certificates, for example after the loss of the other one.
    """
    from indico_zodbrepl.cli.running import answer_single
    from indico_zodbrepl.operations.hosts_certificates import Rotate

    step = Rotate.named(app.cluster.name, authority=authority)
    answer_single(app, step, reason, dry_run=dry_run)
