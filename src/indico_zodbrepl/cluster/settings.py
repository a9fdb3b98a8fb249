"""What the engine sections of cluster.conf say: one dataclass a kind of engine, no I/O."""

from __future__ import annotations

import dataclasses
from pathlib import Path


@dataclasses.dataclass(frozen=True)
class NeoSettings:
    """``<neo>``.

    Attributes:
        replicas: further copies of each partition.
        partitions: parts that the database is split into; fixed once there is data.
        adapter: what a storage node keeps its part in: sqlite or mariadb.
        hung_after: seconds without an answer after which a node that others can stand in for
            is killed.
        mariadb_socket: of the MariaDB server on each storage's host; None: MariaDB's default.
    """

    replicas: int = 0
    partitions: int = 12
    adapter: str = "sqlite"
    hung_after: float = 10.0
    mariadb_socket: Path | None = None


@dataclasses.dataclass(frozen=True)
class SQLiteSettings:
    """``<sqlite>``; ``keep_history``: whether undo and older revisions are kept."""

    keep_history: bool = True


@dataclasses.dataclass(frozen=True)
class ServerSettings:
    """What ``<postgresql>`` and ``<mariadb>`` have in common.

    Attributes:
        database, user: of the objects' database.
        password_file: the user's password, one line; None: one is generated for servers that
            are started here.
        synchronous: whether a commit waits until a follower has it.
        keep_history: whether undo and older revisions are kept.
        bin_directory: where the server's programs are; None: the usual places.
    """

    database: str = "indico"
    user: str = "indico"
    password_file: Path | None = None
    synchronous: bool = False
    keep_history: bool = True
    bin_directory: Path | None = None


@dataclasses.dataclass(frozen=True)
class PostgreSQLSettings(ServerSettings):
    """``<postgresql>``."""


@dataclasses.dataclass(frozen=True)
class MariaDBSettings(ServerSettings):
    """``<mariadb>``; ``synchronous`` means semi-synchronous replication, AFTER_SYNC."""


@dataclasses.dataclass(frozen=True)
class OracleSettings:
    """``<oracle>``; ``dsn`` as cx_Oracle takes it."""

    dsn: str
    user: str
    password_file: Path
    keep_history: bool = True


Settings = NeoSettings | SQLiteSettings | PostgreSQLSettings | MariaDBSettings | OracleSettings
