"""What a cluster file may say for each backend: roles, ports, how many of what."""

from __future__ import annotations

import dataclasses

from .model import Role
from .settings import (
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
    """What clusters of one backend look like.

    Attributes:
        roles: those that a node can have.
        ports: the keys of the ports that each node has; no others are allowed.
        most_nodes, most_indico: None when there may be any number.
        section: name of the section with the engine's own settings; None when there is none.
        defaults: what counts without that section; None when it has to be there, or there is none.
        may_be_foreign: whether a node can be a server that runs already, ``managed false``.
    """

    roles: tuple[Role, ...] = (Role.PRIMARY,)
    ports: frozenset[str] = frozenset()
    most_nodes: int | None = None
    most_indico: int | None = None
    section: str | None = None
    defaults: Settings | None = None
    may_be_foreign: bool = False


_SERVER = frozenset({STORAGE_PORT})
_PAIR = (Role.PRIMARY, Role.SECONDARY)

SHAPES: dict[str, Shape] = {
    "zrs": Shape((*_PAIR, Role.RELAY), frozenset({STORAGE_PORT, REPLICATION_PORT})),
    "zeo": Shape(ports=_SERVER, most_nodes=1),
    "filestorage": Shape(most_nodes=1, most_indico=1),
    "neo": Shape((Role.MASTER, Role.STORAGE, Role.ADMIN), _SERVER, section="neo",
                 defaults=NeoSettings()),
    "relstorage-sqlite": Shape(most_nodes=1, section="sqlite", defaults=SQLiteSettings()),
    "relstorage-postgresql": Shape(_PAIR, _SERVER, section="postgresql",
                                   defaults=PostgreSQLSettings(), may_be_foreign=True),
    "relstorage-mariadb": Shape(_PAIR, _SERVER, section="mariadb", defaults=MariaDBSettings(),
                                may_be_foreign=True),
    "relstorage-oracle": Shape(ports=_SERVER, most_nodes=1, section="oracle",
                               may_be_foreign=True),
}
