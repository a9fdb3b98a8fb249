"""The configuration of a cluster as frozen dataclasses, without I/O.

The current role, upstream and epoch of each node are state; see ``indico_zodbrepl.host.state``.
"""

from __future__ import annotations

import dataclasses
import enum
import ipaddress
import urllib.parse
from collections.abc import Iterator
from pathlib import Path

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


@dataclasses.dataclass(frozen=True)
class Address:
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


@dataclasses.dataclass(frozen=True)
class Position:
    """A line of a file; ``str`` gives ``file:line``."""

    file: Path
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


class Positions:
    """The line numbers of sections and keys in a cluster file.

    ``kind`` is the type of a section (host, node, indico, mail, admin, watch), or None for
    top-level keys; ``name`` is its name, or None for mail, admin and watch.
    """

    def __init__(self) -> None:
        self._lines: dict[tuple[str | None, str | None, str | None], Position] = {}

    def add(
        self, position: Position, kind: str | None, name: str | None, key: str | None = None
    ) -> None:
        """Record a position; the first one of a key is kept."""
        self._lines.setdefault((kind, name, key), position)

    def find(
        self, kind: str | None, name: str | None = None, key: str | None = None
    ) -> Position | None:
        """Return the line of a key, or of its section if the key has its default."""
        for exact in ((kind, name, key), (kind, name, None), (kind, None, key)):
            if exact in self._lines:
                return self._lines[exact]
        return None

    def section(self, name: str) -> Position | None:
        """Return the line where a section of this name begins, of any kind."""
        return next(
            (
                position
                for (_kind, other, key), position in self._lines.items()
                if other == name and key is None
            ),
            None,
        )


@dataclasses.dataclass(frozen=True)
class Endpoint:
    """An address that a cluster listens on, and the key of cluster.conf that sets it."""

    kind: str
    name: str | None
    key: str
    address: Address

    def __str__(self) -> str:
        return f"{self.key} of {self.kind}" + (f" {self.name}" if self.name else "")


class LinkEncryption(enum.StrEnum):
    """The encryption of the connections between the programs of several hosts."""

    NONE = "none"
    TLS = "tls"


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
class Etcd:
    """The etcd cluster that decides which node leads: members of our own, or an existing one.

    Attributes:
        client_port, peer_port: of the members that run on each host; None for an existing cluster.
        data_directory: folder of this host's member; None for the one in ``var_directory``.
        endpoints: URLs of an existing cluster; empty for members of our own.
        ca_file: certificate of the authority that signed those of the endpoints.
        certificate_file, key_file: client certificate; both or none.
        user, password_file: login; both or none.
        generation: raised when our members are founded again without their data.
    """

    client_port: int | None = None
    peer_port: int | None = None
    data_directory: Path | None = None
    endpoints: tuple[str, ...] = ()
    ca_file: Path | None = None
    certificate_file: Path | None = None
    key_file: Path | None = None
    user: str | None = None
    password_file: Path | None = None
    generation: int = 1

    program = "etcd"

    @property
    def is_ours(self) -> bool:
        """Return True if its members are programs of this cluster."""
        return self.client_port is not None

    def endpoints_on(self, host: ClusterHost) -> Iterator[Endpoint]:
        """Yield the addresses of our member on a host; it encrypts by itself, without a tunnel."""
        ports = {"client-port": self.client_port, "peer-port": self.peer_port}
        for key, port in ports.items():
            if port is not None:
                yield Endpoint(self.program, host.name, key, Address(host.address, port))


@dataclasses.dataclass(frozen=True)
class ClusterHost:
    """A machine of a cluster of several hosts.

    Attributes:
        address: IPv4 address at which the other hosts reach it.
        agent_port: TCP port of its agent.
        encryption: of the connections between its programs and those of other hosts.
    """

    name: str
    address: str
    agent_port: int
    encryption: LinkEncryption = LinkEncryption.TLS

    @property
    def inner_address(self) -> str:
        """Return the address on which its programs listen, which is the same on every host.

        With TLS it is a loopback address, made of the last three numbers of ``address``.  On its
        own host it is the program, on every other host the tunnel to it.
        """
        if self.encryption is LinkEncryption.NONE:
            return self.address
        return f"127.{ipaddress.IPv4Address(self.address).exploded.partition('.')[2]}"

    @property
    def automation(self) -> str:
        """Return the name of its program that elects the leader."""
        return f"automation-{self.name}"

    @property
    def agent_address(self) -> Address:
        return Address(self.address, self.agent_port)

    @property
    def tunnel(self) -> str:
        """Return the name of the program that encrypts its connections to and from others."""
        return f"tunnel-{self.name}"


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


