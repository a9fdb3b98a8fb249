"""Backups of SQLite's files: whole, of one moment, and not mixed up by an interruption."""

from __future__ import annotations

import contextlib
import dataclasses
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from two_hosts import python27

from indico_zodbrepl.backends.sqlite import SQLite
from indico_zodbrepl.cluster import Cluster, load
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.cluster.settings import SQLiteSettings
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host import backup_retention
from indico_zodbrepl.host.backup import Keeper, Made, keeper_of, staged_folder
from indico_zodbrepl.host.backup_sqlite import SQLiteKeeper
from indico_zodbrepl.host.datafs_answers import Progress

HOME = Path(__file__).parents[3]
FIRST = 0x040D000000000000


class Site:
    """A node whose tables have what a backup looks at, in the mode of a running cluster."""

    def __init__(self, cluster: Cluster, folder: Path, *, history: bool = True) -> None:
        self.node = cluster.nodes[0]
        self.backups = folder / "backups"
        self.backups.mkdir()
        self.keeper: Keeper = keeper_of(cluster, Installation(HOME))
        self.path = self.keeper.database(self.node)
        self.path.parent.mkdir(parents=True)
        self.history = history
        self.told: list[Progress] = []
        with self.opened() as connection:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("CREATE TABLE object_state (zoid INTEGER, tid INTEGER, state BLOB)")
            if history:
                connection.execute(
                    'CREATE TABLE "transaction" (tid INTEGER, username BLOB, description BLOB)'
                )
        with contextlib.closing(sqlite3.connect(self.path.with_name("oids.sqlite3"))) as oids:
            oids.execute("CREATE TABLE new_oid (oid INTEGER)")

    @contextlib.contextmanager
    def opened(self) -> Iterator[sqlite3.Connection]:
        with contextlib.closing(sqlite3.connect(self.path)) as connection, connection:
            yield connection

    def commit(self, *numbers: int) -> None:
        with self.opened() as connection:
            for number in numbers:
                connection.execute(
                    "INSERT INTO object_state VALUES (?, ?, ?)",
                    (number, FIRST + number, 5000 * b"x"),
                )
                if self.history:
                    connection.execute(
                        'INSERT INTO "transaction" VALUES (?, ?, ?)',
                        (FIRST + number, b"/ jane", b"number %d" % number),
                    )

    def back_up(self, *, full: bool = False) -> str:
        return self.keeper.back_up(self.node, self.backups, self.told.append, full=full).name

    def stage(self, name: str) -> list[int]:
        """The transactions of a backup that became a database again."""
        self.keeper.stage(self.node, self.backups, name, self.told.append)
        with contextlib.closing(
            sqlite3.connect(staged_folder(self.node) / "sqlite" / self.path.name)
        ) as connection:
            return [
                tid - FIRST
                for (tid,) in connection.execute(
                    "SELECT DISTINCT tid FROM object_state ORDER BY tid"
                )
            ]


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    path = tmp_path / "cluster.conf"
    path.write_text((HOME / "etc" / "cluster-relstorage-sqlite.conf").read_text())
    return load(path, tmp_path)


@pytest.fixture
def site(cluster: Cluster, tmp_path: Path) -> Site:
    made = Site(cluster, tmp_path)
    made.commit(1, 2)
    return made


def test_a_backup_becomes_the_database_that_was(site: Site) -> None:
    name = site.back_up()
    site.commit(3)
    assert [1, 2] == site.stage(name)
    assert site.told


