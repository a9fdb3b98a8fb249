"""The state of a cluster at one moment: what pages, commands and monitoring show."""

from __future__ import annotations

import dataclasses
import enum
import itertools
from typing import Any

from indico_zodbrepl.cluster.model import FileStore
from indico_zodbrepl.host.disks import Disk
from indico_zodbrepl.monitor.host_status import (
    Automation,
    BackupStatus,
    EtcdStatus,
    FileSystem,
    HostStatus,
    file_systems,
)
from indico_zodbrepl.monitor.node_status import Mark, NodeStatus, Program
from indico_zodbrepl.probing import tid
from indico_zodbrepl.probing.answers import Alert, Fact

TIDS = ("last_tid", "tid", "acknowledged")
"""Fields that hold transaction ids, which JSON has as text: they exceed JavaScript's numbers."""


class State(enum.StrEnum):
    """Overall state.

    healthy: everything runs as assigned.  degraded: the service works, something is wrong.
    critical: split brain, two nodes take writes; or the disk of a node that takes them is full.
    down: no writable primary, or no Indico instance works.  unknown: nothing could be probed.
    """

    HEALTHY = "healthy"
    DEGRADED = "degraded"
    CRITICAL = "critical"
    DOWN = "down"
    UNKNOWN = "unknown"

    @property
    def exit_code(self) -> int:
        """Return the exit code of monitoring plug-ins: OK, WARNING, CRITICAL or UNKNOWN."""
        return {"healthy": 0, "degraded": 1, "critical": 2, "down": 2, "unknown": 3}[self]

    @property
    def works(self) -> bool:
        """Return True if Indico can be used without making things worse."""
        return self in (State.HEALTHY, State.DEGRADED)


@dataclasses.dataclass(frozen=True)
class EpochWord:
    """The current epoch according to one record.

    Attributes:
        keeper: whose record it is, such as ``the control host``.
        epoch, primary: None when there is no record, or ``problem`` says why it is unusable.
    """

    keeper: str
    epoch: int | None
    primary: str | None
    problem: str


@dataclasses.dataclass(frozen=True)
class OpenOperation:
    """An operation on the cluster that has not ended.

    Attributes:
        identifier: as ``resume`` takes it.
        operation: switchover, failover, rejoin or clone.
        target: the node it is about.
        began: seconds since 1970.
        at_work: True if its process runs.
        damaged: True if its file is unusable, so that nothing else of it is known.
    """

    identifier: str
    operation: str
    target: str
    actor: str
    began: float
    outcome: str
    at_work: bool
    damaged: bool = False


@dataclasses.dataclass(frozen=True)
class IndicoStatus:
    """One Indico instance.

    Attributes:
        mark: ``*`` when connected and writable.
        waits: True if it is connected to a node that does not answer.
        instance: the name in its answer.
        server_node: the node it talks to, or its address when no node has it.
        built: whether it has begun to serve pages.
        set_up: whether the database holds an Indico.
        failure: why it serves no pages, though it has a storage; None while it is starting.
        scheduler: the program of Indico's scheduler if it runs beside this instance.
        host: name of its host in a cluster of several; None otherwise.
        files_in_archive: uploaded files that are not in the database; None if it is not known.
        files_missing: requests of the last 10 minutes that needed a file that could not be read.
        file_missing: whose the last one of these files is, in words; empty without one.
    """

    name: str
    url: str
    program: Program | None
    mark: Mark
    problem: str
    instance: str | None
    connected: bool | None
    read_only: bool | None
    waits: bool
    server: str | None
    server_node: str | None
    last_tid: int | None
    pid: int | None
    built: bool | None = None
    set_up: bool | None = None
    failure: str | None = None
    scheduler: Program | None = None
    host: str | None = None
    files_in_archive: int | None = None
    files_missing: int = 0
    file_missing: str = ""

    @property
    def schedules(self) -> bool:
        """Return True if the scheduler beside it runs, and is one more client of the storage."""
        return self.scheduler is not None and self.scheduler.state == "RUNNING"

    @property
    def up(self) -> bool:
        return self.mark is not Mark.UNREACHABLE

    @property
    def serves(self) -> bool:
        """Return True if it serves pages, or will in a moment."""
        return self.connected is True and self.set_up is not False and self.failure is None

    @property
    def writable(self) -> bool:
        return self.connected is True and self.read_only is False


