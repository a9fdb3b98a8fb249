"""The facts that planners use.  ``survey`` gathers them; the planners are pure."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

from indico_zodbrepl.backends import backend_of
from indico_zodbrepl.cluster import Node
from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.cluster.lookup import node_named
from indico_zodbrepl.cluster.model import Cluster
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host.datafs_answers import Comparison
from indico_zodbrepl.host.disks import Disk
from indico_zodbrepl.host.interface import Host, answer_deadline, host_of
from indico_zodbrepl.host.last_seen import LastSeen
from indico_zodbrepl.host.peers import of_nodes
from indico_zodbrepl.host.promise import Promise
from indico_zodbrepl.host.sights import Sighting
from indico_zodbrepl.monitor.findings import Findings
from indico_zodbrepl.monitor.node_status import NodeStatus
from indico_zodbrepl.monitor.promotion import assigned_primary
from indico_zodbrepl.monitor.snapshot import Snapshot
from indico_zodbrepl.operations.automatic import Automation
from indico_zodbrepl.operations.evidence import Process
from indico_zodbrepl.probing import times
from indico_zodbrepl.probing.answers import Replication, ServerAnswer, ServerRole
from indico_zodbrepl.probing.process_state import FROZEN
from indico_zodbrepl.probing.wire import ProbeError


@dataclasses.dataclass(frozen=True)
class Situation:
    """One moment of a cluster.

    Attributes:
        now: seconds since 1970.
        findings, snapshot: one round of probes, raw and judged.
        comparisons: of nodes' data files with the one that the planner's docstring names; a text
            says why one could not be made.
        conditions: of each node whose history file does not say ``ok``.
        disks: of the nodes whose data directories exist.
        unwritable: why answering nodes cannot write their state; without those that can.
        processes: of the nodes whose processes the host knows; see ``look``.
        fingerprints: of the data files, taken before they were compared.
        last_seen: None if there is no such record.
        holders: processes that have nodes' data files open, if supervisor is not running.
        sights: what other hosts' probes of the primary found, by host.
        automation: None without one, or where that does not matter.
        promise: of the old primary; None if it is unknown.
    """

    now: float
    findings: Findings
    snapshot: Snapshot
    comparisons: Mapping[str, Comparison | str]
    conditions: Mapping[str, str]
    disks: Mapping[str, Disk]
    processes: Mapping[str, Process] = dataclasses.field(default_factory=dict)
    last_seen: LastSeen | None = None
    fingerprints: Mapping[str, str] = dataclasses.field(default_factory=dict)
    holders: Mapping[str, int] = dataclasses.field(default_factory=dict)
    unwritable: Mapping[str, str] = dataclasses.field(default_factory=dict)
    sights: Mapping[str, Sighting] = dataclasses.field(default_factory=dict)
    automation: Automation | None = None
    promise: Promise | None = None

    def is_away(self, name: str) -> bool:
        """Return True if the host of a node does not answer."""
        return self.snapshot.node(name).host in self.snapshot.away

    def assigned_primary(self) -> NodeStatus | None:
        """Return the primary by state files and records; see ``promotion.assigned_primary``."""
        return assigned_primary(self.snapshot)


def tail_folder(cluster: Cluster, node: str, epoch: int, now: float) -> Path:
    """Return the folder of a recovery export of ``node``, made as ``epoch`` begins without it."""
    return Layout(cluster).lost_tails / f"{node}-{epoch}-{times.stamp(now)}"


def look(
    cluster: Cluster, nodes: Iterable[NodeStatus]
) -> tuple[dict[str, Process], dict[str, int]]:
    """Return the processes of nodes, and the holders of their data files if supervisor is away.

    Without data files, only supervisor knows the processes.

    A running but silent supervisord may restart a node at any moment, so the lock counts only while
    none runs.
    """
    nodes, host = list(nodes), host_of(cluster)
    pids = {node.name: node.program.pid for node in nodes if node.program}
    processes = of_nodes(cluster, pids, lambda name: process_of(host, name, pids[name]))
    holders: dict[str, int] = {}
    unknown = [
        node
        for node in nodes
        if node.program is None and not node.reachable and _has_lock(cluster, node.name)
    ]
    if cluster.hosts:
        return processes, holders  # the supervisord of each host is asked with its programs
    if unknown and host.supervisor_is_away(unknown[0].name):
        for node in unknown:
            process, pid = by_lock(host, node.name)
            processes[node.name] = process
            if pid is not None:
                holders[node.name] = pid
    return processes, holders


def _has_lock(cluster: Cluster, name: str) -> bool:
    """Return True if a lock beside the node's data shows which process has them open."""
    return backend_of(cluster).data_file(cluster.node(name)) is not None


