"""A node's data are copied from another host through its agent, verified, and continued."""

from __future__ import annotations

import dataclasses
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from counting import PACK, Counted
from two_hosts import TwoHosts, grow, two_hosts

from indico_zodbrepl.cluster.layout import data_fs
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host import datafs, node_files, receiving_files, remote_copy, replacing
from indico_zodbrepl.host.datafs_answers import Copy, Progress
from indico_zodbrepl.host.interface import HostAwayError
from indico_zodbrepl.host.locking import take
from indico_zodbrepl.host.node_files import BLOCK, DATA, INDEX, Range
from indico_zodbrepl.host.remote.node_data import NodeData
from indico_zodbrepl.host.remote_copy import Source

BLOBS = """
import os, sys, transaction, ZODB, ZODB.blob
from ZODB.FileStorage import FileStorage
folder = os.path.join(os.path.dirname(sys.argv[1]), 'blobs')
db = ZODB.DB(FileStorage(sys.argv[1], blob_dir=folder))
root = db.open().root()
for number, size in enumerate([0, 3, 1 << 20, (1 << 20) + 7]):
    root['blob%d' % number] = ZODB.blob.Blob(size * 'x')
    transaction.commit()
db.close()
"""
MEGABYTES = 5


@pytest.fixture(scope="module")
def grown(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a data file of some megabytes and its index."""
    folder = tmp_path_factory.mktemp("grown")
    grow(folder / DATA, "size", MEGABYTES)
    return folder


@pytest.fixture
def hosts(tmp_path: Path, grown: Path) -> Iterator[TwoHosts]:
    """Node b has some megabytes, node a nothing."""
    with two_hosts(tmp_path) as made:
        for name in (DATA, INDEX):
            shutil.copyfile(grown / name, made.cluster.node("b").data_directory / name)
        yield made


def source(hosts: TwoHosts) -> NodeData:
    return NodeData(hosts.cluster, hosts.cluster.node("b"))


def copied(
    hosts: TwoHosts, origin: Source, told: list[Progress] | None = None, seconds: float = 60.0
) -> Copy:
    report = None if told is None else told.append
    return remote_copy.copy(
        hosts.installation, origin, data_fs(hosts.cluster.node("a")), report, seconds=seconds
    )


def is_same(hosts: TwoHosts) -> bool:
    one, other = (data_fs(hosts.cluster.node(name)) for name in "ab")
    return one.read_bytes() == other.read_bytes()


def part(hosts: TwoHosts) -> Path:
    return data_fs(hosts.cluster.node("a")).with_name("Data.fs.part")


def test_a_copy_is_the_same_with_its_index_and_its_note_of_a_pack(hosts: TwoHosts) -> None:
    other = data_fs(hosts.cluster.node("b"))
    other.with_name("Data.fs.packed").write_text("{}")
    told: list[Progress] = []
    found = copied(hosts, source(hosts), told)
    assert is_same(hosts)
    assert datafs.last(hosts.installation, other).tid == found.tid
    assert (other.stat().st_size, 0) == (found.bytes, found.resumed)
    assert found.bytes == told[-1].done == told[-1].total
    folder = hosts.cluster.node("a").data_directory
    assert {"Data.fs", "Data.fs.index", "Data.fs.lock", "Data.fs.packed"} == {
        path.name for path in folder.iterdir()
    }
    for name in ("Data.fs.index", "Data.fs.packed"):
        assert (folder / name).read_bytes() == other.with_name(name).read_bytes()
    assert 0o600 == (folder / "Data.fs").stat().st_mode & 0o777


def test_blobs_come_with_it_and_those_that_are_there_stay(hosts: TwoHosts) -> None:
    hosts.run27(BLOBS, "b")
    found = copied(hosts, source(hosts))
    assert (4, (2 << 20) + 10) == (found.blobs, found.blob_bytes)
    one, other = (hosts.cluster.node(name).data_directory / "blobs" for name in "ab")
    wanted = {
        path.relative_to(other): path.read_bytes()
        for path in other.rglob("*")
        if path.suffix == ".blob" or path.name == ".layout"
    }
    assert 5 == len(wanted)
    assert wanted == {
        path.relative_to(one): path.read_bytes() for path in one.rglob("*") if path.is_file()
    }
    (one.parent / "Data.fs").rename(one.parent / "Data.fs.part")
    again = copied(hosts, source(hosts))
    assert (4, 0) == (again.blobs, again.blob_bytes)


def test_a_copy_without_blobs_tells_its_server_that_there_are_none(hosts: TwoHosts) -> None:
    layout = hosts.cluster.node("b").data_directory / "blobs/.layout"
    layout.parent.mkdir()
    layout.write_text("bushy")
    copied(hosts, source(hosts))
    blobs = hosts.cluster.node("a").data_directory / "blobs"
    assert {".layout": "bushy"} == {path.name: path.read_text() for path in blobs.iterdir()}


def blobs_of(hosts: TwoHosts, name: str) -> dict[str, int]:
    folder = hosts.cluster.node(name).data_directory
    return {each.name: each.bytes for each in node_files.blobs_in(folder)}


def test_progress_counts_the_bytes_of_all_blobs(hosts: TwoHosts) -> None:
    hosts.run27(BLOBS, "b")
    told: list[Progress] = []
    copied(hosts, source(hosts), told)
    size = (2 << 20) + 10
    assert told[-1] == Progress("blobs", size, size)


def test_a_large_blob_is_continued_where_the_connection_broke(
    hosts: TwoHosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    hosts.run27(BLOBS, "b")
    monkeypatch.setattr(receiving_files, "LARGE", 1 << 20)

    def cut(number: int, _content: memoryview, digest: bytes) -> bytes:
        if number in (3, 6):
            raise HostAwayError("host two does not answer")
        return digest

    counted = Counted(source(hosts), cut, node_files.SUFFIX)
    found = copied(hosts, counted)
    assert (4, (2 << 20) + 10) == (found.blobs, found.blob_bytes)
    assert blobs_of(hosts, "a") == blobs_of(hosts, "b")
    assert counted.sent <= found.blob_bytes + 2 * BLOCK


def test_what_arrives_garbled_of_a_blob_is_sent_again(hosts: TwoHosts) -> None:
    hosts.run27(BLOBS, "b")

    def garble(number: int, content: memoryview, digest: bytes) -> bytes:
        if number == 3:
            content[0:1] = bytes([content[0] ^ 1])
        return digest

    copied(hosts, Counted(source(hosts), garble, node_files.SUFFIX))
    one, other = (hosts.cluster.node(name).data_directory for name in "ab")
    for name in blobs_of(hosts, "b"):
        assert (one / name).read_bytes() == (other / name).read_bytes()


def test_a_blob_without_a_transaction_in_the_copy_is_left_out_and_removed(
    hosts: TwoHosts,
) -> None:
    """One that is being committed, or that an earlier copy took before a pack."""
    hosts.run27(BLOBS, "b")
    known = set(blobs_of(hosts, "b"))
    one, other = (hosts.cluster.node(name).data_directory for name in "ab")
    newer = other / min(known).replace(Path(min(known)).name, "0x7f00000000000000.blob")
    newer.write_bytes(b"not committed yet")
    left = one / min(known).replace(Path(min(known)).name, "0x0300000000000000.blob")
    left.parent.mkdir(parents=True)
    left.write_bytes(b"packed away")
    copied(hosts, source(hosts))
    assert known == set(blobs_of(hosts, "a"))


def test_an_interrupted_copy_counts_its_blobs(hosts: TwoHosts) -> None:
    hosts.run27(BLOBS, "b")
    node, other = (hosts.cluster.node(name) for name in "ab")
    replacing.stage(hosts.cluster, hosts.installation, node, other, None, seconds=60.0)
    size = data_fs(other).stat().st_size + (2 << 20) + 10
    assert size == replacing.staged(node).bytes


def test_the_copy_of_a_step_is_taken_from_the_other_host(hosts: TwoHosts) -> None:
    node, other = (hosts.cluster.node(name) for name in "ab")
    found = replacing.stage(hosts.cluster, hosts.installation, node, other, None, seconds=60.0)
    assert data_fs(other).stat().st_size == found.bytes
    assert replacing.part(node).read_bytes() == data_fs(other).read_bytes()


def test_after_a_cut_only_the_rest_is_sent(hosts: TwoHosts) -> None:
    def cut(number: int, _content: memoryview, digest: bytes) -> bytes:
        if number == 4:
            raise HostAwayError("host two does not answer")
        return digest

    size = data_fs(hosts.cluster.node("b")).stat().st_size
    counted = Counted(source(hosts), cut)
    found = copied(hosts, counted)
    assert is_same(hosts)
    assert 0 == found.resumed  # by this command
    assert counted.sent <= size + BLOCK

    part(hosts).write_bytes(data_fs(hosts.cluster.node("b")).read_bytes()[: 3 * BLOCK])
    data_fs(hosts.cluster.node("a")).unlink()
    counted = Counted(source(hosts))
    assert 3 * BLOCK == copied(hosts, counted).resumed
    assert size - 3 * BLOCK == counted.sent
    assert is_same(hosts)


def test_a_host_that_stays_away_ends_the_copy_and_what_is_there_stays(hosts: TwoHosts) -> None:
    def away(number: int, _content: memoryview, digest: bytes) -> bytes:
        if number > 2:
            raise HostAwayError("host two does not answer", exit_code=ExitCode.TIMED_OUT)
        return digest

    with pytest.raises(HostAwayError):
        copied(hosts, Counted(source(hosts), away))
    assert 2 * BLOCK == part(hosts).stat().st_size
    assert not data_fs(hosts.cluster.node("a")).exists()


def test_an_agent_that_goes_away_ends_the_copy(hosts: TwoHosts) -> None:
    def stop(number: int, _content: memoryview, digest: bytes) -> bytes:
        if number == 1:
            hosts.stop()
        return digest

    with pytest.raises(HostAwayError) as caught:
        copied(hosts, Counted(source(hosts), stop))
    assert "host two does not answer" == caught.value.notice


def test_a_garbled_block_is_asked_for_again(hosts: TwoHosts) -> None:
    def garble(number: int, content: memoryview, digest: bytes) -> bytes:
        if number == 2:
            content[77] ^= 1
        return digest

    counted = Counted(source(hosts), garble)
    copied(hosts, counted)
    assert is_same(hosts)
    assert counted.sent > data_fs(hosts.cluster.node("b")).stat().st_size


def test_blocks_that_are_always_garbled_end_the_copy(hosts: TwoHosts) -> None:
    def garble(number: int, content: memoryview, digest: bytes) -> bytes:
        if number >= 2:
            content[77] ^= 1
        return digest

    with pytest.raises(OperatorError) as caught:
        copied(hosts, Counted(source(hosts), garble))
    assert "garbled" in caught.value.detail
    assert BLOCK == part(hosts).stat().st_size


@pytest.mark.parametrize("place", [0, BLOCK - 1, 2 * BLOCK + 5])
def test_a_garbled_byte_of_an_earlier_copy_is_found(hosts: TwoHosts, place: int) -> None:
    content = bytearray(data_fs(hosts.cluster.node("b")).read_bytes()[: 3 * BLOCK + 500])
    content[place] ^= 1
    part(hosts).write_bytes(content)
    assert place // BLOCK * BLOCK == copied(hosts, source(hosts)).resumed
    assert is_same(hosts)


@pytest.mark.parametrize("left", [b"", b"FS21", b"something else", None, "more"])
def test_what_an_earlier_copy_left_is_taken_over_as_far_as_it_is_the_same(
    hosts: TwoHosts, left: bytes | str | None
) -> None:
    whole = data_fs(hosts.cluster.node("b")).read_bytes()
    same = whole[: BLOCK + 700] if left is None else whole + b"more" if left == "more" else left
    assert isinstance(same, bytes)
    part(hosts).write_bytes(same)
    resumed = copied(hosts, source(hosts)).resumed
    assert is_same(hosts)
    assert {None: BLOCK + 700, "more": len(whole), b"FS21": 4}.get(left, 0) == resumed


def test_what_is_written_meanwhile_is_copied_too_but_for_the_last_of_it(hosts: TwoHosts) -> None:
    tids: list[str] = []

    def written(number: int, _content: memoryview, digest: bytes) -> bytes:
        if number == 2:
            tids.append(hosts.grow("b", "size", MEGABYTES + 4))
        return digest

    found = copied(hosts, Counted(source(hosts), written))
    assert [found.tid] == tids
    assert is_same(hosts)


@pytest.mark.parametrize("block", [2, 19])
def test_a_pack_that_replaces_the_source_meanwhile_is_noticed(hosts: TwoHosts, block: int) -> None:
    packed: list[int] = []

    def pack(number: int, _content: memoryview, digest: bytes) -> bytes:
        if number == block and not packed:
            packed.append(number)
            hosts.run27(PACK, "b")
            hosts.grow("b", "count", 3)
        return digest

    copied(hosts, Counted(source(hosts), pack))
    assert packed
    assert is_same(hosts)


def test_a_copy_that_takes_too_long_ends_and_can_be_continued(hosts: TwoHosts) -> None:
    with pytest.raises(OperatorError) as caught:
        copied(hosts, source(hosts), seconds=0.0)
    assert ExitCode.TIMED_OUT is caught.value.exit_code
    assert "the copy continues" in caught.value.hint
    copied(hosts, source(hosts))
    assert is_same(hosts)


def test_a_target_that_exists_or_is_in_use_is_left_alone(hosts: TwoHosts) -> None:
    hosts.grow("a", "count", 1)
    target = data_fs(hosts.cluster.node("a"))
    before = target.read_bytes()
    with pytest.raises(OperatorError) as caught:
        copied(hosts, source(hosts))
    assert ExitCode.REFUSED is caught.value.exit_code
    with target.with_name("Data.fs.lock").open("a") as lock:
        assert take(lock.fileno())
        with pytest.raises(OperatorError) as caught:
            copied(hosts, source(hosts))
    assert "a server has" in caught.value.detail
    assert before == target.read_bytes()


def test_a_missing_source_is_reported_and_leaves_nothing(hosts: TwoHosts) -> None:
    data_fs(hosts.cluster.node("b")).unlink()
    with pytest.raises(OperatorError) as caught:
        copied(hosts, source(hosts))
    assert "No such file" in caught.value.detail
    assert [] == list(hosts.cluster.node("a").data_directory.iterdir())


def test_too_small_a_disk_is_reported_before_anything_is_sent(
    hosts: TwoHosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Full:
        f_bavail = 1
        f_frsize = 4096

    monkeypatch.setattr(os, "statvfs", lambda _path: Full)
    counted = Counted(source(hosts))
    with pytest.raises(OperatorError) as caught:
        copied(hosts, counted)
    assert "4 MB are needed for it, 0 MB are free" in caught.value.detail
    assert 0 == counted.sent


def test_a_disk_that_becomes_full_is_reported_once_and_the_copy_continues(
    hosts: TwoHosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = os.pwrite

    def full(file: int, content: bytes, position: int) -> int:
        if position >= 2 * BLOCK:
            raise OSError(28, os.strerror(28))
        return write(file, content, position)

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(OperatorError) as caught:
        copied(hosts, source(hosts))
    assert "No space left on device" in caught.value.detail
    assert "make room there, then repeat the command: the copy continues" == caught.value.hint
    monkeypatch.undo()
    assert 2 * BLOCK == copied(hosts, source(hosts)).resumed
    assert is_same(hosts)


@pytest.mark.parametrize(
    "name", ["/etc/passwd", "../secret", "blobs/../state.json", "state.json", "blobs/x", "", "."]
)
def test_no_other_file_is_sent(hosts: TwoHosts, name: str) -> None:
    assert not node_files.is_sent(name)
    with pytest.raises(OperatorError) as caught, source(hosts).stream([Range(name)]):
        pass
    assert "403" in caught.value.detail


def test_a_file_that_is_another_one_now_is_not_sent(hosts: TwoHosts) -> None:
    origin = source(hosts).origin()
    wanted = Range(DATA, 0, origin.end, "1 2")
    with pytest.raises(node_files.ReplacedError), source(hosts).stream([wanted]):
        pass
    with pytest.raises(node_files.ReplacedError):
        source(hosts).block_digests("1 2", 0, origin.end)
    beyond = dataclasses.replace(wanted, end=origin.end + 1, identity=origin.identity)
    with pytest.raises(node_files.ReplacedError), source(hosts).stream([beyond]):
        pass
