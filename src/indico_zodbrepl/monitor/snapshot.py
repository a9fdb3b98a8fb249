"""The state of a cluster at one moment: what pages, commands and monitoring show."""

from __future__ import annotations

import dataclasses
import enum
import itertools
from collections.abc import Iterable
from typing import Any

from indico_zodbrepl.cluster.model import FileStore, Role
from indico_zodbrepl.host.data_end import DataEnd
from indico_zodbrepl.host.disks import Disk, Room
from indico_zodbrepl.host.history import Condition
from indico_zodbrepl.probing import tid
from indico_zodbrepl.probing.answers import (
    Acknowledging,
    Alert,
    Fact,
    Hold,
    RefusedFollower,
    ServerRole,
    WriteFailure,
)
from indico_zodbrepl.probing.comparison import Membership

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


class Mark(enum.StrEnum):
    """Actual against assigned state, shown in front of a role."""

    AS_ASSIGNED = "*"
    DIFFERS = "!"
    UNREACHABLE = "?"


@dataclasses.dataclass(frozen=True)
class Program:
    """State of a supervised program; ``pid`` is 0 when it does not run.

    ``exit_status``: how its last run ended; None when supervisor does not say.
    """

    name: str
    state: str
    pid: int
    description: str
    exit_status: int | None = None


