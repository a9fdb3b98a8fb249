"""The permitted roles, ports and numbers of nodes for each backend."""

from __future__ import annotations

import dataclasses

from indico_zodbrepl.cluster.model import Role
from indico_zodbrepl.cluster.settings import (
    MariaDBSettings,
    NeoSettings,
    PostgreSQLSettings,
    Settings,
    SQLiteSettings,
)

STORAGE_PORT = "storage-port"
REPLICATION_PORT = "replication-port"


@dataclasses.dataclass(frozen=True)
class Shape:
    """The permitted shape of the clusters of one backend.

    Attributes:
        roles: permitted roles.
        ports: the keys of each node's ports; no others are allowed.
        most_nodes, most_indico: maximum numbers, or None.
        section: name of the engine's section, or None.
        defaults: settings without that section; None if the section is required or does not exist.
        may_be_foreign: True if a node can be a server run by somebody else (``managed false``).
        one_process: True if only one process at a time can open the data.
        keeps_blobs: True if files can be in the database.
        most_acknowledgements: secondaries that a commit can wait for; None for any number.
        has_backups: True if `backup` can back it up.
        fails_over: True if another node can take over.
        elects: True if its servers decide themselves which one leads.
    """

    roles: tuple[Role, ...] = (Role.PRIMARY,)
    ports: frozenset[str] = frozenset()
    most_nodes: int | None = None
    most_indico: int | None = None
    section: str | None = None
    defaults: Settings | None = None
    may_be_foreign: bool = False
    one_process: bool = False
    keeps_blobs: bool = True
    most_acknowledgements: int | None = 0
    has_backups: bool = False
    fails_over: bool = False
    elects: bool = False

    @property
    def one_host(self) -> bool:
        """Return True if clients open the data as a file, so that all must be on one host."""
        return STORAGE_PORT not in self.ports


_SERVER = frozenset({STORAGE_PORT})
_PAIR = (Role.PRIMARY, Role.SECONDARY)

SHAPES: dict[str, Shape] = {
    "zrs": Shape(
        (*_PAIR, Role.RELAY),
        frozenset({STORAGE_PORT, REPLICATION_PORT}),
        most_acknowledgements=None,
        has_backups=True,
        fails_over=True,
    ),
    "zeo": Shape(ports=_SERVER, most_nodes=1, has_backups=True),
    "filestorage": Shape(most_nodes=1, most_indico=1, one_process=True, has_backups=True),
    "neo": Shape(
        (Role.MASTER, Role.STORAGE, Role.ADMIN),
        _SERVER,
        section="neo",
        defaults=NeoSettings(),
        keeps_blobs=False,
        fails_over=True,
        elects=True,
    ),
    "relstorage-sqlite": Shape(
        most_nodes=1, section="sqlite", defaults=SQLiteSettings(), has_backups=True
    ),
    "relstorage-postgresql": Shape(
        _PAIR,
        _SERVER,
        section="postgresql",
        defaults=PostgreSQLSettings(),
        may_be_foreign=True,
        most_acknowledgements=None,
        fails_over=True,
    ),
    "relstorage-mariadb": Shape(
        _PAIR,
        _SERVER,
        section="mariadb",
        defaults=MariaDBSettings(),
        may_be_foreign=True,
        most_acknowledgements=1,
        fails_over=True,
    ),
    "relstorage-oracle": Shape(ports=_SERVER, most_nodes=1, section="oracle", may_be_foreign=True),
}
