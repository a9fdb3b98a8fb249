"""``zodbrepl admin``: the admin page's own program, and who may use the page."""

from __future__ import annotations

import errno
import functools
import logging

import click
import waitress

from indico_zodbrepl.admin import create_app
from indico_zodbrepl.cli.admin_accounts import token, user
from indico_zodbrepl.cli.app import App, pass_app
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.monitor import take_snapshot
from indico_zodbrepl.monitor.watcher import Watcher

THREADS = 8


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
    proxy = cluster.admin.trusted_proxy
    trusted = {} if proxy is None else {
        "trusted_proxy": proxy, "trusted_proxy_count": 1,
        "trusted_proxy_headers": {"x-forwarded-for", "x-forwarded-proto"}}
    try:
        server = waitress.create_server(page, host=cluster.admin.host, port=cluster.admin.port,
                                        threads=THREADS, ident=None,
                                        clear_untrusted_proxy_headers=True, **trusted)
    except OSError as error:
        taken = error.errno == errno.EADDRINUSE
        raise OperatorError(
            f"cannot serve the admin page on {cluster.admin.address}", error.strerror or str(error),
            f"change the port at {cluster.where('admin', None, 'port')}" if taken else "",
            ExitCode.PORT_TAKEN if taken else ExitCode.FAILED) from error
    watcher.start()
    click.echo(f"admin page of cluster {cluster.name}: {cluster.admin.base_url}")
    server.run()