def test_what_is_written_while_it_is_copied_is_left_for_the_next(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("indico_zodbrepl.host.backup_sqlite.PAGES", 1)
    later = iter(range(3, 1000))

    def tell(progress: Progress) -> None:
        if progress.stage == "copied":
            site.commit(next(later))

    made = site.keeper.back_up(site.node, site.backups, tell, full=False)
    assert next(later) > 3
    assert [1, 2] == site.stage(made.name)
    assert f"{FIRST + 2:016x}" == made.tid


def test_nothing_new_makes_no_backup_unless_it_is_asked_for(site: Site) -> None:
    first = site.back_up()
    assert not site.back_up()
    assert first < site.back_up(full=True)


def test_an_interrupted_backup_leaves_the_older_ones_as_they_were(site: Site) -> None:
    first = site.back_up()
    site.commit(3)

    def interrupt(_progress: Progress) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        site.keeper.back_up(site.node, site.backups, interrupt, full=False)
    assert first == site.keeper.inspect(site.backups, None, site.told.append).name
    made = site.keeper.back_up(site.node, site.backups, site.told.append, full=False)
    assert made.removed
    assert [1, 2, 3] == site.stage(made.name)
    assert not list(site.backups.glob("*.part"))


def test_a_damaged_database_is_not_backed_up(site: Site) -> None:
    site.commit(*range(10, 60))
    with contextlib.closing(sqlite3.connect(site.path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    with site.path.open("r+b") as opened:
        opened.seek(4096 * 3)
        opened.write(4096 * b"\xff")
    with pytest.raises(OperatorError) as raised:
        site.back_up()
    assert ExitCode.REFUSED == raised.value.exit_code
    assert not [each for each in site.backups.iterdir() if each.suffix not in ("", ".part")]


@pytest.mark.parametrize("harm", ["changed", "gone", "no note"])
def test_a_damaged_backup_is_noticed(site: Site, harm: str) -> None:
    folder = site.backups / site.back_up()
    if harm == "no note":
        (folder / "backup.json").unlink()
    elif harm == "gone":
        (folder / "oids.sqlite3").unlink()
    else:
        with (folder / "main.sqlite3").open("r+b") as opened:
            opened.seek(5000)
            opened.write(b"y")
    assert site.keeper.inspect(site.backups, None, site.told.append).problems


def test_an_older_one_is_found_by_its_time(site: Site) -> None:
    first = site.back_up()
    site.commit(3)
    second = site.back_up()
    keeper = site.keeper
    assert second == keeper.inspect(site.backups, None, site.told.append).name
    assert first == keeper.inspect(site.backups, first, site.told.append).name
    with pytest.raises(OperatorError):
        keeper.inspect(site.backups, "2001-01-01-00-00-00", site.told.append)


def test_what_is_newer_is_counted_with_who_did_it(site: Site) -> None:
    found = site.keeper.newer(site.node, f"{FIRST + 1:016x}")
    assert found is not None
    assert (1, f"{FIRST + 2:016x}", "") == (found.transactions, found.last, found.damage)
    assert ["jane number 2"] == [line.partition("  ")[2] for line in found.told]


def test_without_history_the_states_are_counted(cluster: Cluster, tmp_path: Path) -> None:
    site = Site(cluster, tmp_path, history=False)
    site.commit(1, 2, 3)
    found = site.keeper.newer(site.node, f"{FIRST + 1:016x}")
    assert found is not None
    assert (2, ()) == (found.transactions, found.told)


def test_of_no_database_nothing_is_newer_and_what_is_none_is_damaged(site: Site) -> None:
    site.path.write_bytes(10000 * b"no database. ")
    found = site.keeper.newer(site.node, f"{FIRST:016x}")
    assert found is not None
    assert found.damage
    site.path.unlink()
    assert site.keeper.newer(site.node, f"{FIRST:016x}") is None


def test_who_has_it_open_for_writing_is_seen(site: Site) -> None:
    assert [] == site.keeper.holders(site.node)
    with contextlib.closing(sqlite3.connect(site.path)) as connection:
        connection.execute("SELECT count(*) FROM object_state").fetchone()
        assert site.keeper.holders(site.node)
        with pytest.raises(OperatorError), site.keeper.held(site.node):
            pass


def test_a_commit_changes_the_fingerprint_and_a_reader_does_not(site: Site) -> None:
    before = site.keeper.fingerprint(site.node)
    with site.opened() as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    assert before == site.keeper.fingerprint(site.node)
    site.commit(3)
    assert before != site.keeper.fingerprint(site.node)


def test_it_is_the_keeper_of_sqlite(site: Site) -> None:
    assert isinstance(site.keeper, SQLiteKeeper)


UPLOAD = """
import sys, transaction, ZODB, ZODB.blob, ZODB.config
db = ZODB.DB(ZODB.config.storageFromFile(open(sys.argv[1])))
with db.transaction() as connection:
    for name in sys.argv[2:]:
        connection.root()[name] = ZODB.blob.Blob(name)
db.close()
"""


@pytest.fixture(params=[True, False], ids=["history", "no history"])
def uploads(cluster: Cluster, tmp_path: Path, request: pytest.FixtureRequest) -> Uploads:
    settings = SQLiteSettings(keep_history=request.param)
    return Uploads(dataclasses.replace(cluster, settings=settings), tmp_path)


class Uploads:
    """A real database with blobs, and a folder of backups."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self.cluster = cluster
        self.node = cluster.nodes[0]
        self.backups = folder / "backups"
        self.backups.mkdir()
        self.keeper: Keeper = keeper_of(cluster, Installation(HOME))
        files = SQLite().client_files(cluster)
        self.conf = folder / "zodb.conf"
        text = files[Layout(cluster).zodb_conf]
        self.conf.write_text(text.replace("create-schema false", "create-schema true"))
        self.keeper.database(self.node).parent.mkdir(parents=True)
        self.upload("first", "second")

    def upload(self, *names: str) -> None:
        python27("-c", UPLOAD, self.conf, *names)

    def blobs(self, folder: Path) -> dict[str, str]:
        return {
            path.relative_to(folder / "blobs").as_posix(): path.read_text()
            for path in (folder / "blobs").rglob("*.blob")
        }

    def back_up(self, *, full: bool = False) -> Made:
        return self.keeper.back_up(self.node, self.backups, ignore, full=full)


def ignore(_progress: Progress) -> None:
    """Report to nobody."""


def test_a_backup_has_the_blobs_of_its_time_each_kept_once(uploads: Uploads) -> None:
    made = uploads.back_up()
    then = uploads.blobs(uploads.node.data_directory)
    assert (2, 11) == (made.blobs, made.blob_bytes)
    uploads.upload("third")
    newer = uploads.back_up()
    assert sorted(uploads.blobs(uploads.backups).values()) == ["first", "second", "third"]
    for backup, wanted in (
        (newer, uploads.blobs(uploads.node.data_directory)),
        (made, then),
    ):
        found = uploads.keeper.inspect(uploads.backups, backup.name, ignore)
        assert ((), len(wanted)) == (found.problems, found.blobs)
        staged = uploads.keeper.stage(uploads.node, uploads.backups, backup.name, ignore)
        assert len(wanted) == staged.blobs
        assert wanted == uploads.blobs(staged_folder(uploads.node))


@pytest.mark.parametrize("harm", ["changed", "gone", "no list"])
def test_a_damaged_blob_is_noticed(uploads: Uploads, harm: str) -> None:
    made = uploads.back_up()
    path = next((uploads.backups / "blobs").rglob("*.blob"))
    if harm == "no list":
        (uploads.backups / made.name / "files.list").unlink()
    elif harm == "gone":
        path.unlink()
    else:
        path.write_text(path.read_text().upper())
    if harm != "no list":
        assert uploads.keeper.inspect(uploads.backups, None, ignore).problems
    with pytest.raises(OperatorError):
        uploads.keeper.stage(uploads.node, uploads.backups, made.name, ignore)
    assert not (staged_folder(uploads.node) / "sqlite").exists()
    uploads.back_up(full=True)
    assert () == uploads.keeper.inspect(uploads.backups, None, ignore).problems


def test_a_database_without_one_of_its_blobs_is_not_backed_up(uploads: Uploads) -> None:
    next((uploads.node.data_directory / "blobs").rglob("*.blob")).unlink()
    with pytest.raises(OperatorError) as raised:
        uploads.back_up()
    assert "the file of a blob is missing" in raised.value.detail
    assert [] == uploads.keeper.series(uploads.backups)


def test_an_old_backup_goes_with_the_blobs_that_only_it_needs(uploads: Uploads) -> None:
    made = uploads.back_up()
    uploads.upload("first")
    python27("-c", PACK, uploads.conf)
    newest = uploads.back_up()
    before = uploads.blobs(uploads.backups)
    assert 3 == len(before)
    [old, _] = uploads.keeper.series(uploads.backups)
    assert made.name == old.first
    backup_retention.remove(uploads.keeper, uploads.backups, [old], newest.name)
    assert uploads.blobs(uploads.node.data_directory) == uploads.blobs(uploads.backups)
    assert () == uploads.keeper.inspect(uploads.backups, None, ignore).problems


PACK = """
import sys, time, ZODB, ZODB.config
db = ZODB.DB(ZODB.config.storageFromFile(open(sys.argv[1])))
db.pack(time.time() + 1)
db.close()
"""
