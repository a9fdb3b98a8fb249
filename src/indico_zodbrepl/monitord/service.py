"""The HTTP port of the monitor process: metrics for Prometheus, the last hour's lag as JSON."""

from __future__ import annotations

import errno
import json
import time
from collections.abc import Callable, Iterable
from typing import Any

from indico_zodbrepl.cluster.model import Cluster
from indico_zodbrepl.cluster.programs import Watch
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.monitor import http_server, metrics
from indico_zodbrepl.monitor.snapshot import Snapshot
from indico_zodbrepl.monitord.loop import EventDetector
from indico_zodbrepl.monitord.recorded import Recorded, lags, worst_lag
from indico_zodbrepl.monitord.series import FINE

THREADS = 2

StartResponse = Callable[[str, list[tuple[str, str]]], object]


def application(
    detector: EventDetector,
) -> Callable[[dict[str, Any], StartResponse], Iterable[bytes]]:
    """Return the WSGI application: GET /metrics and GET /history."""

    def answer(environ: dict[str, Any], start: StartResponse) -> Iterable[bytes]:
        if environ["PATH_INFO"] == "/metrics":
            start("200 OK", [("Content-Type", metrics.CONTENT_TYPE)])
            return [metrics.exposition(metrics.METRICS, figures(detector))]
        if environ["PATH_INFO"] == "/history" and environ["REQUEST_METHOD"] == "GET":
            start("200 OK", [("Content-Type", "application/json"), ("Cache-Control", "no-store")])
            return [json.dumps(lags(last_hour(detector))).encode()]
        start("404 Not Found", [("Content-Type", "text/plain")])
        return [b"GET /metrics or /history\n"]

    return answer


def figures(detector: EventDetector) -> metrics.Values:
    """Yield the values of METRICS; those of the cluster only once there is a snapshot."""
    yield from _own(detector)
    latest = detector.latest
    if latest is not None:
        snapshot, completed = latest
        yield "snapshot_age_seconds", [((), time.monotonic() - completed)]
        yield from metrics.of_snapshot(snapshot)
        yield from _of_lag(detector, snapshot)


def _own(detector: EventDetector) -> metrics.Values:
    yield "snapshots_total", [((), detector.snapshots)]
    yield "events_total", [((kind,), count) for kind, count in sorted(detector.counted.items())]
    yield (
        "deliveries_total",
        [
            ((notifier.name, result), getattr(notifier.counts, result))
            for notifier in detector.every_notifier()
            for result in ("delivered", "failed")
        ],
    )
    yield (
        "deliveries_waiting",
        [((notifier.name,), notifier.undelivered()) for notifier in detector.every_notifier()],
    )
    yield "unwritten_total", [((), detector.unwritten)]


def _of_lag(detector: EventDetector, snapshot: Snapshot) -> metrics.Values:
    yield (
        "node_lag_seconds",
        [((name,), seconds) for name, seconds in detector.lags.items() if seconds is not None],
    )
    hour = last_hour(detector)
    yield (
        "node_lag_seconds_max",
        [
            ((node.name,), worst)
            for node in snapshot.nodes
            if node.name != snapshot.primary and (worst := worst_lag(hour, node.name)) is not None
        ],
    )


def last_hour(detector: EventDetector) -> Recorded:
    """Return the measurements of the last hour; none if their file is unreadable."""
    try:
        return detector.history.recorded(FINE, time.time())
    except OSError:
        return Recorded(FINE)


def create_server(cluster: Cluster, watch: Watch, detector: EventDetector) -> Any:
    """Return the server, which already listens; call its ``run`` to serve.

    Raises OperatorError: exit 5 if the port is taken, else 1.
    """
    try:
        return http_server.listen(application(detector), watch.host, watch.port, threads=THREADS)
    except OSError as error:
        taken = error.errno == errno.EADDRINUSE
        raise OperatorError(
            f"cannot serve metrics on {watch.address}",
            error.strerror or str(error),
            f"change the port at {cluster.where('watch', None, 'port')}" if taken else "",
            ExitCode.PORT_TAKEN if taken else ExitCode.FAILED,
        ) from error
