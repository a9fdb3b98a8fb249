"""The state of a node, as pages, commands and monitoring show it."""

from __future__ import annotations

import dataclasses
import enum

from indico_zodbrepl.cluster.model import Role
from indico_zodbrepl.host.data_end import DataEnd
from indico_zodbrepl.host.disks import Disk, Room
from indico_zodbrepl.host.history import Condition
from indico_zodbrepl.probing.answers import (
    Acknowledging,
    Fact,
    Hold,
    RefusedFollower,
    ServerRole,
    WriteFailure,
)
from indico_zodbrepl.probing.comparison import Membership


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
    def lacks_nothing(self) -> bool:
        """Return True if it is known to have every transaction of its primary.

        A lag of 0 s does not imply it: the clock of the host that probes may be behind.
        """
        return self.lag_transactions == 0 and self.lag_exact

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
