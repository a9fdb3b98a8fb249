"""Metrics of the cluster for Prometheus: one table of descriptions, and their values."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.registry import Collector

from indico_zodbrepl.monitor.node_status import NodeStatus
from indico_zodbrepl.monitor.snapshot import IndicoStatus, Snapshot, State
from indico_zodbrepl.monitor.watcher import TimestampedSnapshot
from indico_zodbrepl.probing.answers import AckState, Level, ServerRole

PREFIX = "zodbrepl_"
CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4

Values = Iterator[tuple[str, list[tuple[tuple[str, ...], float]]]]
"""Metric names without PREFIX; for each, pairs of label values and the figure."""


@dataclasses.dataclass(frozen=True)
class Description:
    """A metric without its values; the name of a counter ends in ``_total``."""

    name: str
    labels: tuple[str, ...]
    help: str

    @property
    def is_counter(self) -> bool:
        return self.name.endswith("_total")


def described(*rows: tuple[str, str, str]) -> tuple[Description, ...]:
    """Return metrics of rows with the name without PREFIX, the labels' names and the help."""
    return tuple(
        Description(PREFIX + name, tuple(labels.split()), text) for name, labels, text in rows
    )


SNAPSHOT_METRICS = described(
    ("state", "", "0 healthy, 1 degraded, 2 critical or down, 3 unknown: the exit code of status"),
    ("snapshot_age_seconds", "", "time since the last snapshot was complete"),
    ("snapshot_duration_seconds", "", "time that the last snapshot took"),
    ("snapshots_total", "", "snapshots taken"),
    ("alerts", "level", "present alerts of each level"),
    ("epoch", "", "highest epoch that any node, record or state says; absent without epochs"),
    ("split_brain", "", "1 while more than one node accepts writes, else 0"),
    ("primary", "node", "1 for the one writable primary or elected master, else 0"),
    ("node_up", "node", "1 when the node's own server answers, else 0"),
    ("node_as_assigned", "node", "1 when it runs in the assigned role and is connected"),
    ("node_epoch", "node", "epoch its server runs in"),
    ("node_connected", "node", "1 while it is connected to its upstream; absent without one"),
    ("node_followers", "node", "followers connected to it; absent where no node follows another"),
    ("node_clients", "node", "clients connected to it"),
    ("node_data_bytes", "node", "size of its data"),
    ("node_disk_free_bytes", "node", "free space of its data directory's disk"),
    ("node_disk_size_bytes", "node", "size of its data directory's disk"),
    ("node_write_failures", "node", "writes that failed since the last one that did not"),
    ("node_last_transaction_timestamp_seconds", "node", "when its last transaction was committed"),
    ("node_lag_seconds", "node", "how long it has been behind the primary; absent when unknown"),
    ("node_lag_transactions", "node", "transactions it lacks; absent when unknown"),
    ("node_out_of_line", "node", "1 when its history is known to have diverged, else 0"),
    ("node_start_refused", "node", "1 while it is down because it refused to start, else 0"),
    ("node_writes_held", "node", "1 while its writes are paused or refused, else 0"),
    ("node_refused_followers", "node", "followers that its server refused"),
    (
        "node_synchronous",
        "node",
        "1 while enough secondaries acknowledge its commits, 0 while not; absent if none has to",
    ),
    ("node_synchronous_count", "node", "secondaries that must acknowledge each of its commits"),
    ("node_synchronous_confirming", "node", "secondaries that confirm transactions"),
    ("node_commits_in_doubt", "node", "transactions on its disk that were acknowledged to nobody"),
    ("node_lease_left_seconds", "node", "time until its lease ends; absent if it needs none"),
    ("control_disk_free_bytes", "", "free space of the var directory's disk"),
    ("control_disk_size_bytes", "", "size of the var directory's disk"),
    (
        "automation_known",
        "",
        "1 while etcd tells who leads, 0 while not; absent without automatic failover",
    ),
    ("automation_paused", "", "1 while the automatic failover is paused; absent if unknown"),
    ("leader", "node", "1 for the node that holds the role of the primary in etcd, else 0"),
    ("candidate", "node", "1 if the node could take over, 0 if not; absent for the leader"),
    (
        "backup_last_success_timestamp_seconds",
        "",
        "when the last good backup ended, 0 without one; absent without backup-time",
    ),
    ("operations_open", "", "open operations; 1 while one is running"),
    ("indico_up", "indico", "1 when the Indico instance answers, else 0"),
    ("indico_writable", "indico", "1 when it can save, else 0"),
)

PROCESS_METRICS = described(
    ("node_lag_seconds_max", "node", "largest node_lag_seconds of the last hour"),
    ("events_total", "kind", "events reported since the program started"),
    ("deliveries_total", "hook result", "deliveries of events: result delivered or failed"),
    ("deliveries_waiting", "hook", "deliveries that wait or are retried"),
    ("unwritten_total", "", "writes to files of the program that failed"),
)
"""Only the monitor process has these."""
METRICS = SNAPSHOT_METRICS + PROCESS_METRICS

NodeFigure = Callable[[NodeStatus], float | None]


def exposition(metrics: Sequence[Description], values: Values) -> bytes:
    """Return the answer to a scrape: every metric, also one without a value.

    Raises:
        LookupError: a value belongs to no described metric.
    """
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Figures(metrics, values))
    return generate_latest(registry)


