"""Commands that run the cluster as a service."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from indico_zodbrepl.cli.app import App, pass_app
from indico_zodbrepl.errors import OperatorError

if TYPE_CHECKING:
    from indico_zodbrepl.host.remote.keeping import Keeper


@click.command()
@pass_app
def run(app: App) -> None:
    """Start everything, and stay in the foreground until it is stopped; for service managers.

    In a cluster of several hosts: the programs of this host, and its agent unless another service
    runs it.  An agent that dies is started again.

    SIGTERM and Ctrl-C stop everything in order.  Programs that did not start are reported once; the
    others run on.  Tells systemd when pages are served (Type=notify).

    Exit code: 0 it was stopped, also by `down`; 1 supervisord died; otherwise as `up` if nothing
    could be started.
    """
    from indico_zodbrepl.cli.cluster import start_all, stop_all
    from indico_zodbrepl.host import daemon, foreground
    from indico_zodbrepl.host.locking import as_keyboard_interrupt, held_off
    from indico_zodbrepl.host.supervisor import SupervisorSilentError

    cluster = app.cluster
    here = bool(cluster.hosts)
    keeper = _keeper(app)
    try:
        with as_keyboard_interrupt():
            if keeper is not None:
                keeper.start()
            try:
                start_all(app, "run", here=here)
                foreground.notify(f"READY=1\nSTATUS=cluster {cluster.name} is up")
            except OperatorError as error:
                if not daemon.is_running(cluster):
                    raise
                click.echo(str(error), err=True)
                foreground.notify(f"READY=1\nSTATUS=partly up: {error.notice}")
            foreground.attend(cluster, keeper.tend if keeper is not None else None)
            click.echo("supervisord was stopped")
    except KeyboardInterrupt:
        with held_off():
            foreground.notify("STOPPING=1")
            try:
                stop_all(app, "run was asked to stop", here=here)
            except SupervisorSilentError:
                # systemd, for instance, asks all programs at once to stop if it has to give up.
                if not foreground.ends_by_itself(cluster):
                    raise
            finally:
                if keeper is not None:
                    keeper.stop()


def _keeper(app: App) -> Keeper | None:
    """Return what keeps this host's agent running; None if the cluster has no hosts."""
    if not app.cluster.hosts:
        return None
    from indico_zodbrepl.host.remote.keeping import Keeper

    return Keeper(app.cluster, app.installation, lambda text: click.echo(text, err=True))


@click.command("install-service")
@click.option("--user", metavar="NAME", help="The user that the cluster runs as; not root.")
@click.option("--print", "printed", is_flag=True, help="Print the files; change nothing.")
@click.option("--remove", "removed", is_flag=True, help="Remove the files; data and logs stay.")
@pass_app
def install_service(app: App, user: str | None, *, printed: bool, removed: bool) -> None:
    """Write a systemd unit and a tmpfiles.d file that run this cluster on this host; as root.

    In a cluster of several hosts also a unit of the host's agent.  With `backup-time` also a timer
    and a unit that back up the database, on the host of `backup-directory`; without it they are
    removed.  Starts nothing.  A file that was there is kept with the suffix .before.
    """
    from indico_zodbrepl.cluster import check_site_conf
    from indico_zodbrepl.cluster.service import Service
    from indico_zodbrepl.host import service_files

    service = Service(app.cluster, app.installation)
    if printed and removed:
        raise click.UsageError("--print and --remove exclude each other")
    if removed:
        service_files.remove(service, click.echo)
        return
    if user is None:
        raise click.UsageError("--user is missing")
    account = service_files.account_of(user)
    command = f"{app.installation.zodbrepl} -c {app.config} install-service --user {user}"
    files = service.files(account, command, service_files.programs_outside(service))
    if printed:
        for path, text in files.items():
            click.secho(f"==> {path} <==", bold=True)
            click.echo(text)
        return
    app.installation.check()
    check_site_conf(app.cluster)
    service_files.require_root("install-service")
    service_files.check(service, account)
    service_files.install(service, account, files, click.echo)
    click.echo(f"Start it now and at each boot: systemctl enable --now {' '.join(service.enabled)}")
