"""The watching program's HTTP port: metrics for Prometheus, the last hour's lag as JSON."""

from __future__ import annotations

import errno
import json
from collections.abc import Callable, Iterable
from typing import Any

import waitress
import waitress.server
from prometheus_client import CollectorRegistry, make_wsgi_app

from indico_zodbrepl.cluster.model import Cluster, Watch
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.watch.lookout import Lookout
from indico_zodbrepl.watch.metrics import Metrics

THREADS = 2

StartResponse = Callable[[str, list[tuple[str, str]]], object]


def application(lookout: Lookout) -> Callable[[dict[str, Any], StartResponse], Iterable[bytes]]:
    """The WSGI application: GET /metrics and GET /history."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(Metrics(lookout))
    metrics = make_wsgi_app(registry)

    def answer(environ: dict[str, Any], start: StartResponse) -> Iterable[bytes]:
        if environ["PATH_INFO"] == "/metrics":
            found: Iterable[bytes] = metrics(environ, start)
            return found
        if environ["PATH_INFO"] == "/history" and environ["REQUEST_METHOD"] == "GET":
            start("200 OK", [("Content-Type", "application/json"), ("Cache-Control", "no-store")])
            return [json.dumps(history(lookout)).encode()]
        start("404 Not Found", [("Content-Type", "text/plain")])
        return [b"GET /metrics or /history\n"]

    return answer


def history(lookout: Lookout) -> dict[str, list[tuple[float, float | None, int | None]]]:
    """The last hour's samples of each node: time, seconds and transactions of lag."""
    return {name: [(sample.at, sample.seconds, sample.transactions)
                   for sample in lookout.history.of(name)] for name in lookout.history.names()}


def create_server(cluster: Cluster, watch: Watch, lookout: Lookout) -> Any:
    """The server, which listens already; ``run`` serves.

    Raises OperatorError: exit 5 when the port is taken, else 1.
    """
    try:
        return waitress.create_server(application(lookout), host=watch.host, port=watch.port,
                                      threads=THREADS, ident=None)
    except OSError as error:
        taken = error.errno == errno.EADDRINUSE
        raise OperatorError(
            f"cannot serve metrics on {watch.address}", error.strerror or str(error),
            f"change the port at {cluster.where('watch', None, 'port')}" if taken else "",
            ExitCode.PORT_TAKEN if taken else ExitCode.FAILED) from error