@dataclasses.dataclass(frozen=True)
class StartRefusal:
    """The reason of a refused start: NOTICE, DETAIL, HINT."""

    notice: str
    detail: str
    hint: str


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
class NodeStatus:
    """One node, assigned against actual.

    Attributes:
        address, replication_address: None for a node without them.
        managed: True if its server is managed here; otherwise it has no program here.
        mark: reality against intent.
        problem: why there is no answer; empty if there is one.
        assigned_*: from the node's state file; from cluster.conf, without an epoch, when that file
            is unusable.
        actual_role: what the running server is; None when unreachable or not one of ours.
        upstream: name of the node followed, or its address when no node has it.
        epoch: epoch the running server was started with; None, as ``assigned_epoch``, where the
            backend has no epochs.
        last_tid: tid of its last transaction; 0 when it holds none.
        followers: names of the nodes seen to follow it.
        follower_addresses: the peers' addresses as the server sees them.
        lag_seconds: how long before the probe the oldest transaction that it lacks was committed,
            at most; 0.0 when it lacks none; None when unknown.
        lag_transactions: transactions the primary holds after its last one; None when unknown.
        lag_exact: False when it is at least ``lag_transactions``.
        held: why its server lets no commit begin; None when it does.
        min_followers: followers without which its server takes no writes.
        refused: followers that its server refused.
        membership: its last transaction in the history of its primary; None when unknown.
        condition: according to its history file; None when there is none or it is unusable.
        condition_detail: the same for people; why it is unusable.
        refusal: why it refused to start; None when it did not.
        facts: the engine's own figures.
        disk: of its data directory; None when it can't be asked.
        write_failure: None if its server wrote its last transaction, or does not tell.
        missing_blob_folder: its folder of uploaded files if that is gone under its server.
        blobs_missing: blob files that its server should have and does not.
        blob_missing: the path of one of them, or empty.
        compared_in: the epoch in which its history was last compared, if it only followed since.
        data_end: the end of its data file if it does not answer; None if unknown.
        superseded_by: the primary of a later epoch than the one in which this node is, or would
            become, the primary; None if there is none.
        host: name of its host in a cluster of several; None otherwise.
        acknowledging: how followers acknowledge its commits; None for one that accepts none.
        lease_left: seconds until its lease ends, negative afterwards; None if it needs none.
    """

    name: str
    address: str | None
    replication_address: str | None
    program: Program | None
    mark: Mark
    problem: str
    assigned_role: Role
    assigned_upstream: str | None
    assigned_epoch: int | None
    actual_role: ServerRole | None
    upstream: str | None
    connected: bool | None
    epoch: int | None
    pid: int | None
    read_only: bool | None
    size: int | None
    clients: int | None
    last_tid: int | None
    last_time: float | None
    followers: tuple[str, ...]
    follower_addresses: tuple[str, ...]
    lag_seconds: float | None
    lag_transactions: int | None
    lag_exact: bool
    held: Hold | None = None
    min_followers: int = 0
    refused: tuple[RefusedFollower, ...] = ()
    membership: Membership | None = None
    condition: Condition | None = None
    condition_detail: str = ""
    refusal: StartRefusal | None = None
    superseded_by: str | None = None
    facts: tuple[Fact, ...] = ()
    managed: bool = True
    disk: Disk | None = None
    write_failure: WriteFailure | None = None
    missing_blob_folder: str | None = None
    blobs_missing: int = 0
    blob_missing: str = ""
    compared_in: int | None = None
    data_end: DataEnd | None = None
    host: str | None = None
    acknowledging: Acknowledging | None = None
    lease_left: float | None = None

    @property
    def reachable(self) -> bool:
        return self.mark is not Mark.UNREACHABLE

    @property
    def writable_primary(self) -> bool:
        return (
            self.actual_role in (ServerRole.PRIMARY, ServerRole.STANDALONE, ServerRole.MASTER)
            and self.read_only is False
            and self.held in (None, Hold.OPERATOR)
        )

    @property
    def leads(self) -> bool | None:
        """Return True if a master is elected; None for other roles, or if unknown."""
        if self.actual_role is not ServerRole.MASTER or self.read_only is None:
            return None
        return not self.read_only

    @property
    def differs_in_role(self) -> bool:
        """Return True if its server's role is not the assigned one; standalone equals primary."""
        alone = self.actual_role is ServerRole.STANDALONE and self.mark is Mark.AS_ASSIGNED
        return (
            self.actual_role is not None
            and not alone
            and self.actual_role.value != self.assigned_role.value
        )

    @property
    def keeps_transactions(self) -> bool:
        """Return True if it stores transactions; admin nodes and other masters do not."""
        return self.assigned_role is not Role.ADMIN and self.leads is not False

    @property
    def has_program(self) -> bool:
        """Return True if its server is managed here."""
        return self.managed and self.address is not None

    @property
    def out_of_line(self) -> bool:
        """Return True if its history is known to have diverged from the cluster's."""
        absent = self.data_end is not None and self.data_end.in_primary is False
        return (
            absent
            or self.condition not in (None, Condition.OK)
            or self.membership in (Membership.ABSENT, Membership.DIFFERENT)
        )

    @property
    def is_damaged(self) -> bool:
        """Return True if it does not run and the end of its data file can't be read."""
        return self.data_end is not None and bool(self.data_end.damage)

    @property
    def newest(self) -> int | None:
        """Return the last transaction of its server, or of its data file; None if unknown."""
        if self.last_tid is not None or self.data_end is None:
            return self.last_tid
        return self.data_end.last_tid

    @property
    def holds_data(self) -> bool:
        """Return True if it holds a transaction, or may hold some, as its file is damaged."""
        return bool(self.newest) or self.is_damaged

    @property
    def is_full(self) -> bool:
        """Return True if its writes fail, or its disk has no room for more."""
        full = self.disk is not None and self.disk.room is Room.FULL
        return full or self.write_failure is not None

    @property
    def shown_mark(self) -> Mark:
        """Return ``mark``, or DIFFERS if the node has issues."""
        return Mark.DIFFERS if self.oddities and self.mark is Mark.AS_ASSIGNED else self.mark

    @property
    def oddities(self) -> list[str]:
        """Return issues with its history, its start or its writes, in one or two words each."""
        found = []
        if self.out_of_line:
            known = self.condition not in (None, Condition.OK)
            found.append(f"{self.condition if known else Condition.DIVERGED}")
        if self.refusal and not self.reachable:
            found.append("start refused")
        if self.held:
            found.append("writes held" if self.held is Hold.OPERATOR else "writes refused")
        if self.missing_blob_folder is not None:
            found.append("files gone")
        if self.write_failure is not None:
            found.append("writes fail")
        elif self.disk is not None and self.disk.room is not Room.ENOUGH:
            found.append(f"disk {self.disk.room}")
        return found


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
class FileSystem:
    """A disk and the data on it.

    Attributes:
        nodes: those whose data directories are on it.
        has_control: True if the var directory is on it.
    """

    disk: Disk
    nodes: tuple[NodeStatus, ...]
    has_control: bool

    @property
    def names(self) -> list[str]:
        """Return the names of the nodes, and of the control host, on it."""
        return [*(node.name for node in self.nodes), *(["var"] if self.has_control else [])]


