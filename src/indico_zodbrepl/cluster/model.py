"""The configuration of a cluster as frozen dataclasses, without I/O.

The current role, upstream and epoch of each node are state; see ``indico_zodbrepl.host.state``.
"""

from __future__ import annotations

import dataclasses
import datetime
import enum
from collections.abc import Iterator
from pathlib import Path

from indico_zodbrepl.cluster.hosts import ClusterHost, Etcd, LinkEncryption
from indico_zodbrepl.cluster.places import Address, Endpoint, Position, Positions
from indico_zodbrepl.cluster.programs import Admin, IndicoInstance, Mail, Watch
from indico_zodbrepl.cluster.settings import Settings


class Role(enum.StrEnum):
    """The role of a node.

    A relay is a secondary that others follow.  Master, storage and admin are NEO's roles: its nodes
    elect a leader and distribute the data themselves.
    """

    PRIMARY = "primary"
    SECONDARY = "secondary"
    RELAY = "relay"
    MASTER = "master"
    STORAGE = "storage"
    ADMIN = "admin"

    @property
    def has_followers(self) -> bool:
        """Return True if nodes can follow a node of this role."""
        return self in (Role.PRIMARY, Role.RELAY)

    @property
    def follows(self) -> bool:
        """Return True if a node of this role has an upstream."""
        return self in (Role.SECONDARY, Role.RELAY)


class FileStore(enum.StrEnum):
    """Where new uploaded files go: into the database, or into a folder."""

    BLOBS = "blobs"
    ARCHIVE = "archive"


class SyncLevel(enum.StrEnum):
    """What a secondary must have done with a transaction before it counts as acknowledged."""

    RECEIVE = "receive"
    WRITE = "write"
    FSYNC = "fsync"


class WhenAlone(enum.StrEnum):
    """What happens to commits while too few secondaries can acknowledge them."""

    REFUSE = "refuse"
    DEGRADE = "degrade"


@dataclasses.dataclass(frozen=True)
class Synchronous:
    """Acknowledged commits.

    Attributes:
        count: secondaries that must have a transaction before its commit is acknowledged; with 0
            replication is asynchronous.
        level: what they must have done with it.
        timeout: seconds that a commit waits for them.
        alone: what happens after that.
    """

    count: int = 0
    level: SyncLevel = SyncLevel.FSYNC
    timeout: float = 10.0
    alone: WhenAlone = WhenAlone.REFUSE


@dataclasses.dataclass(frozen=True)
class Node:
    """A storage server: its addresses, its data folder and its initial role.

    Attributes:
        host: name or address on which it listens; with several hosts their inner address.
        storage_port: None if clients open the data themselves, without a server.
        replication_port: None if the engine has no separate one.
        role, upstream: the assignment that the cluster starts with.
        managed: False if the server is run by somebody else.
        forwards: True for a relay that forwards what its followers acknowledge.
        on: name of its host in a cluster of several hosts; None without host sections.
    """

    name: str
    host: str
    storage_port: int | None
    replication_port: int | None
    data_directory: Path
    role: Role
    upstream: str | None = None
    managed: bool = True
    on: str | None = None
    forwards: bool = False

    @property
    def storage_address(self) -> Address:
        """Return the clients' address; raise ValueError for a node without a server."""
        if self.storage_port is None:
            raise ValueError(f"node {self.name} has no storage-port")
        return Address(self.host, self.storage_port)

    @property
    def replication_address(self) -> Address:
        """Return it; raise ValueError for a node without a replication port."""
        if self.replication_port is None:
            raise ValueError(f"node {self.name} has no replication-port")
        return Address(self.host, self.replication_port)

    @property
    def link_address(self) -> Address:
        """Return the address that followers connect to."""
        return self.storage_address if self.replication_port is None else self.replication_address

    @property
    def has_program(self) -> bool:
        """Return True if we run its server."""
        return self.managed and self.storage_port is not None

    @property
    def program(self) -> str:
        """Return the name of its program under supervisor."""
        return f"node-{self.name}"


@dataclasses.dataclass(frozen=True)
class Forced:
    """The operator who forced a node to be the primary without a source to confirm it.

    Attributes:
        actor: login name.
        at: ISO 8601 in UTC.
    """

    actor: str
    reason: str
    at: str


@dataclasses.dataclass(frozen=True)
class NodeState:
    """The assigned state of a node; ``epoch`` counts the cluster's promotions from 1.

    ``forced`` is set while the node is a primary that an operator forced in this epoch.
    """

    cluster: str
    node: str
    role: Role
    upstream: str | None
    epoch: int
    forced: Forced | None = None


