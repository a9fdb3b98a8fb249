"""Typed answers of servers and Indico instances to probes; ``reading`` makes them."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping

from indico_zodbrepl import PROTOCOL

FIRST_RELEASE = "0.1.0"
"""The release of a program that does not report one."""


class ServerRole(enum.StrEnum):
    """Role of a running server; standalone is a storage without replication.

    Master, storage and admin are NEO's; the elected master is the one that takes writes.
    """

    PRIMARY = "primary"
    SECONDARY = "secondary"
    RELAY = "relay"
    STANDALONE = "standalone"
    MASTER = "master"
    STORAGE = "storage"
    ADMIN = "admin"


class Hold(enum.StrEnum):
    """Why a server lets no commit begin.

    operator: requested by an operator; it ends automatically.
    epoch: the cluster is in a later one.
    followers: too few are connected.
    lease: its lease has ended, because it could not be renewed.
    synchronous: too few followers acknowledge commits.
    """

    OPERATOR = "operator"
    EPOCH = "epoch"
    FOLLOWERS = "followers"
    LEASE = "lease"
    SYNCHRONOUS = "synchronous"


class AckState(enum.StrEnum):
    """The state of a primary whose commits followers acknowledge.

    off: commits wait for nobody.
    starting: it has just started, and its followers have not yet confirmed its last transaction.
    waiting: commits wait, because too few followers confirm them.
    synchronous: enough followers confirm them.
    refusing: commits are refused, because too few followers confirmed them in time.
    asking: it would go on without followers, and waits until that is recorded elsewhere.
    alone: commits are acknowledged although too few followers confirm them.
    """

    OFF = "off"
    STARTING = "starting"
    WAITING = "waiting"
    SYNCHRONOUS = "synchronous"
    REFUSING = "refusing"
    ASKING = "asking"
    ALONE = "alone"


@dataclasses.dataclass(frozen=True)
class Acknowledging:
    """Acknowledged commits of a primary.

    Attributes:
        count: followers that must have a transaction before its commit is acknowledged.
        level: what they must have done with it: receive, write or fsync.
        timeout: seconds that commits wait for them.
        alone: what happens after that: refuse or degrade.
        acknowledged: the last acknowledged transaction; None if the engine does not report it.
        in_doubt: transactions on its disk whose commit nobody was told about.
        confirming: the followers that confirm transactions, by name, each with the last one that
            it confirmed: a transaction id, or a position in the log of an engine of its own.
        since: seconds in this state.
        not_counted: the names under which others confirm transactions, each with why that does not
            count.
    """

    state: AckState
    count: int
    level: str
    timeout: float
    alone: str
    acknowledged: int | None = None
    in_doubt: int = 0
    confirming: Mapping[str, str] = dataclasses.field(default_factory=dict)
    since: float = 0.0
    not_counted: Mapping[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class RefusedFollower:
    """A follower that a server refused: its address, last transaction and time.

    Attributes:
        at: time according to the server.
    """

    peer: str
    tid: int
    at: str


@dataclasses.dataclass(frozen=True)
class WriteFailure:
    """Writes of a server that failed on its disk.

    Attributes:
        error: the system's error message.
        since, at: when the first and the last of them failed, seconds since 1970.
        count: how many have failed; no transaction was written in between.
    """

    error: str
    since: int
    at: int
    count: int


@dataclasses.dataclass(frozen=True)
class Replication:
    """A server's identity and its state of replication, as it reports them.

    Attributes:
        epoch: in which it was started or promoted; None if the backend has no epochs.
        upstream: address followed, ``host:port``, which is a node's replication address, or its
            storage address where the engine has one port for both; None for a primary.
        connected: True if the link to the upstream is up; None without upstream.
        followers: addresses from which others follow.
        pid: 0 if unknown.
        size: bytes of the data; None if they could not be counted in time.
        held: why it lets no commit begin; None if it does.
        min_followers: number of followers required for writes.
        refused: followers that it refused because their last transaction is not in its history.
        write_failure: None if its last transaction was written.
        missing_blob_folder: its folder of uploaded files if that is gone under it, else None.
        blobs_missing: blob files that it lacks, as far as it noticed when it sent their
            transactions to followers.
        blob_missing: the path of one of them, or empty.
        release: of this project that the server runs; None for an engine of its own.
        protocol: what the control plane can ask of it; see ``PROTOCOL`` of the package.
        acknowledging: the state of its acknowledged commits; None from a server without them.
        lease_left: seconds until its lease ends, negative afterwards; None if it needs none.
    """

    cluster: str
    node: str
    role: ServerRole
    epoch: int | None
    upstream: str | None
    connected: bool | None
    followers: tuple[str, ...]
    pid: int
    size: int | None
    read_only: bool
    held: Hold | None = None
    min_followers: int = 0
    refused: tuple[RefusedFollower, ...] = ()
    write_failure: WriteFailure | None = None
    missing_blob_folder: str | None = None
    blobs_missing: int = 0
    blob_missing: str = ""
    release: str | None = None
    protocol: int = PROTOCOL
    acknowledging: Acknowledging | None = None
    lease_left: float | None = None


@dataclasses.dataclass(frozen=True)
class Fact:
    """A value that an engine reports, in the engine's own words, for people to read."""

    label: str
    value: str


