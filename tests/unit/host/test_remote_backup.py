"""A node is backed up into a folder of another host, and restored from one, through an agent."""

from __future__ import annotations

import dataclasses
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from counting import PACK, Counted
from two_hosts import TwoHosts, two_hosts

from indico_zodbrepl.cluster.layout import data_fs
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host import receiving_files
from indico_zodbrepl.host.backup import BackupFolder, Made, staged_folder
from indico_zodbrepl.host.backup_datafs import DataFsKeeper
from indico_zodbrepl.host.backup_folder import is_of_backup
from indico_zodbrepl.host.backup_sqlite import SQLiteKeeper
from indico_zodbrepl.host.datafs_answers import Progress
from indico_zodbrepl.host.interface import HostAwayError
from indico_zodbrepl.host.node_files import BLOCK
from indico_zodbrepl.host.remote.backups import SeveralBackups
from indico_zodbrepl.host.remote.node_data import NodeData
from indico_zodbrepl.host.remote_copy import Source
from indico_zodbrepl.host.restoring import LocalBackups

MEGABYTES = 2


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[TwoHosts]:
    """Node b, on the other host, has some megabytes; a folder of backups is beside it."""
    with two_hosts(tmp_path) as made:
        made.grow("b", "size", MEGABYTES)
        (tmp_path / "kept").mkdir()
        yield made


def kept(hosts: TwoHosts) -> Path:
    return hosts.cluster.node("b").data_directory.parent / "kept"


def ignore(_progress: Progress) -> None:
    """Report to nobody."""


def backed_up(hosts: TwoHosts, source: Source | None = None, *, full: bool = False) -> Made:
    """Back up node b into a folder of this host."""
    origin = source or NodeData(hosts.cluster, hosts.cluster.node("b"))
    return DataFsKeeper(hosts.installation).back_up_from(origin, kept(hosts), ignore, full=full)


def content(hosts: TwoHosts) -> bytes:
    """Return the data file that the newest series of backups makes."""
    last = DataFsKeeper(hosts.installation).series(kept(hosts))[-1]
    return b"".join((kept(hosts) / name).read_bytes() for name in last.names)


def data(hosts: TwoHosts, node: str = "b") -> bytes:
    return data_fs(hosts.cluster.node(node)).read_bytes()


def problems(hosts: TwoHosts) -> tuple[str, ...]:
    return DataFsKeeper(hosts.installation).inspect(kept(hosts), None, ignore).problems


def test_the_first_backup_is_full_and_the_next_has_what_is_new(hosts: TwoHosts) -> None:
    first = backed_up(hosts)
    assert ("full", len(data(hosts))) == (first.kind, first.whole)
    tid = hosts.grow("b", "count", 3)
    second = backed_up(hosts)
    assert ("incremental", tid) == (second.kind, second.tid)
    (kept(hosts) / "received-4.part").touch()
    third = backed_up(hosts)
    assert ("none", tid, second.time) == (third.kind, third.tid, third.time)
    assert content(hosts) == data(hosts)
    assert () == problems(hosts)
    assert [] == list(kept(hosts).glob("*.part"))
    assert "full" == backed_up(hosts, full=True).kind


def test_repozo_on_the_nodes_host_continues_what_was_received(hosts: TwoHosts) -> None:
    backed_up(hosts)
    hosts.grow("b", "count", 3)
    keeper, node = DataFsKeeper(hosts.installation), hosts.cluster.node("b")
    assert "incremental" == keeper.back_up(node, kept(hosts), ignore, full=False).kind
    hosts.grow("b", "count", 3)
    assert "incremental" == backed_up(hosts).kind
    assert content(hosts) == data(hosts)
    assert () == problems(hosts)


@pytest.mark.parametrize("change", ["packed", "another file"])
def test_a_backup_of_a_file_that_does_not_continue_the_last_one_is_full(
    hosts: TwoHosts, change: str
) -> None:
    backed_up(hosts)
    if change == "packed":
        hosts.run27(PACK, "b")
        hosts.grow("b", "size", MEGABYTES + 1)
    else:
        data_fs(hosts.cluster.node("b")).unlink()
        hosts.grow("b", "size", MEGABYTES)
    assert "full" == backed_up(hosts).kind
    assert content(hosts) == data(hosts)


