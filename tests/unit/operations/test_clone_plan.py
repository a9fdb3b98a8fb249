"""What a clone plans, and how it puts the copy in its place."""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path

import pytest
from clone_facts import FACTS, GIGABYTE

from indico_zodbrepl.cluster import Cluster, load
from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.host.replacing import aside, part, staged
from indico_zodbrepl.operations.clone import plan_clone
from indico_zodbrepl.operations.model import KINDS, Context, Plan, Refusal, plan_from_json

HOME = Path(__file__).parents[3]


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    path = tmp_path / "cluster.conf"
    path.write_text((HOME / "etc" / "cluster.conf").read_text())
    return load(path, tmp_path)


def plan(cluster: Cluster, **more: object) -> Plan | Refusal:
    facts = dataclasses.replace(FACTS, **more)  # type: ignore[arg-type]
    return plan_clone(cluster, facts, "a reason", Commands(cluster, HOME))


def test_the_old_data_is_in_its_place_until_the_copy_is_complete(cluster: Cluster) -> None:
    found = plan(cluster)
    assert isinstance(found, Plan)
    assert [
        "fence",
        "clone-copy",
        "clone-swap",
        "assign",
        "rejoin-mark",
        "start",
        "rejoin-catch-up",
    ] == [step.action for step in found.steps]
    assert "clone-swap" == found.steps[found.no_return()].action
    assert all(KINDS[step.action] is type(step) for step in found.steps)


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({"node": "a"}, "is the primary of epoch 3"),
        ({"primary_problem": "connection refused"}, "the primary does not serve"),
        ({"source": "c", "source_problem": "it does not follow a now"}, "its data can't be copied"),
        ({"free": GIGABYTE}, "its disk has too little room"),
    ],
)
def test_what_stands_against_a_clone_is_said_before_anything_is_changed(
    cluster: Cluster, more: dict[str, object], text: str
) -> None:
    found = plan(cluster, **more)
    assert isinstance(found, Refusal)
    assert text in [each.text for each in found.findings if each.verdict == "against"]
    assert ("switchover" if "node" in more else "repair what is named") in found.hint


def test_what_an_interrupted_clone_has_left_counts_as_room(cluster: Cluster) -> None:
    assert isinstance(plan(cluster, free=GIGABYTE, copied=GIGABYTE // 2), Plan)


def test_an_operation_of_an_earlier_release_can_be_resumed(cluster: Cluster) -> None:
    made = plan(cluster)
    assert isinstance(made, Plan)
    written = json.loads(json.dumps(made.to_json()).replace('"clone', '"seed'))
    assert ["fence", "seed-copy", "seed-swap"] == [step["action"] for step in written["steps"][:3]]
    assert made == plan_from_json(written)


def test_an_interrupted_copy_of_an_earlier_release_is_used(disk: Disk) -> None:
    (disk.data / "clone").rename(disk.data / "seed")
    assert staged(disk.node).complete
    disk.swap()
    assert NEW == disk.files(disk.data)
    assert disk.data / "clone/Data.fs" == part(disk.node)


def test_the_time_limit_grows_with_the_data(cluster: Cluster) -> None:
    small, large = plan(cluster, size=1), plan(cluster, size=100 * GIGABYTE, free=2**40)
    assert isinstance(small, Plan)
    assert isinstance(large, Plan)
    assert small.steps[1].seconds < 1000
    assert large.steps[1].seconds > 100_000


NEW = {"Data.fs": "new", "Data.fs.index": "new", "blobs/2": "new", "state.json": "state"}


class Disk:
    """A node's data directory with old data and a complete copy."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.node = cluster.node("b")
        self.data = self.node.data_directory
        self.kept = cluster.var_directory / "kept"
        for path, text in (
            ("Data.fs", "old"),
            ("Data.fs.index", "old"),
            ("blobs/1", "old"),
            ("lineage.json", "old"),
            ("state.json", "state"),
            ("clone/Data.fs", "new"),
            ("clone/blobs/2", "new"),
            ("clone/Data.fs.index", "new"),
            ("clone/Data.fs.lock", ""),
        ):
            (self.data / path).parent.mkdir(parents=True, exist_ok=True)
            (self.data / path).write_text(text)

    def swap(self) -> None:
        found = plan(self.cluster, aside=self.kept)
        assert isinstance(found, Plan)
        step = next(step for step in found.steps if step.action == "clone-swap")
        step.do(self._context(found))

    def _context(self, found: Plan) -> Context:
        return Context(
            cluster=self.cluster,
            installation=Installation(HOME),
            began=0.0,
            plan=found,
            results={},
            say=lambda _text: None,
        )

    def files(self, folder: Path) -> dict[str, str]:
        return {
            str(path.relative_to(folder)): path.read_text()
            for path in folder.rglob("*")
            if path.is_file() and path.name != "Data.fs.lock"  # each opening leaves it
        }


@pytest.fixture
def disk(cluster: Cluster) -> Disk:
    return Disk(cluster)


def test_the_copy_takes_the_place_of_the_old_data_which_is_kept(disk: Disk) -> None:
    disk.swap()
    assert NEW == disk.files(disk.data)
    assert {
        "Data.fs": "old",
        "Data.fs.index": "old",
        "blobs/1": "old",
        "lineage.json": "old",
    } == disk.files(disk.kept)


@pytest.mark.parametrize("renames", range(8))
def test_a_swap_that_was_cut_short_is_finished_by_the_next_one(
    disk: Disk, monkeypatch: pytest.MonkeyPatch, renames: int
) -> None:
    rename, left = Path.rename, [renames]

    def dying(path: Path, target: Path) -> Path:
        if not left[0]:
            raise OSError(5, "killed here", str(path))
        left[0] -= 1
        return rename(path, target)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "rename", dying)
        if renames < 7:
            with pytest.raises(OperatorError, match="can't be put in its place"):
                disk.swap()
        else:
            disk.swap()
    disk.swap()
    assert NEW == disk.files(disk.data)
    assert {
        "Data.fs": "old",
        "Data.fs.index": "old",
        "blobs/1": "old",
        "lineage.json": "old",
    } == disk.files(disk.kept)


def test_a_node_without_data_gets_the_copy_and_nothing_is_kept(disk: Disk) -> None:
    for name in ("Data.fs", "Data.fs.index", "blobs/1", "lineage.json"):
        (disk.data / name).unlink()
    (disk.data / "blobs").rmdir()
    disk.swap()
    assert NEW == disk.files(disk.data)
    assert not disk.kept.exists()


def test_a_swap_without_a_copy_changes_nothing(disk: Disk) -> None:
    part(disk.node).unlink()
    (disk.data / "Data.fs").unlink()
    with pytest.raises(OperatorError, match="is gone"):
        disk.swap()
    assert not disk.kept.exists()


def test_old_data_is_kept_beside_the_data_directory(disk: Disk) -> None:
    path = aside(disk.node, "clone", 1_700_000_000.0)
    assert disk.data.parent / "b.before-clone-20231114T221320Z" == path


def test_old_data_is_kept_inside_where_nothing_can_be_made_beside_it(
    disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda path, _mode: path != disk.data.parent)
    assert disk.data == aside(disk.node, "clone", 0.0).parent
