"""RelStorage on SQLite: Indico's processes share a database file on one host."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from zope.interface import implementer

from indico_zodbrepl.backends import relstorage
from indico_zodbrepl.backends.interfaces import IBackend, Progress
from indico_zodbrepl.backends.one_copy import (
    WITHOUT_SERVER_LIMITS,
    WithoutServer,
    require_data_of_before,
    require_here,
    standalone,
)
from indico_zodbrepl.backends.relstorage import CLIENT_CACHE_MB, make_tables, schema_conf
from indico_zodbrepl.cluster import Cluster, Node
from indico_zodbrepl.cluster.files import sync_folder, write_all
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.cluster.settings import SQLiteSettings
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.probing import tid
from indico_zodbrepl.probing.answers import Alert, Fact, Level, ServerAnswer
from indico_zodbrepl.probing.wire import FailureKind, ProbeError

# Seconds that a commit waits for another one; SQLite allows one writer at a time.
COMMIT_SECONDS = 15
# SQLite instructions between two checks of the clock.
CLOCK_STEPS = 10_000
# RelStorage's name of the file.
_FILE = "main.sqlite3"


@implementer(IBackend)
class SQLite(WithoutServer):
    """RelStorage 3.5 on SQLite in WAL mode."""

    name = "relstorage-sqlite"
    backup_driver = "sqlite"
    folder_name = "sqlite"
    # Copy them in this order: every used object id must be counted.
    file_names = (_FILE, "oids.sqlite3")
    limits: Mapping[str, str] = {
        **WITHOUT_SERVER_LIMITS,
    }

    def client_files(self, cluster: Cluster) -> Mapping[Path, str]:
        layout = Layout(cluster)
        files = {
            schema_conf(cluster): _conf(cluster, create=True, wrapped=False),
            layout.zodb_conf: _conf(cluster, create=False, wrapped=True),
        }
        for node in cluster.nodes:
            files[layout.node_zodb_conf(node)] = _conf(cluster, create=False, wrapped=False)
        return files

    def has_data(self, cluster: Cluster, node: Node) -> bool:
        try:
            return database(node).stat().st_size > 0
        except OSError:
            return False

    def found(
        self, cluster: Cluster, installation: Installation, progress: Progress, deadline: float
    ) -> None:
        """Create folder and tables; raise OperatorError for lost data or another keep-history."""
        for node in cluster.local.nodes:
            has_data = self.has_data(cluster, node)
            require_data_of_before(cluster, node, has_data=has_data)
            if has_data:
                _require_history(cluster, node, deadline)
                continue
            _make(cluster, installation, node, deadline)
            progress("RelStorage's tables are made")

    def last_tid(self, connection: sqlite3.Connection) -> int:
        found = connection.execute(_LAST_TID[_has_history(connection)]).fetchone()[0]
        return int(found or tid.EMPTY)

    def read_conf(self, cluster: Cluster, folder: Path) -> str:
        return relstorage.bare(_storage(cluster, folder, create=False, read_only=True))

    def ask(self, cluster: Cluster, node: Node, deadline: float) -> ServerAnswer:
        """Read the database while other processes write to it."""
        require_here(cluster, node)
        path = database(node)
        try:
            with _opened(path, deadline) as connection:
                history = _has_history(connection)
                last = connection.execute(_LAST_TID[history]).fetchone()[0]
                (journal,) = connection.execute("PRAGMA journal_mode").fetchone()
            log = _size(path.with_name(f"{path.name}-wal"))
            size = _size(path)
        except sqlite3.Error as error:
            raise ProbeError(FailureKind.UNREACHABLE, f"{path}: {error}") from None
        except OSError as error:
            raise ProbeError(FailureKind.UNREACHABLE, f"{path}: {error.strerror}") from None
        facts = (
            Fact("database file", str(path)),
            Fact("journal mode", journal),
            Fact("write-ahead log", f"{log} bytes"),
            Fact("keep-history", "true" if history else "false"),
        )
        return ServerAnswer(
            last or tid.EMPTY,
            0,
            standalone(cluster, node, size=size + log, read_only=not os.access(path, os.W_OK)),
            facts,
            tuple(_problems(node, journal)),
        )


def _make(cluster: Cluster, installation: Installation, node: Node, deadline: float) -> None:
    """Create the tables in another place first, because a partial database is unusable."""
    fresh = _fresh_folder(node)
    try:
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir(mode=0o700)
        write_all({schema_conf(cluster): _conf(cluster, create=True, wrapped=False)})
        make_tables(installation, schema_conf(cluster), deadline)
        _forget_figures(fresh / _FILE)
        fresh.rename(data_folder(node))
        sync_folder(node.data_directory)
    except OSError as error:
        raise OperatorError(
            f"the database of node {node.name} can't be made",
            f"{error.filename}: {error.strerror}",
            exit_code=ExitCode.REFUSED,
        ) from error


def _fresh_folder(node: Node) -> Path:
    folder = data_folder(node)
    return folder.with_name(f"{folder.name}.new")


def _forget_figures(path: Path) -> None:
    """Drop SQLite's statistics of new tables.

    RelStorage makes SQLite update them when it closes a database.  With those of an empty database,
    SQLite reads the whole table of objects at each commit.
    """
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        noted = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'sqlite_stat1'")
        if noted.fetchone():
            connection.execute("DELETE FROM sqlite_stat1")


def data_folder(node: Node) -> Path:
    """Return RelStorage's data-dir, with the database and the counter of object ids."""
    return node.data_directory / SQLite.folder_name


