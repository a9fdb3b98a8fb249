"""The state of hosts, their disks and their automation, as pages and commands show it."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Iterable

from indico_zodbrepl.host.disks import Disk
from indico_zodbrepl.monitor.node_status import NodeStatus, Program


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
        automation: its program that elects the leader; None if it has none, or if that is unknown.
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
    automation: Program | None = None

    @property
    def up(self) -> bool:
        """Return True if its agent answers."""
        return not self.problem


@dataclasses.dataclass(frozen=True)
class EtcdMember:
    """A member of etcd.

    Attributes:
        url: for clients.
        host: the host that it runs on; None for a member that the cluster file does not place.
        problem: why it does not serve; empty if it does.
        leads: True if it is etcd's leader.
        votes: True if it counts for etcd's majority; True as well if it does not answer.
    """

    url: str
    host: str | None
    problem: str
    leads: bool
    votes: bool


@dataclasses.dataclass(frozen=True)
class EtcdStatus:
    """The members of etcd, and their majority.

    Attributes:
        needed: number of voting members that are a majority.
        majority: True if that many serve.
    """

    members: tuple[EtcdMember, ...]
    needed: int
    majority: bool

    def on(self, host: str) -> EtcdMember | None:
        """Return the member of a host; None if there is none."""
        return next((each for each in self.members if each.host == host), None)


@dataclasses.dataclass(frozen=True)
class Candidate:
    """A node as its host has reported it in etcd.

    Attributes:
        problem: why it could not become the primary; empty if it could, or if it is the primary.
        at: when it was reported: ISO 8601 in UTC, by the clock of its host.
        doubt: why its data prove nothing about acknowledged commits; empty if they do.
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

    @property
    def began(self) -> float | None:
        """Return ``since`` as seconds since 1970; None if it is no time."""
        try:
            return datetime.datetime.fromisoformat(self.since).timestamp()
        except ValueError:
            return None


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

    @property
    def may_act(self) -> bool:
        """Return True if its keys are known, and nobody has paused it."""
        return not self.problem and self.paused is None


@dataclasses.dataclass(frozen=True)
class BackupStatus:
    """The scheduled backups, as the journal has them.

    Attributes:
        time: when one starts each day, such as ``03:00 UTC``.
        due: when the next one starts, seconds since 1970.
        last: when the last good one ended, seconds since 1970; None without one.
        failed: when an attempt after it failed; None if none did.
        error: why, in one line; empty otherwise.
        problem: why the journal can't be read; empty if it can.
    """

    time: str
    due: float
    last: float | None
    failed: float | None
    error: str
    problem: str
