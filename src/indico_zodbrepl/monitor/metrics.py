"""The cluster in figures, for Prometheus: one table of metrics, and their values in a snapshot."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from indico_zodbrepl.monitor.snapshot import IndicoStatus, Level, NodeStatus, Snapshot, State
from indico_zodbrepl.probing.answers import ServerRole

PREFIX = "zodbrepl_"

Values = Iterator[tuple[str, list[tuple[tuple[str, ...], float]]]]
"""Names without PREFIX; for each the values of its labels with the figure."""


@dataclasses.dataclass(frozen=True)
class Description:
    """A metric without its values; counters' names end in ``_total``."""

    name: str
    labels: tuple[str, ...]
    help: str

    @property
    def is_counter(self) -> bool:
        return self.name.endswith("_total")


def described(*rows: tuple[str, str, str]) -> tuple[Description, ...]:
    """Metrics of rows with the name without PREFIX, the labels' names and what it is."""
    return tuple(Description(PREFIX + name, tuple(labels.split()), text)
                 for name, labels, text in rows)


SNAPSHOT_METRICS = described(
    ("state", "", "0 healthy, 1 degraded, 2 down, 3 unknown: the exit code of status"),
    ("snapshot_age_seconds", "", "time since the last look was complete"),
    ("snapshot_duration_seconds", "", "time that the last look took"),
    ("snapshots_total", "", "looks so far"),
    ("alerts", "level", "present alerts of each level"),
    ("epoch", "", "highest epoch that any node, record or state says; absent without epochs"),
    ("primary", "node", "1 for the one writable primary or elected master, else 0"),
    ("node_up", "node", "1 when the node's own server answers, else 0"),
    ("node_as_assigned", "node", "1 when it runs in the assigned role and its link stands"),
    ("node_epoch", "node", "epoch its server runs in"),
    ("node_connected", "node", "1 while its link to its upstream stands; absent without one"),
    ("node_followers", "node", "followers connected to it; absent where no node follows another"),
    ("node_clients", "node", "clients connected to it"),
    ("node_data_bytes", "node", "size of its data"),
    ("node_last_transaction_timestamp_seconds", "node", "when its last transaction was committed"),
    ("node_lag_seconds", "node", "how long it has been behind the primary; absent when unknown"),
    ("node_lag_transactions", "node", "transactions it lacks; absent when unknown"),
    ("node_out_of_line", "node", "1 when its history is known not to be the cluster's, else 0"),
    ("node_start_refused", "node", "1 while it is down because it refused to start, else 0"),
    ("node_writes_held", "node", "1 while its server lets no commit begin, else 0"),
    ("node_refused_followers", "node", "followers that its server turned away"),
    ("operations_open", "", "operations that have not ended; 1 while one is at work"),
    ("indico_up", "indico", "1 when the Indico instance answers, else 0"),
    ("indico_writable", "indico", "1 when it could save something, else 0"),
)

NodeFigure = Callable[[NodeStatus], float | None]


def families(metrics: Sequence[Description], values: Values) -> Iterable[Metric]:
    """The families of all metrics, those without a value too.

    Raises LookupError when there is a value of a metric that is not among them.
    """
    left = dict(values)
    for description in metrics:
        kind = CounterMetricFamily if description.is_counter else GaugeMetricFamily
        family = kind(description.name, description.help, labels=description.labels)
        for labels, value in left.pop(description.name.removeprefix(PREFIX), ()):
            family.add_metric(labels, value)
        yield family
    if left:
        raise LookupError(f"not described: {', '.join(left)}")


def of_snapshot(snapshot: Snapshot) -> Values:
    """Figures of SNAPSHOT_METRICS; not the lag in seconds, nor the snapshot's age and number."""
    yield "state", [((), snapshot.state.exit_code)]
    yield "snapshot_duration_seconds", [((), snapshot.duration)]
    yield "alerts", [((level.value,), sum(alert.level is level for alert in snapshot.warnings))
                     for level in Level]
    if snapshot.epoch is not None:
        yield "epoch", [((), snapshot.epoch)]
    yield "operations_open", [((), len(snapshot.operations))]
    yield "primary", [((node.name,), node.name == snapshot.primary) for node in snapshot.nodes]
    for name, figure in NODE_FIGURES.items():
        yield name, [((node.name,), float(value)) for node in snapshot.nodes
                     if (value := figure(node)) is not None]
    yield "indico_up", [((instance.name,), instance.up) for instance in snapshot.indico]
    yield "indico_writable", [((instance.name,), _saves(snapshot, instance))
                              for instance in snapshot.indico]


def _saves(snapshot: Snapshot, instance: IndicoStatus) -> bool:
    return instance.writable and not instance.waits and snapshot.state is not State.DOWN


REPLICATING = (ServerRole.PRIMARY, ServerRole.SECONDARY, ServerRole.RELAY)
NODE_FIGURES: dict[str, NodeFigure] = {
    "node_up": lambda node: node.actual_role is not None,
    "node_as_assigned": lambda node: node.mark == "*",
    "node_epoch": lambda node: node.epoch,
    "node_connected": lambda node: node.connected,
    "node_followers": lambda node: (
        None if node.actual_role not in REPLICATING else len(node.follower_addresses)),
    "node_clients": lambda node: node.clients,
    "node_data_bytes": lambda node: node.size,
    "node_last_transaction_timestamp_seconds": lambda node: node.last_time,
    "node_out_of_line": lambda node: node.out_of_line,
    "node_start_refused": lambda node: node.refusal is not None and not node.reachable,
    "node_writes_held": lambda node: None if node.actual_role is None else node.held is not None,
    "node_refused_followers": lambda node: (
        None if node.actual_role not in REPLICATING else len(node.refused)),
    "node_lag_transactions": lambda node: node.lag_transactions,
}
