"""The record that says whether a node's data hold every commit that the node has confirmed."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from indico_zodbrepl.cluster import Cluster, Node, NodeState, Role, load
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.cluster.layout import data_fs
from indico_zodbrepl.cluster.model import SyncLevel
from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.host import confirmed_commits, datafs, fencing, replacing
from indico_zodbrepl.host.data_end import Complete, DataEnd
from indico_zodbrepl.host.local_data import LocalData

EXAMPLE = Path(__file__).parents[3] / "etc" / "cluster.conf"


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    return load(EXAMPLE, tmp_path)


@pytest.fixture
def b(cluster: Cluster) -> Node:
    node = cluster.node("b")
    node.data_directory.mkdir(parents=True)
    return node


def settled(cluster: Cluster, node: Node, tid: int) -> None:
    before = confirmed_commits.read(cluster, node)
    assert confirmed_commits.settle(cluster, node, before, tid)


def test_a_node_without_a_record_may_lack_commits(cluster: Cluster, b: Node) -> None:
    """Its disk may be a new one, together with the records."""
    assert "no record" in confirmed_commits.doubt(cluster, b, 100)


@pytest.mark.parametrize("backend", ["relstorage-postgresql", "relstorage-mariadb"])
def test_a_database_server_needs_no_record_unless_it_was_away(
    cluster: Cluster, b: Node, backend: str
) -> None:
    cluster = dataclasses.replace(cluster, backend=backend)
    assert confirmed_commits.doubt(cluster, b, 0) == ""
    follows = NodeState(cluster.name, "b", Role.SECONDARY, "a", 2)
    confirmed_commits.distrust_late(cluster, follows, follows)
    assert confirmed_commits.doubt(cluster, b, 0) == ""
    confirmed_commits.distrust_late(cluster, follows, dataclasses.replace(follows, epoch=3))
    assert "not followed the primary of epoch 3" in confirmed_commits.doubt(cluster, b, 0)
    settled(cluster, b, 0)
    assert confirmed_commits.doubt(cluster, b, 0) == ""


def test_a_node_that_was_seen_with_all_of_them_counts_until_its_data_change(
    cluster: Cluster, b: Node
) -> None:
    settled(cluster, b, 90)
    assert confirmed_commits.doubt(cluster, b, 90) == ""
    assert confirmed_commits.doubt(cluster, b, 100) == ""
    confirmed_commits.distrust(cluster, b, "it was restored from a backup")
    assert "it was restored from a backup" in confirmed_commits.doubt(cluster, b, 100)
    settled(cluster, b, 110)
    assert confirmed_commits.doubt(cluster, b, 110) == ""


def test_data_that_end_earlier_than_they_did_do_not_count(cluster: Cluster, b: Node) -> None:
    """Somebody emptied the folder, or put an older file there."""
    settled(cluster, b, 90)
    assert "ended with" in confirmed_commits.doubt(cluster, b, 89)


def test_data_that_were_replaced_while_they_were_looked_at_do_not_count(
    cluster: Cluster, b: Node
) -> None:
    confirmed_commits.distrust(cluster, b, "first")
    before = confirmed_commits.read(cluster, b)
    confirmed_commits.distrust(cluster, b, "second")
    assert not confirmed_commits.settle(cluster, b, before, 100)
    assert "second" in confirmed_commits.doubt(cluster, b, 100)


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"format": 1, "tid": 1}'])
def test_a_damaged_record_counts_as_none(cluster: Cluster, b: Node, content: str) -> None:
    settled(cluster, b, 90)
    confirmed_commits.path_of(cluster, b).write_text(content)
    assert "no record" in confirmed_commits.doubt(cluster, b, 100)


def installation(cluster: Cluster) -> Installation:
    return Installation(cluster.var_directory)


def test_a_follower_that_starts_without_data_is_distrusted(cluster: Cluster, b: Node) -> None:
    settled(cluster, b, 90)
    confirmed_commits.check_start(cluster, installation(cluster), b)
    assert "it started without data" in confirmed_commits.doubt(cluster, b, 100)


@pytest.mark.parametrize(
    ("end", "why"),
    [
        (DataEnd(90), ""),
        (DataEnd(95), ""),
        (DataEnd(89), "ended with"),
        (DataEnd(None, "garbage"), "the end of its data was unknown"),
        (None, "the end of its data was unknown"),
    ],
)
def test_a_follower_that_starts_with_older_data_is_distrusted(
    cluster: Cluster, b: Node, monkeypatch: pytest.MonkeyPatch, end: DataEnd | None, why: str
) -> None:
    """Later it would have more than the record says, and yet less than it confirmed."""
    data_fs(b).write_bytes(b"FS21" + 100 * b" ")
    monkeypatch.setattr("indico_zodbrepl.host.data_end.read", lambda *_: end)
    settled(cluster, b, 90)
    confirmed_commits.check_start(cluster, installation(cluster), b)
    found = confirmed_commits.doubt(cluster, b, 200)
    assert why in found
    assert bool(why) == bool(found)


@pytest.mark.parametrize("level", list(SyncLevel))
def test_what_was_confirmed_before_it_was_on_disk_is_not_trusted_after_a_start(
    cluster: Cluster, b: Node, monkeypatch: pytest.MonkeyPatch, level: SyncLevel
) -> None:
    data_fs(b).write_bytes(b"FS21" + 100 * b" ")
    monkeypatch.setattr("indico_zodbrepl.host.data_end.read", lambda *_: DataEnd(90))
    settled(cluster, b, 90)
    synchronous = dataclasses.replace(cluster.synchronous, count=1, level=level)
    changed = dataclasses.replace(cluster, synchronous=synchronous)
    confirmed_commits.check_start(changed, installation(changed), b)
    found = confirmed_commits.doubt(changed, b, 90)
    assert bool(found) == (level is not SyncLevel.FSYNC)


def test_a_record_that_cannot_be_written_stops_the_change(cluster: Cluster, b: Node) -> None:
    folder = confirmed_commits.path_of(cluster, b).parent
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.write_text("no folder")
    with pytest.raises(OperatorError, match="can't be recorded"):
        confirmed_commits.distrust(cluster, b, "cloned")


def test_a_copy_that_takes_the_place_of_data_is_distrusted_first(
    cluster: Cluster, b: Node, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settled(cluster, b, 90)
    new = replacing.part(b)
    new.parent.mkdir()
    new.write_bytes(b"FS21")
    known = []
    monkeypatch.setattr(
        replacing, "move", lambda *_: known.append(confirmed_commits.doubt(cluster, b, 100))
    )
    with pytest.raises(OperatorError, match="is gone"):
        replacing.swap(cluster, b, tmp_path / "kept")
    assert known
    assert all("a copy took the place of its data" in each for each in known)


def test_a_copy_takes_no_place_while_the_server_runs(
    cluster: Cluster, b: Node, tmp_path: Path
) -> None:
    """Its clone was frozen, for example, and somebody has started the node meanwhile."""
    settled(cluster, b, 90)
    new = replacing.part(b)
    new.parent.mkdir()
    new.write_bytes(b"new")
    data_fs(b).write_bytes(b"old")
    with fencing.held(b), pytest.raises(OperatorError, match="a process has"):
        replacing.swap(cluster, b, tmp_path / "kept")
    assert (data_fs(b).read_bytes(), new.read_bytes()) == (b"old", b"new")
    assert confirmed_commits.doubt(cluster, b, 100) == ""
    assert replacing.swap(cluster, b, tmp_path / "kept")
    assert data_fs(b).read_bytes() == b"new"
    assert (tmp_path / "kept" / "Data.fs").read_bytes() == b"old"


def test_data_that_are_truncated_are_distrusted_first(
    cluster: Cluster, b: Node, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settled(cluster, b, 90)
    known = []
    monkeypatch.setattr(
        datafs,
        "truncate",
        lambda *_, **__: known.append(confirmed_commits.doubt(cluster, b, 100)),
    )
    data = LocalData(cluster, installation(cluster))
    data.truncate("b", "00", tmp_path, dry_run=True)
    data.truncate("b", "00", tmp_path)
    assert known[0] == ""
    assert "its data were truncated" in known[1]


def test_the_end_of_a_real_file_is_read(cluster: Cluster, b: Node) -> None:
    data_fs(b).write_bytes(b"FS21")
    assert Complete(4, 0).tid == 0
    settled(cluster, b, 0)
    confirmed_commits.check_start(cluster, installation(cluster), b)
    assert "it started without data" in confirmed_commits.doubt(cluster, b, 100)
