"""The cluster's figures for Prometheus, from the page's last look."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.registry import Collector

from indico_zodbrepl.monitor.metrics import SNAPSHOT_METRICS, Values, families, of_snapshot
from indico_zodbrepl.monitor.watcher import Sighting

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4


def exposition(sighting: Sighting | None) -> bytes:
    """What a scrape gets; without a look names and descriptions alone."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Figures(sighting))
    return generate_latest(registry)


class _Figures(Collector):
    def __init__(self, sighting: Sighting | None) -> None:
        self._sighting = sighting

    def collect(self) -> Iterable[Metric]:
        return families(SNAPSHOT_METRICS, self._values())

    def _values(self) -> Values:
        if self._sighting is None:
            return
        snapshot = self._sighting.snapshot
        yield "snapshot_age_seconds", [((), self._sighting.age)]
        yield "snapshots_total", [((), self._sighting.number)]
        yield from of_snapshot(snapshot)
        yield "node_lag_seconds", [((node.name,), node.lag_seconds) for node in snapshot.nodes
                                   if node.name != snapshot.primary
                                   and node.lag_seconds is not None]