def process_of(host: Host, name: str, pid: int) -> Process:
    """Return the state of a node's process; ``pid`` is 0 if supervisor has none."""
    state = host.process_state(name, pid) if pid else ""
    if not state:
        return Process.NONE
    return Process.FROZEN if state in FROZEN else Process.RUNS


def by_lock(host: Host, name: str) -> tuple[Process, int | None]:
    """Return a node's process by the lock of its data file, and its PID if it has one.

    The process is unknown if there is no lock: the disk may not be mounted.
    """
    try:
        held = host.lock(name)
    except OSError:
        return Process.UNKNOWN, None
    if held is None:
        return Process.UNKNOWN, None
    if not held.is_held:
        return Process.NONE, None
    if held.pid is None or not held.is_node:
        return Process.UNKNOWN, None
    return process_of(host, name, held.pid), held.pid


ANSWER_SECONDS = 2.0


def ask(cluster: Cluster, node: Node) -> ServerAnswer:
    """Return the answer of the server at a node's address; raise ProbeError."""
    deadline = answer_deadline(cluster, node.on, time.monotonic() + ANSWER_SECONDS)
    return backend_of(cluster).ask(cluster, node, deadline)


def replication_of(cluster: Cluster, node: Node) -> Replication | None:
    """Return the report of a node's server about itself; None if another server answers.

    Raises ProbeError.
    """
    return own(node, ask(cluster, node))


def replication(cluster: Cluster, name: str) -> Replication | None:
    """Return the report of a node's server; None if it does not answer as that node."""
    try:
        return replication_of(cluster, cluster.node(name))
    except ProbeError:
        return None


def own(node: Node, answer: ServerAnswer) -> Replication | None:
    """Return the part of an answer about a node; None if it comes from another server."""
    found = answer.replication
    return found if found is not None and found.node == node.name else None


def current_primary(cluster: Cluster) -> tuple[Node, int]:
    """Return the primary and its epoch by the records; raise OperatorError (exit 8)."""
    record = host_of(cluster).newest_record()
    if record is None:
        raise OperatorError(
            "it is not known who the primary is",
            "no record of the epoch can be read, or two name different ones",
            Commands.here(cluster).zodbrepl("status"),
            ExitCode.REFUSED,
        )
    return node_named(cluster, record.primary), record.epoch


def why_not_serving(cluster: Cluster, primary: Node, epoch: int) -> str:
    """Return why a node is not the running primary of an epoch; empty if it is."""
    try:
        found = replication_of(cluster, primary)
    except ProbeError as error:
        return error.detail
    if found is None:
        return f"another server answers on {primary.storage_address}"
    if found.role is not ServerRole.PRIMARY or found.epoch != epoch:
        return f"it runs as {found.role} of epoch {found.epoch}"
    return ""


def size_of(host: Host, name: str) -> int:
    """Return the bytes of a node's data file; 0 if there is none."""
    found = host.data_file(name)
    return 0 if found is None else found.bytes


def follows(cluster: Cluster, node: Node, primary: Node) -> bool:
    """Return True if a node's server runs and is connected to the primary."""
    try:
        found = replication_of(cluster, node)
    except ProbeError:
        return False
    return (
        found is not None
        and found.connected is True
        and found.upstream == str(primary.link_address)
    )


def upstream_of(cluster: Cluster, node: Node) -> str | None:
    """Return the node's assigned upstream; None also if its state file is unusable."""
    try:
        return host_of(cluster).state(node.name).upstream
    except OperatorError:
        return None  # status reports an unusable state file