@dataclasses.dataclass(frozen=True)
class Snapshot:
    """The judged results of a round of probes.  Immutable, so any thread may hold it.

    Attributes:
        taken_at: when the probes began, seconds since 1970.
        duration: seconds the probes took.
        sentence: the situation in one sentence.
        primary: name of the one node that runs as a writable primary, or as the elected master;
            None when there is none or more than one.
        warnings: the worst first.
        epoch: the highest that any server, state file or record says; None when none does.
        records: what each record of the epoch says; the control host's comes first.
        operations: those that have not ended, the oldest first.
        rivals: nodes of a split brain, the one to fence last; empty without one.
        control_disk: of the cluster's var directory; None when it can't be asked.
        hosts: of a cluster of several; empty if all runs on one.
        files: where new uploaded files go.
        automation: the automatic failover; None without one.
        etcd: its members; None without etcd, or if nothing is known of them.
        backup: the scheduled backups; None without a schedule, or if nothing is known of them.
    """

    cluster: str
    backend: str
    taken_at: float
    duration: float
    state: State
    sentence: str
    primary: str | None
    supervisor_problem: str
    nodes: tuple[NodeStatus, ...]
    indico: tuple[IndicoStatus, ...]
    warnings: tuple[Alert, ...]
    epoch: int | None = None
    records: tuple[EpochWord, ...] = ()
    operations: tuple[OpenOperation, ...] = ()
    rivals: tuple[str, ...] = ()
    control_disk: Disk | None = None
    hosts: tuple[HostStatus, ...] = ()
    files: FileStore = FileStore.BLOBS
    automation: Automation | None = None
    etcd: EtcdStatus | None = None
    backup: BackupStatus | None = None

    @property
    def here(self) -> str | None:
        """Return the name of the host that probed; None without host sections."""
        return next((host.name for host in self.hosts if host.here), None)

    @property
    def away(self) -> tuple[str, ...]:
        """Return the names of the hosts whose agents do not answer."""
        return tuple(host.name for host in self.hosts if not host.up)

    @property
    def replicates(self) -> bool:
        """Return True if any node follows another one, or is assigned to."""
        return any(
            node.assigned_role.follows or node.upstream or node.followers or node.follower_addresses
            for node in self.nodes
        )

    @property
    def facts(self) -> list[tuple[str, tuple[Fact, ...]]]:
        """Return the facts that database servers report, grouped where neighbours agree."""
        return [
            (", ".join(node.name for node in those), said)
            for said, those in itertools.groupby(self.nodes, key=lambda node: node.facts)
            if said
        ]

    @property
    def file_systems(self) -> list[FileSystem]:
        """Return the disks and what lies on each."""
        return file_systems(self.nodes, self.control_disk, self.here)

    def lacks_data(self, node: NodeStatus) -> bool:
        """Return True if a node certainly holds no transaction, and another one may."""
        return node.newest == 0 and any(each.holds_data for each in self.nodes)

    def node(self, name: str) -> NodeStatus:
        """Return the node of that name; raise KeyError if there is none."""
        for node in self.nodes:
            if node.name == name:
                return node
        raise KeyError(name)

    def to_json(self) -> dict[str, Any]:
        """Return the snapshot for ``json.dumps``; TIDS are rendered as hex."""
        return {**dataclasses.asdict(self, dict_factory=_json_object), "code": self.state.exit_code}


def _json_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    return {
        key: tid.render(value) if key in TIDS and value is not None else value
        for key, value in pairs
    }