class Level(enum.StrEnum):
    """The severity of an alert or a problem; a notice leaves a healthy cluster healthy."""

    CRITICAL = "critical"
    WARNING = "warning"
    NOTICE = "notice"


@dataclasses.dataclass(frozen=True)
class Alert:
    """A problem.

    Attributes:
        subject: name of the node or Indico instance it is about; empty for the cluster.
        text: what, in one line.
        detail: the evidence; may be empty.
        hint: what to do, commands in backquotes.
    """

    level: Level
    subject: str
    text: str
    detail: str
    hint: str


@dataclasses.dataclass(frozen=True)
class ServerAnswer:
    """A server's answer; ``replication`` is None if it is not a server of this project.

    Attributes:
        replication: None when it is no server of ours.
        problems: of the engine, in its own words.
        commits: of all its clients since it was started; None if it does not count them.
    """

    last_tid: int
    clients: int
    replication: Replication | None
    facts: tuple[Fact, ...] = ()
    problems: tuple[Alert, ...] = ()
    commits: int | None = None


@dataclasses.dataclass(frozen=True)
class MissingAnswer:
    """The number of a server's transactions after a tid; a lower bound if not exact.

    Attributes:
        first: tid of the oldest of them; None if there is none or it is unknown.
    """

    transactions: int
    exact: bool
    first: int | None = None


@dataclasses.dataclass(frozen=True)
class HistoryAnswer:
    """True if a server holds a transaction; None if unknown, as after a pack.

    Attributes:
        digest: of the transaction's content; None if it is unknown or not held.
    """

    known: bool | None
    digest: str | None


@dataclasses.dataclass(frozen=True)
class Counted:
    """Counts of a process of an Indico instance since it was started.

    Attributes:
        requests: answers, also to requests that failed; without those to health probes.
        unavailable: answers with status 503.
        conflicts: calls of the storage that ended in a conflict.
        latencies: commits by duration: an upper bound in seconds, and the number of commits that
            took at most as long and longer than the bound before; infinite for the last bound.
    """

    requests: int
    unavailable: int
    conflicts: int
    latencies: Mapping[float, int]


@dataclasses.dataclass(frozen=True)
class IndicoAnswer:
    """Answer of an Indico instance to its health probe.

    Attributes:
        epoch: the current one according to its host's record; None if there is none.
        epoch_primary: the primary of that epoch.
        built: True if it has begun to serve pages.
        set_up: True if the database holds an Indico; if not, each page is answered with 503.
        failure: why it serves no pages, though it has a storage; None while it is starting.
        release: of this project that it runs.
        files_in_archive: uploaded files that are not in the database; None if it is not known yet.
        files_missing: requests of the last 10 minutes that needed a file that could not be read.
        file_missing: whose the last one of these files is, in words; empty without one.
        counted: None if its release does not count.
    """

    instance: str
    pid: int
    server: str | None
    connected: bool
    read_only: bool
    last_tid: int | None
    epoch: int | None = None
    epoch_primary: str | None = None
    built: bool = True
    set_up: bool = True
    failure: str | None = None
    release: str = FIRST_RELEASE
    files_in_archive: int | None = None
    files_missing: int = 0
    file_missing: str = ""
    counted: Counted | None = None