def database(node: Node) -> Path:
    """Return the file with the objects."""
    return data_folder(node) / _FILE


def _problems(node: Node, journal: str) -> Iterator[Alert]:
    if journal != "wal":
        yield Alert(
            Level.WARNING,
            node.name,
            "the database has no write-ahead log",
            f"its journal mode is {journal}, so that readers and writers wait for each other",
            "the next process that opens it with RelStorage changes that: "
            "`bin/zodbrepl down`, then `bin/zodbrepl up`",
        )


def _keep_history(cluster: Cluster) -> bool:
    settings = cluster.settings
    return settings.keep_history if isinstance(settings, SQLiteSettings) else True


def _require_history(cluster: Cluster, node: Node, deadline: float) -> None:
    try:
        with _opened(database(node), deadline) as connection:
            found = _has_history(connection)
    except sqlite3.Error as error:
        raise OperatorError("the database can't be opened", f"{database(node)}: {error}") from None
    if found != _keep_history(cluster):
        raise OperatorError(
            f"the database was made with keep-history {str(found).lower()}",
            str(cluster.where("sqlite", None, "keep-history")),
            "set it as it was; `bin/zodbrepl convert` copies the data into another cluster",
            ExitCode.BAD_CONFIG,
        )


def _has_history(connection: sqlite3.Connection) -> bool:
    names = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
    if not names & {"transaction", "object_state"}:
        raise sqlite3.DatabaseError("it has no tables of RelStorage")
    return "transaction" in names


@contextlib.contextmanager
def _opened(path: Path, deadline: float) -> Iterator[sqlite3.Connection]:
    """Open a file for reading; a query fails at the deadline with sqlite3.Error."""
    connection = sqlite3.connect(
        f"{path.as_uri()}?mode=ro", uri=True, timeout=max(0.0, deadline - time.monotonic())
    )
    try:
        connection.set_progress_handler(lambda: time.monotonic() > deadline, CLOCK_STEPS)
        yield connection
    finally:
        connection.close()


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _conf(cluster: Cluster, *, create: bool, wrapped: bool) -> str:
    (node,) = cluster.nodes
    storage = _storage(
        cluster,
        _fresh_folder(node) if create else data_folder(node),
        create=create,
        read_only=not (create or wrapped),
    )
    return relstorage.wrapped(storage) if wrapped else relstorage.bare(storage)


def _storage(cluster: Cluster, folder: Path, *, create: bool, read_only: bool) -> str:
    return _STORAGE.format(
        name=cluster.name,
        history=str(_keep_history(cluster)).lower(),
        create=str(create).lower(),
        read_only=str(read_only).lower(),
        seconds=COMMIT_SECONDS,
        cache=CLIENT_CACHE_MB,
        folder=folder,
        blobs=folder.parent / "blobs",
    )


# A lower bound: without history, the last transaction may have deleted an object.
_LAST_TID = {True: 'SELECT MAX(tid) FROM "transaction"', False: "SELECT MAX(tid) FROM object_state"}

_STORAGE = """\
<relstorage>
  name {name}
  keep-history {history}
  create-schema {create}
  read-only {read_only}
  commit-lock-timeout {seconds}
  cache-local-mb {cache}
  blob-dir {blobs}
  shared-blob-dir true
  <sqlite3>
    data-dir {folder}
    <pragmas>
      synchronous 2
    </pragmas>
  </sqlite3>
</relstorage>
"""