SCHEDULER = "scheduler"
"""The name of the program of Indico's scheduler in a cluster on one host, which has one."""


@dataclasses.dataclass(frozen=True)
class IndicoInstance:
    """A gunicorn with Indico, at ``http://host:port/indico``.

    Attributes:
        workers: number of its processes that answer requests.
        scheduler: True if Indico's scheduler runs beside it.
        path: of Indico's URL; begins with / and has none at its end.
        on: as of a node.
    """

    name: str
    host: str
    port: int
    scheduler: bool = False
    path: str = "/indico"
    workers: int = 1
    on: str | None = None

    @property
    def address(self) -> Address:
        return Address(self.host, self.port)

    @property
    def base_url(self) -> str:
        return f"http://{self.address}{self.path}"

    @property
    def health_url(self) -> str:
        return f"http://{self.address}/zodbrepl/health"

    @property
    def program(self) -> str:
        """Return the name of its program under supervisor."""
        return f"indico-{self.name}"

    @property
    def programs(self) -> tuple[str, ...]:
        """Return its program and the scheduler that runs beside it, if any."""
        return (self.program, self.scheduler_program) if self.scheduler else (self.program,)

    @property
    def scheduler_program(self) -> str:
        """Return the name of the program of a scheduler that runs beside it.

        Several hosts have one each, which needs a name of its own in the whole cluster.
        """
        return SCHEDULER if self.on is None else f"{SCHEDULER}-{self.name}"

    @property
    def of_scheduler(self) -> IndicoInstance:
        """Return the instance as its scheduler sees it, with its own settings, logs and folders."""
        return dataclasses.replace(self, name=f"{self.name}/scheduler")


@dataclasses.dataclass(frozen=True)
class Admin:
    """The admin page.

    Attributes:
        read_only: True if it never begins operations.
        public_url: external URL, if it differs from the listening address; ends in /.
        trusted_proxy: address whose X-Forwarded-For and X-Forwarded-Proto are trusted.
        on: as of a node.
    """

    host: str
    port: int
    read_only: bool = False
    public_url: str | None = None
    trusted_proxy: str | None = None
    on: str | None = None

    program = "admin"

    @property
    def address(self) -> Address:
        return Address(self.host, self.port)

    @property
    def base_url(self) -> str:
        return self.public_url or f"http://{self.address}/"

    @property
    def path_prefix(self) -> str:
        """Return the prefix of all page paths, such as ``/zodb``, or ''."""
        return urllib.parse.urlsplit(self.public_url or "").path.rstrip("/")

    def is_public_host(self, host: str, scheme: str) -> bool:
        """Return True if a Host header and scheme match ``public_url``."""
        standard = {"http": ":80", "https": ":443"}[scheme]
        own = urllib.parse.urlsplit(self.public_url or "")
        return (own.scheme, own.netloc) == (scheme, host.lower().removesuffix(standard))


class Encryption(enum.StrEnum):
    """The encryption of an SMTP connection."""

    NONE = "none"
    STARTTLS = "starttls"
    TLS = "tls"


@dataclasses.dataclass(frozen=True)
class Mail:
    """The mail of Indico and its scheduler.

    Attributes:
        user, password_file: login at the server; both or none.
        support: address that users write to.
        no_reply: sender of mails that nobody should answer.
    """

    server: Address
    support: str
    no_reply: str
    starttls: bool = False
    user: str | None = None
    password_file: Path | None = None


@dataclasses.dataclass(frozen=True)
class Watch:
    """The monitor.

    Attributes:
        lag_limit: seconds of lag above which an event is raised.
        failover_after: seconds after which a lost primary counts as gone.
        webhook: URL that events are posted to.
        webhook_secret_file: holds the secret that authenticates the requests.
        mail_server: SMTP server; requires ``mail_from`` and ``mail_to``.
        mail_user, mail_password_file: login there; both or none.
        on: as of a node.
    """

    host: str
    port: int
    lag_limit: float = 10.0
    failover_after: float = 10.0
    webhook: str | None = None
    webhook_secret_file: Path | None = None
    mail_server: Address | None = None
    mail_from: str | None = None
    mail_to: tuple[str, ...] = ()
    mail_encryption: Encryption = Encryption.NONE
    mail_user: str | None = None
    mail_password_file: Path | None = None
    on: str | None = None

    program = "watch"

    @property
    def address(self) -> Address:
        return Address(self.host, self.port)

    @property
    def metrics_url(self) -> str:
        return f"http://{self.address}/metrics"


@dataclasses.dataclass(frozen=True)
class Cluster:
    """A whole cluster.

    Attributes:
        var_directory: generated files, logs, secrets, Indico's archive and cache.
        backup_directory: folder for backups, or None.
        backup_host: host that has it; None: each host has its own.
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
