"""RelStorage on SQLite: its tables, and what is read beside those who write."""

from __future__ import annotations

import contextlib
import dataclasses
import re
import sqlite3
from pathlib import Path

import pytest
from one_copy_clusters import ask, cluster_of, commit, facts_of, found, made

from indico_zodbrepl.backends import backend_of
from indico_zodbrepl.backends import sqlite as sqlite_backend
from indico_zodbrepl.cluster import Cluster
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.cluster.settings import SQLiteSettings
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.probing.wire import ProbeError


@pytest.fixture
def sqlite(tmp_path: Path) -> Cluster:
    return made(cluster_of("relstorage-sqlite", tmp_path))


def test_sqlite_s_tables_are_made_once_and_clients_share_them(sqlite: Cluster) -> None:
    backend = backend_of(sqlite)
    assert not backend.has_data(sqlite, sqlite.nodes[0])
    with pytest.raises(ProbeError):
        ask(sqlite)
    assert ["RelStorage's tables are made"] == found(sqlite)
    assert [] == found(sqlite)
    assert backend.has_data(sqlite, sqlite.nodes[0])
    commit(sqlite, "one")
    last = commit(sqlite, "two")
    answer = ask(sqlite)
    assert (last, False) == (answer.last_tid, answer.replication.read_only)
    assert ("wal", "true") == (facts_of(sqlite)["journal mode"], facts_of(sqlite)["keep-history"])
    assert () == answer.problems
    assert 0o700 == sqlite_backend.data_folder(sqlite.nodes[0]).stat().st_mode & 0o777


def test_what_an_interrupted_beginning_left_is_no_database(
    sqlite: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(_installation: Installation, conf: Path, _deadline: float) -> None:
        folder = re.search(r"data-dir (\S+)", conf.read_text())
        assert folder
        with contextlib.closing(sqlite3.connect(Path(folder[1], "main.sqlite3"))) as connection:
            connection.execute("CREATE TABLE transaction_is_no_table_yet (tid INTEGER)")
        raise OperatorError("the tables were not made in time", exit_code=ExitCode.TIMED_OUT)

    with monkeypatch.context() as patched:
        patched.setattr(sqlite_backend, "make_tables", interrupted)
        with pytest.raises(OperatorError):
            found(sqlite)
    assert not backend_of(sqlite).has_data(sqlite, sqlite.nodes[0])
    assert ["RelStorage's tables are made"] == found(sqlite)
    assert commit(sqlite, "one") == ask(sqlite).last_tid


def test_sqlite_without_history_is_asked_as_well_and_its_history_is_fixed(sqlite: Cluster) -> None:
    plain = made_without_history(sqlite)
    found(plain)
    last = commit(plain, "one")
    assert last == ask(plain).last_tid
    assert "false" == facts_of(plain)["keep-history"]
    with pytest.raises(OperatorError) as raised:
        found(sqlite)
    assert raised.value.exit_code is ExitCode.BAD_CONFIG


def test_a_new_database_holds_no_figures_of_empty_tables(sqlite: Cluster) -> None:
    found(sqlite)
    with contextlib.closing(
        sqlite3.connect(sqlite_backend.database(sqlite.nodes[0]))
    ) as connection:
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
        figures = "SELECT * FROM sqlite_stat1" if "sqlite_stat1" in tables else "SELECT 1 LIMIT 0"
        assert "object_state" in tables
        assert [] == connection.execute(figures).fetchall()


def made_without_history(cluster: Cluster) -> Cluster:
    plain = dataclasses.replace(cluster, settings=SQLiteSettings(keep_history=False))
    for path, text in backend_of(plain).client_files(plain).items():
        path.write_text(text)
    return plain


def test_a_database_that_is_locked_or_broken_is_reported_in_time(sqlite: Cluster) -> None:
    found(sqlite)
    path = sqlite_backend.database(sqlite.nodes[0])
    path.with_name(f"{path.name}-wal").unlink(missing_ok=True)
    path.with_name(f"{path.name}-shm").unlink(missing_ok=True)
    with sqlite3.connect(path, isolation_level=None) as other:
        other.execute("PRAGMA journal_mode = delete")
        (problem,) = ask(sqlite).problems
        assert "write-ahead log" in problem.text
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(ProbeError, match="locked"):
            ask(sqlite)
        other.execute("ROLLBACK")
    other.close()
    path.write_bytes(b"x" * 8192)
    with pytest.raises(ProbeError, match="not a database"):
        ask(sqlite)
