"""What Prometheus reads: one table of metrics, and their values from the last snapshot."""

from __future__ import annotations

import time
from collections.abc import Iterable

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from indico_zodbrepl.monitor.metrics import (
    SNAPSHOT_METRICS,
    Values,
    described,
    families,
    of_snapshot,
)
from indico_zodbrepl.monitor.snapshot import Snapshot
from indico_zodbrepl.watch.lookout import Lookout

METRICS = SNAPSHOT_METRICS + described(
    ("node_lag_seconds_max", "node", "largest node_lag_seconds of the last hour"),
    ("events_total", "kind", "events told since the program started"),
    ("deliveries_total", "hook result", "deliveries of events: result delivered or failed"),
    ("deliveries_waiting", "hook", "deliveries that wait or are tried again"),
    ("unwritten_total", "", "writes to files of the program that failed"),
)


class Metrics(Collector):
    """Values for a Prometheus registry, read from a lookout at each scrape; any thread."""

    def __init__(self, lookout: Lookout) -> None:
        self._lookout = lookout

    def collect(self) -> Iterable[Metric]:
        """All metrics of METRICS; those of the cluster only once it has been looked at."""
        return families(METRICS, self._values())

    def _values(self) -> Values:
        yield from _own(self._lookout)
        latest = self._lookout.latest
        if latest is not None:
            snapshot, completed = latest
            yield "snapshot_age_seconds", [((), time.monotonic() - completed)]
            yield from of_snapshot(snapshot)
            yield from _of_lag(self._lookout, snapshot)


def _own(lookout: Lookout) -> Values:
    yield "snapshots_total", [((), lookout.snapshots)]
    yield "events_total", [((kind,), count) for kind, count in sorted(lookout.counted.items())]
    yield "deliveries_total", [
        ((courier.name, result), getattr(courier.counts, result))
        for courier in lookout.couriers for result in ("delivered", "failed")]
    yield "deliveries_waiting", [((courier.name,), courier.undelivered())
                                 for courier in lookout.couriers]
    yield "unwritten_total", [((), lookout.unwritten)]


def _of_lag(lookout: Lookout, snapshot: Snapshot) -> Values:
    histories = {node.name: lookout.history.of(node.name) for node in snapshot.nodes
                 if node.name != snapshot.primary}
    yield "node_lag_seconds", [((name,), samples[-1].seconds)
                               for name, samples in histories.items()
                               if samples and samples[-1].seconds is not None]
    yield "node_lag_seconds_max", [((name,), worst) for name in histories
                                   if (worst := lookout.history.worst(name)) is not None]
