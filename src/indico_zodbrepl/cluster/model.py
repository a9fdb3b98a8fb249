"""What a cluster is, as cluster.conf says it: frozen dataclasses, no I/O.

What the cluster does *now* (role, upstream, epoch of each node) is state and
lives in each node's state file; see ``indico_zodbrepl.node.state``.
"""

from __future__ import annotations

import dataclasses
import enum
import urllib.parse
from collections.abc import Iterator
from pathlib import Path

from .settings import Settings


class Role(enum.StrEnum):
    """Role of a node.

    A relay is a secondary that others follow.  Master, storage and admin are NEO's: its nodes
    agree among themselves on who leads and who holds what.
    """

    PRIMARY = "primary"
    SECONDARY = "secondary"
    RELAY = "relay"
    MASTER = "master"
    STORAGE = "storage"
    ADMIN = "admin"

    @property
    def has_followers(self) -> bool:
        """Whether nodes can follow a node of this role."""
        return self in (Role.PRIMARY, Role.RELAY)

    @property
    def follows(self) -> bool:
        """Whether a node of this role has an upstream."""
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
    """Where the sections and keys of a cluster file stand.

    ``kind`` is the section's type (node, indico, admin, watch), None for the keys outside
    of sections; ``name`` is the section's name, None for admin and watch.
    """

    def __init__(self) -> None:
        self._lines: dict[tuple[str | None, str | None, str | None], Position] = {}

    def add(self, position: Position, kind: str | None, name: str | None,
            key: str | None = None) -> None:
        """Keep a position; the first one of a key stays."""
        self._lines.setdefault((kind, name, key), position)

    def find(self, kind: str | None, name: str | None = None,
             key: str | None = None) -> Position | None:
        """Where a key stands; where its section starts when it was left to its default."""
        return (self._lines.get((kind, name, key)) or self._lines.get((kind, name, None)))

    def section(self, name: str) -> Position | None:
        """Where the section of this name starts, of whatever kind."""
        return next((position for (_kind, other, key), position in self._lines.items()
                     if other == name and key is None), None)


@dataclasses.dataclass(frozen=True)
class Endpoint:
    """Something a cluster listens on, and the key of cluster.conf that says so."""

    kind: str
    name: str | None
    key: str
    address: Address

    def __str__(self) -> str:
        return f"{self.key} of {self.kind}" + (f" {self.name}" if self.name else "")


@dataclasses.dataclass(frozen=True)
class Node:
    """A storage server: where clients and followers reach it, where its data is.

    Attributes:
        storage_port: None when clients open the data themselves; then there is no server.
        replication_port: None when the engine has none of its own.
        role, upstream: the assignment the cluster starts with.
        managed: whether we run its server; else it is somebody else's, already running.
    """

    name: str
    host: str
    storage_port: int | None
    replication_port: int | None
    data_directory: Path
    role: Role
    upstream: str | None = None
    managed: bool = True

    @property
    def storage_address(self) -> Address:
        """Raises ValueError for a node without a server."""
        if self.storage_port is None:
            raise ValueError(f"node {self.name} has no storage-port")
        return Address(self.host, self.storage_port)

    @property
    def replication_address(self) -> Address:
        """Raises ValueError for a node without a replication port."""
        if self.replication_port is None:
            raise ValueError(f"node {self.name} has no replication-port")
        return Address(self.host, self.replication_port)

    @property
    def link_address(self) -> Address:
        """Where followers connect: the replication port, or the only port that there is."""
        return self.storage_address if self.replication_port is None else self.replication_address

    @property
    def has_program(self) -> bool:
        """Whether there is a server that we run."""
        return self.managed and self.storage_port is not None

    @property
    def program(self) -> str:
        """Name of its program under supervisor."""
        return f"node-{self.name}"


@dataclasses.dataclass(frozen=True)
class Forced:
    """Who made a node the primary although nobody could vouch for it.

    Attributes:
        actor: login name.
        at: when, ISO 8601 in UTC.
    """

    actor: str
    reason: str
    at: str