def test_a_pack_meanwhile_leaves_a_backup_of_one_file_only(hosts: TwoHosts) -> None:
    packed: list[int] = []

    def pack(number: int, _content: memoryview, digest: bytes) -> bytes:
        if not packed:
            packed.append(number)
            hosts.run27(PACK, "b")
            hosts.grow("b", "count", 3)
        return digest

    source = Counted(NodeData(hosts.cluster, hosts.cluster.node("b")), pack)
    assert "full" == backed_up(hosts, source).kind
    assert packed
    assert () == problems(hosts)


def test_an_interrupted_backup_is_none_and_is_continued(hosts: TwoHosts) -> None:
    def break_off(number: int, _content: memoryview, digest: bytes) -> bytes:
        if number > 3:
            raise HostAwayError("host two does not answer", exit_code=ExitCode.TIMED_OUT)
        return digest

    node = NodeData(hosts.cluster, hosts.cluster.node("b"))
    broken = Counted(node, break_off)
    with pytest.raises(OperatorError):
        backed_up(hosts, broken)
    assert [] == DataFsKeeper(hosts.installation).series(kept(hosts))
    assert [3 * BLOCK] == [each.stat().st_size for each in kept(hosts).glob("*.part")]
    again = Counted(node)
    assert "full" == backed_up(hosts, again).kind
    assert len(data(hosts)) - 3 * BLOCK == again.sent
    assert content(hosts) == data(hosts)
    assert [] == list(kept(hosts).glob("*.part"))


