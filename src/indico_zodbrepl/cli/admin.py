"""``zodbrepl admin``: the admin page's own program, and who may use the page."""

from __future__ import annotations

import errno
import functools
import logging

import click

from indico_zodbrepl.admin import create_app, serving
from indico_zodbrepl.cli.admin_accounts import token, user
from indico_zodbrepl.cli.app import App, pass_app
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.monitor import take_snapshot
from indico_zodbrepl.monitor.watcher import Watcher


@click.group(invoke_without_command=True, commands={"user": user, "token": token})
@click.pass_context
def admin(context: click.Context) -> None:
    """Serve the admin page until it is ended; `up` runs this under supervisor.

    Whoever opens the page logs in; `admin user` and `admin token` say who may.  /health is
    for monitoring, without a login: 200 while the cluster is healthy or degraded, 503 while
    it is down or unknown.
    """
    if context.invoked_subcommand is None:
        context.invoke(_serve)


@pass_app
def _serve(app: App) -> None:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    cluster = app.cluster
    watcher = Watcher(functools.partial(take_snapshot, cluster))
    page = create_app(cluster, watcher, app.installation.home)
    try:
        server = serving.listen(page, cluster.admin)
    except OSError as error:
        taken = error.errno == errno.EADDRINUSE
        raise OperatorError(
            f"cannot serve the admin page on {cluster.admin.address}", error.strerror or str(error),
            f"change the port at {cluster.where('admin', None, 'port')}" if taken else "",
            ExitCode.PORT_TAKEN if taken else ExitCode.FAILED) from error
    watcher.start()
    click.echo(f"admin page of cluster {cluster.name}: {cluster.admin.base_url}")
    server.run()