@dataclasses.dataclass(frozen=True)
class NodeState:
    """What a node has been told to be; ``epoch`` counts the cluster's promotions from 1.

    ``forced`` is set while it is a primary that an operator forced into this epoch.
    """

    cluster: str
    node: str
    role: Role
    upstream: str | None
    epoch: int
    forced: Forced | None = None


@dataclasses.dataclass(frozen=True)
class IndicoInstance:
    """One gunicorn process with Indico, at ``http://host:port/indico``."""

    name: str
    host: str
    port: int

    @property
    def address(self) -> Address:
        return Address(self.host, self.port)

    @property
    def base_url(self) -> str:
        return f"http://{self.address}/indico"

    @property
    def health_url(self) -> str:
        return f"http://{self.address}/zodbrepl/health"

    @property
    def program(self) -> str:
        """Name of its program under supervisor."""
        return f"indico-{self.name}"


@dataclasses.dataclass(frozen=True)
class Admin:
    """The admin page.

    Attributes:
        read_only: whether it begins no operations, whoever asks.
        public_url: where people reach it, when that is not the address it listens on; ends in /.
        trusted_proxy: address whose X-Forwarded-For and X-Forwarded-Proto count.
    """

    host: str
    port: int
    read_only: bool = False
    public_url: str | None = None
    trusted_proxy: str | None = None

    program = "admin"

    @property
    def address(self) -> Address:
        return Address(self.host, self.port)

    @property
    def base_url(self) -> str:
        return self.public_url or f"http://{self.address}/"

    @property
    def path_prefix(self) -> str:
        """What the paths of all pages begin with, such as ``/zodb``; empty for nothing."""
        return urllib.parse.urlsplit(self.public_url or "").path.rstrip("/")

    def is_public_host(self, host: str, scheme: str) -> bool:
        """Whether a Host header is that of ``public_url``, and this its scheme."""
        standard = {"http": ":80", "https": ":443"}[scheme]
        own = urllib.parse.urlsplit(self.public_url or "")
        return (own.scheme, own.netloc) == (scheme, host.lower().removesuffix(standard))


class Encryption(enum.StrEnum):
    """How an SMTP server is talked to."""

    NONE = "none"
    STARTTLS = "starttls"
    TLS = "tls"


@dataclasses.dataclass(frozen=True)
class Watch:
    """The program that watches, remembers, tells and counts.

    Attributes:
        lag_limit: seconds of lag above which an event says so.
        failover_after: seconds after which a lost primary counts as gone for good.
        webhook: URL that events are posted to.
        webhook_secret_file: holds what the requests prove themselves with.
        mail_server: SMTP server; with it come ``mail_from`` and ``mail_to``.
        mail_user, mail_password_file: whom to log in as there; both or none.
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
        backup_directory: where backups are kept; None when that is not said.
        site_conf: an existing site's own indico.conf, which the instances' ones execute.
        reconnect_delay: seconds a secondary waits before it tries its upstream again.
        keep_alive_delay: seconds between keep-alive messages on a replication link.
        min_followers: connected followers without which the primary takes no writes.
        settings: the engine's own; None when it has none.
        watch: None when nothing watches the cluster.
        source: the file this was read from.
        positions: where in ``source`` each section and key stands.
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
    min_followers: int = 0
    watch: Watch | None = None
    settings: Settings | None = None
    positions: Positions = dataclasses.field(
        default_factory=Positions, compare=False, repr=False)

    def node(self, name: str) -> Node:
        """The node of that name; KeyError when there is none."""
        for node in self.nodes:
            if node.name == name:
                return node
        raise KeyError(name)

    def program_names(self) -> list[str]:
        """Names of the supervised programs, in the order in which they start."""
        return [*(node.program for node in self.nodes if node.has_program),
                *(instance.program for instance in self.indico), self.admin.program,
                *([self.watch.program] if self.watch else [])]

    def endpoints(self) -> Iterator[Endpoint]:
        """Everything the cluster may listen on, in the order of cluster.conf's kinds."""
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

    def where(self, kind: str | None, name: str | None = None, key: str | None = None) -> Position:
        """The line of ``source`` that says this; line 1 when nothing there does."""
        return self.positions.find(kind, name, key) or Position(self.source, 1)