@dataclasses.dataclass(frozen=True)
class Cluster:
    """A whole cluster.

    Attributes:
        var_directory: generated files, logs, secrets, Indico's archive and cache.
        backup_directory: folder for backups, or None.
        backup_host: host that has it; None: each host has its own.
        backup_time: when the daily backup starts, in UTC; None without a schedule.
        archive_directory: Indico's uploaded files that are not in the database; None for the
            folder in ``var_directory``.
        files: where new uploaded files go.
        public_url: Indico's URL behind a reverse proxy, without / at its end; or None.
        mail: None if Indico sends none.
        site_conf: an existing site's indico.conf, which the instances' files execute.
        reconnect_delay: seconds that a secondary waits before it reconnects to its upstream.
        keep_alive_delay: seconds between keep-alive messages on a replication link.
        scheduler_takeover: seconds without a sign of the host whose scheduler runs, after which the
            scheduler of another host takes over.
        min_followers: connected followers without which the primary refuses writes.
        synchronous: how many secondaries acknowledge a commit, and how.
        automatic: True if the leader key in etcd decides which node leads, and the programs
            ``automation`` replace a lost primary; False if the servers elect a leader.
        lease: seconds after which a leader that gives no sign has lost its role.
        etcd: None if nothing needs it.
        settings: of the engine; None if it has none.
        watch: None without a monitor.
        hosts: the machines of a cluster of several hosts; empty if all its programs run on one.
        here: name of the host that this is; None without host sections or on another machine.
        source: the file this was read from.
        positions: lines of sections and keys in ``source``.
    """

    name: str
    backend: str
    nodes: tuple[Node, ...]
    indico: tuple[IndicoInstance, ...]
    admin: Admin
    var_directory: Path
    reconnect_delay: float
    keep_alive_delay: float
    allow_public_addresses: bool
    source: Path
    site_conf: Path | None = None
    backup_directory: Path | None = None
    backup_host: str | None = None
    backup_time: datetime.time | None = None
    archive_directory: Path | None = None
    files: FileStore = FileStore.BLOBS
    public_url: str | None = None
    mail: Mail | None = None
    scheduler_takeover: float = 120.0
    min_followers: int = 0
    synchronous: Synchronous = Synchronous()
    automatic: bool = False
    lease: float = 3.0
    etcd: Etcd | None = None
    watch: Watch | None = None
    settings: Settings | None = None
    hosts: tuple[ClusterHost, ...] = ()
    here: str | None = None
    positions: Positions = dataclasses.field(default_factory=Positions, compare=False, repr=False)

    def node(self, name: str) -> Node:
        """Return the node of this name; raise KeyError if there is none."""
        for node in self.nodes:
            if node.name == name:
                return node
        raise KeyError(name)

    def host(self, name: str) -> ClusterHost:
        """Return the host section of this name; raise KeyError if there is none."""
        for host in self.hosts:
            if host.name == name:
                return host
        raise KeyError(name)

    def is_here(self, what: Node | IndicoInstance | Admin | Watch) -> bool:
        """Return True if something runs on this host, as everything does without host sections."""
        return not self.hosts or (what.on is not None and what.on == self.here)

    @property
    def encrypted(self) -> bool:
        """Return True if the connections between the hosts are encrypted."""
        return any(host.encryption is LinkEncryption.TLS for host in self.hosts)

    @property
    def local(self) -> Cluster:
        """Return the cluster with the nodes and instances of this host only."""
        if not self.hosts:
            return self
        return dataclasses.replace(
            self,
            nodes=tuple(node for node in self.nodes if self.is_here(node)),
            indico=tuple(instance for instance in self.indico if self.is_here(instance)),
        )

    @property
    def own_backup_directory(self) -> Path | None:
        """Return the folder for backups if this host has it."""
        return self.backup_directory if self.backup_host in (None, self.here) else None

    def program_names(self) -> list[str]:
        """Return the supervised programs of this host in start order."""
        here = self.local
        return [
            *([self.host(self.here).tunnel] if self.encrypted and self.here else []),
            *([Etcd.program] if self.etcd and self.etcd.is_ours and self.here else []),
            *([self.host(self.here).automation] if self.here and self.automates(self.here) else []),
            *(node.program for node in here.nodes if node.has_program),
            *(instance.program for instance in here.indico),
            *(instance.scheduler_program for instance in here.indico if instance.scheduler),
            *([self.admin.program] if self.is_here(self.admin) else []),
            *([self.watch.program] if self.watch and self.is_here(self.watch) else []),
        ]

    def automates(self, host: str) -> bool:
        """Return True if a host takes part in the election of the leader: it has a node."""
        return self.automatic and any(node.on == host and node.managed for node in self.nodes)

    def endpoints(self) -> Iterator[Endpoint]:
        """Return all addresses that the cluster may listen on, on all its hosts."""
        for host in self.hosts:
            yield Endpoint("host", host.name, "agent-port", host.agent_address)
            if self.etcd is not None:
                yield from self.etcd.endpoints_on(host)
        for node in self.nodes:
            if node.storage_port is not None:
                yield Endpoint("node", node.name, "storage-port", node.storage_address)
            if node.replication_port is not None:
                yield Endpoint("node", node.name, "replication-port", node.replication_address)
        for instance in self.indico:
            yield Endpoint("indico", instance.name, "port", instance.address)
        yield Endpoint("admin", None, "port", self.admin.address)
        if self.watch:
            yield Endpoint("watch", None, "port", self.watch.address)

    def own_endpoints(self) -> Iterator[Endpoint]:
        """Return the addresses that the programs of this host may listen on."""
        if not self.hosts:
            yield from self.endpoints()
        elif self.here is not None:
            inner = self.host(self.here).inner_address
            for endpoint in self.endpoints():
                if endpoint.kind == Etcd.program:
                    if endpoint.name == self.here:
                        yield endpoint
                elif endpoint.kind != "host" and endpoint.address.host == inner:
                    yield endpoint

    def where(self, kind: str | None, name: str | None = None, key: str | None = None) -> Position:
        """Return the line of ``source`` that sets a value, or line 1."""
        return self.positions.find(kind, name, key) or Position(self.source, 1)