def test_damaged_data_are_refused_and_not_kept(hosts: TwoHosts) -> None:
    file = data_fs(hosts.cluster.node("b"))
    with file.open("r+b") as opened:
        opened.seek(MEGABYTES * 10**6 // 2)
        opened.write(b"x" * 5000)
    with pytest.raises(OperatorError) as caught:
        backed_up(hosts)
    assert ExitCode.REFUSED is caught.value.exit_code
    assert str(kept(hosts)) in caught.value.detail
    assert [] == DataFsKeeper(hosts.installation).series(kept(hosts))
    assert [] == list(kept(hosts).glob("*.part"))


def test_a_backup_on_another_host_is_staged_for_a_node(hosts: TwoHosts) -> None:
    """The folder is on this machine too: the agent of the other host serves it."""
    backed_up(hosts)
    hosts.grow("b", "count", 3)
    made = backed_up(hosts)
    backups = LocalBackups(hosts.cluster, hosts.installation)
    left = staged_folder(hosts.cluster.node("a")) / "backup"
    left.mkdir(parents=True)
    first = next(kept(hosts).glob("*.fs"))
    shutil.copyfile(first, left / f"{first.name}.part")
    os.truncate(left / f"{first.name}.part", BLOCK + 1)
    staged = backups.stage("a", BackupFolder("two", kept(hosts)), made.name, ignore)
    assert made.tid == staged.tid
    restored = staged_folder(hosts.cluster.node("a")) / "Data.fs"
    assert restored.read_bytes() == data(hosts)
    assert not left.exists()
    with pytest.raises(OperatorError) as caught:
        backups.stage("a", BackupFolder("two", kept(hosts)), "2020-01-01-00-00-00.fs", ignore)
    assert ExitCode.REFUSED is caught.value.exit_code


UPLOAD = """
import os, sys, transaction, ZODB, ZODB.blob
from ZODB.FileStorage import FileStorage
folder = os.path.join(os.path.dirname(sys.argv[1]), 'blobs')
db = ZODB.DB(FileStorage(sys.argv[1], blob_dir=folder))
with db.transaction() as connection:
    for name in sys.argv[2:]:
        connection.root()[name] = ZODB.blob.Blob(name * 1000)
db.close()
"""


def blobs_in(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in (folder / "blobs").rglob("*.blob")
    }


def test_blobs_come_with_a_backup_and_a_restore_of_another_host(
    hosts: TwoHosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(receiving_files, "LARGE", 5000)
    there = hosts.cluster.node("b").data_directory
    hosts.run27(UPLOAD, "b", "first", "a much longer second")
    first, then = backed_up(hosts), blobs_in(there)
    assert ("full", 2, 25000) == (first.kind, first.blobs, first.blob_bytes)
    assert blobs_in(there) == blobs_in(kept(hosts))
    hosts.run27(UPLOAD, "b", "first", "third")
    second = backed_up(hosts)
    assert ("incremental", 2) == (second.kind, second.blobs)
    assert blobs_in(there) == blobs_in(kept(hosts))
    assert () == problems(hosts)
    backups = LocalBackups(hosts.cluster, hosts.installation)
    for made, wanted in ((second, blobs_in(there)), (first, then)):
        staged = backups.stage("a", BackupFolder("two", kept(hosts)), made.name, ignore)
        assert (made.tid, len(wanted)) == (staged.tid, staged.blobs)
        assert wanted == blobs_in(staged_folder(hosts.cluster.node("a")))
    assert not (staged_folder(hosts.cluster.node("a")) / "backup").exists()


def test_an_interrupted_backup_of_blobs_is_none_and_is_continued(
    hosts: TwoHosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(receiving_files, "AT_ONCE", 2)
    hosts.run27(UPLOAD, "b", *(f"number {number}" for number in range(8)))

    def break_off(number: int, _content: memoryview, digest: bytes) -> bytes:
        if number > 5:
            raise HostAwayError("host two does not answer", exit_code=ExitCode.TIMED_OUT)
        return digest

    node = NodeData(hosts.cluster, hosts.cluster.node("b"))
    with pytest.raises(OperatorError):
        backed_up(hosts, Counted(node, break_off, ".blob"))
    assert [] == DataFsKeeper(hosts.installation).series(kept(hosts))
    again = Counted(node, counted=".blob")
    assert 8 == backed_up(hosts, again).blobs
    assert 3 == again.blocks
    assert () == problems(hosts)


def test_a_node_that_lacks_a_blob_is_not_backed_up(hosts: TwoHosts) -> None:
    hosts.run27(UPLOAD, "b", "first")
    next((hosts.cluster.node("b").data_directory / "blobs").rglob("*.blob")).unlink()
    with pytest.raises(OperatorError):
        backed_up(hosts)
    assert [] == DataFsKeeper(hosts.installation).series(kept(hosts))


def test_an_error_names_the_other_host(hosts: TwoHosts) -> None:
    def fail(_host: str, _method: str, _arguments: object) -> None:
        raise OperatorError("there is no backup to restore", "/kept has none")

    backups = SeveralBackups(dataclasses.replace(hosts.cluster, here="one"), fail)
    for folder, detail in (("two", "host two: /kept has none"), ("one", "/kept has none")):
        with pytest.raises(OperatorError) as caught:
            backups.inspect(BackupFolder(folder, Path("/kept")), None, ignore)
        assert detail == caught.value.detail


def test_the_files_of_sqlite_are_of_a_backup(hosts: TwoHosts) -> None:
    keeper = SQLiteKeeper(hosts.cluster, hosts.installation)
    name = "2026-11-24-10-00-00"
    (kept(hosts) / name).mkdir()
    for each in ("backup.json", "main.sqlite3", "oids.sqlite3", "main.sqlite3-wal"):
        (kept(hosts) / name / each).touch()
    blob = "/".join(["0x00"] * 8) + "/0x03f1000000000000.blob"
    (kept(hosts) / name / "files.list").write_text(f"{blob} 3 {64 * '0'}\n")
    found = [each.name for each in keeper.files(kept(hosts), name)]
    wanted = ("backup.json", "main.sqlite3", "oids.sqlite3", "files.list")
    assert [*(f"{name}/{each}" for each in wanted), f"blobs/{blob}"] == found
    assert all(is_of_backup(each) for each in found)
    assert not any(
        map(is_of_backup, ("cluster.json", "../x.fs", f"{name}/../../x.sqlite3", "lock"))
    )