def file_systems(
    nodes: Iterable[NodeStatus], control: Disk | None, here: str | None = None
) -> list[FileSystem]:
    """Return the disks of nodes and of this host's var directory, each one once.

    Args:
        here: name of this host in a cluster of several, whose hosts number their devices alike.
    """
    nodes = list(nodes)
    disks = [(node.host, node.disk) for node in nodes]
    least: dict[tuple[str | None, int], Disk] = {}
    for host, disk in (*disks, (here, control)):
        if disk is not None:
            known = least.setdefault((host, disk.device), disk)
            least[host, disk.device] = min(known, disk, key=lambda each: each.free)
    return [
        FileSystem(
            disk,
            tuple(
                node
                for node in nodes
                if node.disk and (node.host, node.disk.device) == (host, device)
            ),
            control is not None and (here, control.device) == (host, device),
        )
        for (host, device), disk in least.items()
    ]


@dataclasses.dataclass(frozen=True)
class HostStatus:
    """A host of a cluster of several.

    Attributes:
        here: True for the host that probed.
        problem: why its agent does not answer; empty if it does.
        release: of its agent; None if it does not answer.
        same_file: True if its cluster file is the same as this host's.
        clock_offset: seconds that its clock is ahead of this host's.
        supervisor_problem: why its supervisord does not answer; empty if it does.
        certificate_until: when its certificate expires, seconds since 1970; None if that is not
            known.
        archive: mark of Indico's folder of uploaded files; hosts that share it have the same one.
            Empty without an instance, and if it is unknown.
        archive_problem: why files can't be kept in that folder; empty if they can.
    """

    name: str
    address: str
    here: bool
    problem: str
    release: str | None = None
    same_file: bool = True
    clock_offset: float = 0.0
    supervisor_problem: str = ""
    certificate_until: float | None = None
    archive: str = ""
    archive_problem: str = ""

    @property
    def up(self) -> bool:
        """Return True if its agent answers."""
        return not self.problem


@dataclasses.dataclass(frozen=True)
class Candidate:
    """A node as its host has reported it in etcd.

    Attributes:
        problem: why it could not become the primary; empty if it could, or if it is the primary.
        at: when it was reported: ISO 8601 in UTC, by the clock of its host.
        doubt: why its data may lack commits that it has confirmed; empty if they hold all.
    """

    node: str
    problem: str
    at: str
    doubt: str = ""


@dataclasses.dataclass(frozen=True)
class Pause:
    """Somebody paused the automatic failover; ``since`` is ISO 8601 in UTC."""

    by: str
    reason: str
    since: str


@dataclasses.dataclass(frozen=True)
class Automation:
    """The automatic failover, as etcd has it.

    Attributes:
        problem: why etcd's keys are unknown; empty if they are known.
        hint: what ends the problem; empty if etcd does not answer.
        lease: seconds without a renewal after which another node may take over.
        leader: the node that holds the role of the primary; None if nobody ever held it.
        released: True if it gave the role up, so that another node takes over.
        leader_epoch: the epoch of its role; None without a leader.
        since: when it took the role: ISO 8601 in UTC.
        why: reason of the take-over.
        paused: None if nodes may take over.
        operation: who runs an operation that holds the lock in etcd; empty if nobody does.
        alone: True if the leader may have acknowledged commits that no other node has.
        candidates: the nodes as their hosts have reported them.
    """

    lease: float
    problem: str = ""
    hint: str = ""
    leader: str | None = None
    released: bool = False
    leader_epoch: int | None = None
    since: str = ""
    why: str = ""
    paused: Pause | None = None
    operation: str = ""
    alone: bool = False
    candidates: tuple[Candidate, ...] = ()


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