class _Figures(Collector):
    def __init__(self, metrics: Sequence[Description], values: Values) -> None:
        self._metrics = metrics
        self._values = values

    def collect(self) -> Iterable[Metric]:
        left = dict(self._values)
        for description in self._metrics:
            kind = CounterMetricFamily if description.is_counter else GaugeMetricFamily
            family = kind(description.name, description.help, labels=description.labels)
            for labels, value in left.pop(description.name.removeprefix(PREFIX), ()):
                family.add_metric(labels, value)
            yield family
        if left:
            raise LookupError(f"not described: {', '.join(left)}")


def of_sighting(sighting: TimestampedSnapshot | None) -> Values:
    """Yield the values of SNAPSHOT_METRICS; none before the first snapshot."""
    if sighting is None:
        return
    snapshot = sighting.snapshot
    yield "snapshot_age_seconds", [((), sighting.age)]
    yield "snapshots_total", [((), sighting.number)]
    yield from of_snapshot(snapshot)
    yield (
        "node_lag_seconds",
        [
            ((node.name,), node.lag_seconds)
            for node in snapshot.nodes
            if node.name != snapshot.primary and node.lag_seconds is not None
        ],
    )


def of_snapshot(snapshot: Snapshot) -> Values:
    """Yield the values of one snapshot, except its age, its number and the lag in seconds."""
    yield "state", [((), snapshot.state.exit_code)]
    yield "snapshot_duration_seconds", [((), snapshot.duration)]
    yield (
        "alerts",
        [
            ((level.value,), sum(alert.level is level for alert in snapshot.warnings))
            for level in Level
        ],
    )
    if snapshot.epoch is not None:
        yield "epoch", [((), snapshot.epoch)]
    if snapshot.control_disk is not None:
        yield "control_disk_free_bytes", [((), snapshot.control_disk.free)]
        yield "control_disk_size_bytes", [((), snapshot.control_disk.size)]
    yield from _automation(snapshot)
    if snapshot.backup is not None and not snapshot.backup.problem:
        yield "backup_last_success_timestamp_seconds", [((), snapshot.backup.last or 0)]
    yield "split_brain", [((), bool(snapshot.rivals))]
    yield "operations_open", [((), len(snapshot.operations))]
    yield "primary", [((node.name,), node.name == snapshot.primary) for node in snapshot.nodes]
    for name, figure in NODE_FIGURES.items():
        yield (
            name,
            [
                ((node.name,), float(value))
                for node in snapshot.nodes
                if (value := figure(node)) is not None
            ],
        )
    yield "indico_up", [((instance.name,), instance.up) for instance in snapshot.indico]
    yield (
        "indico_writable",
        [((instance.name,), _saves(snapshot, instance)) for instance in snapshot.indico],
    )


def _automation(snapshot: Snapshot) -> Values:
    found = snapshot.automation
    if found is None:
        return
    yield "automation_known", [((), not found.problem)]
    if found.problem:
        return
    yield "automation_paused", [((), found.paused is not None)]
    yield (
        "leader",
        [
            ((node.name,), node.name == found.leader and not found.released)
            for node in snapshot.nodes
        ],
    )
    yield (
        "candidate",
        [
            ((each.node,), not each.problem)
            for each in found.candidates
            if each.node != found.leader or found.released
        ],
    )


def _saves(snapshot: Snapshot, instance: IndicoStatus) -> bool:
    failing = any(node.writable_primary and node.write_failure for node in snapshot.nodes)
    return (
        instance.writable
        and not instance.waits
        and not failing
        and snapshot.state is not State.DOWN
    )


REPLICATING = (ServerRole.PRIMARY, ServerRole.SECONDARY, ServerRole.RELAY)
NODE_FIGURES: dict[str, NodeFigure] = {
    "node_up": lambda node: node.actual_role is not None,
    "node_as_assigned": lambda node: node.mark == "*",
    "node_epoch": lambda node: node.epoch,
    "node_connected": lambda node: node.connected,
    "node_followers": lambda node: (
        None if node.actual_role not in REPLICATING else len(node.follower_addresses)
    ),
    "node_clients": lambda node: node.clients,
    "node_data_bytes": lambda node: node.size,
    "node_disk_free_bytes": lambda node: None if node.disk is None else node.disk.free,
    "node_disk_size_bytes": lambda node: None if node.disk is None else node.disk.size,
    "node_write_failures": lambda node: (
        None if node.actual_role is None else node.write_failure.count if node.write_failure else 0
    ),
    "node_last_transaction_timestamp_seconds": lambda node: node.last_time,
    "node_out_of_line": lambda node: node.out_of_line,
    "node_start_refused": lambda node: node.refusal is not None and not node.reachable,
    "node_writes_held": lambda node: None if node.actual_role is None else node.held is not None,
    "node_refused_followers": lambda node: (
        None if node.actual_role not in REPLICATING else len(node.refused)
    ),
    "node_lag_transactions": lambda node: node.lag_transactions,
    "node_synchronous": lambda node: (
        found.state is AckState.SYNCHRONOUS
        if (found := node.acknowledging) is not None and found.count
        else None
    ),
    "node_synchronous_count": lambda node: (
        None if node.acknowledging is None else node.acknowledging.count
    ),
    "node_synchronous_confirming": lambda node: (
        None if node.acknowledging is None else len(node.acknowledging.confirming)
    ),
    "node_commits_in_doubt": lambda node: (
        None if node.acknowledging is None else node.acknowledging.in_doubt
    ),
    "node_lease_left_seconds": lambda node: node.lease_left,
}
