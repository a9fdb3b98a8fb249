"""The engine sections of cluster.conf, one dataclass per engine, without I/O."""

from __future__ import annotations

import dataclasses
from pathlib import Path


@dataclasses.dataclass(frozen=True)
class NeoSettings:
    """``<neo>``.

    Attributes:
        replicas: additional copies of each partition.
        partitions: parts of the database; fixed once there is data.
        adapter: database of a storage node: sqlite or mariadb.
        hung_after: seconds without an answer after which a redundant node is killed.
        mariadb_socket: of the MariaDB server on each storage's host; None for MariaDB's default.
    """

    replicas: int = 0
    partitions: int = 12
    adapter: str = "sqlite"
    hung_after: float = 10.0
    mariadb_socket: Path | None = None


@dataclasses.dataclass(frozen=True)
class SQLiteSettings:
    """``<sqlite>``; ``keep_history`` keeps undo information and older revisions."""

    keep_history: bool = True


@dataclasses.dataclass(frozen=True)
class ServerSettings:
    """The settings common to ``<postgresql>`` and ``<mariadb>``.

    Attributes:
        database, user: of the objects' database.
        password_file: the user's password, one line; None to generate one for servers started here.
        keep_history: True to keep undo information and older revisions.
        bin_directory: folder of the server's programs; None for the usual places.
    """

    database: str = "indico"
    user: str = "indico"
    password_file: Path | None = None
    keep_history: bool = True
    bin_directory: Path | None = None


@dataclasses.dataclass(frozen=True)
class PostgreSQLSettings(ServerSettings):
    """``<postgresql>``."""


@dataclasses.dataclass(frozen=True)
class MariaDBSettings(ServerSettings):
    """``<mariadb>``."""


@dataclasses.dataclass(frozen=True)
class OracleSettings:
    """``<oracle>``; ``dsn`` in cx_Oracle's form."""

    dsn: str
    user: str
    password_file: Path
    keep_history: bool = True


Settings = NeoSettings | SQLiteSettings | PostgreSQLSettings | MariaDBSettings | OracleSettings
