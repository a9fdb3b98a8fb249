"""Whatever has a dry run can be tried without changing anything at all below var/."""

from __future__ import annotations

import stat
from collections.abc import Sequence
from pathlib import Path

from clusters import ClusterUnderTest, MakeCluster, wait_until
from operations import kill_in_the_middle, succeed
from test_failover import is_seen_gone
from test_switchover import all_follow
from zeo_client import commit

from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.errors import ExitCode

Tree = dict[str, tuple[int, bytes]]
UNCHANGED = "This was a dry run: nothing was changed."


def tree(under_test: ClusterUnderTest) -> Tree:
    """All that is there: mode and content; not logs and clients' caches, which programs write."""
    layout = Layout(under_test.cluster)
    var, written = layout.var, (layout.log, layout.blob_cache, layout.node_blob_caches)
    return {
        str(path.relative_to(var)): (path.lstat().st_mode, _content(path))
        for path in sorted(var.rglob("*"))
        if not any(path.is_relative_to(folder) for folder in written)
    }


def _content(path: Path) -> bytes:
    return path.read_bytes() if stat.S_ISREG(path.lstat().st_mode) else b""


def state_of_all(under_test: ClusterUnderTest) -> tuple[Tree, list[int]]:
    return tree(under_test), sorted(under_test.processes())


def is_as_it_was(
    before: tuple[Tree, list[int]], under_test: ClusterUnderTest, arguments: Sequence[str]
) -> None:
    (files, processes), (files_now, processes_now) = before, state_of_all(under_test)
    changed = {
        name for name in files.keys() | files_now.keys() if files.get(name) != files_now.get(name)
    }
    assert (set(), processes) == (changed, processes_now), arguments


def changes_nothing(under_test: ClusterUnderTest, *arguments: str) -> str:
    """What a dry run prints, which ends well and leaves everything as it is."""
    before = state_of_all(under_test)
    told = succeed(under_test, *arguments, "--dry-run")
    is_as_it_was(before, under_test, arguments)
    assert told.endswith(UNCHANGED + "\n"), told
    return told


def is_refused(under_test: ClusterUnderTest, *arguments: str) -> str:
    """Why a dry run is refused, which leaves everything as it is."""
    before = state_of_all(under_test)
    refused = under_test.cli(*arguments, "--dry-run")
    is_as_it_was(before, under_test, arguments)
    assert ExitCode.REFUSED == refused.returncode, (refused.stdout, refused.stderr)
    return refused.stderr


def test_before_anything_was_started_no_data_are_cloned_or_rejoined(
    cluster: ClusterUnderTest,
) -> None:
    assert "supervisord" in changes_nothing(cluster, "up")
    is_refused(cluster, "clone", "b")
    is_refused(cluster, "rejoin", "b")
    assert not Layout(cluster.cluster).var.exists()


def test_while_all_is_well(make_cluster: MakeCluster) -> None:
    cluster = make_cluster(indico=("one",))
    cluster.up()
    all_follow(cluster)
    commit(cluster, "a", "kept", 5)
    assert "node-a runs" in changes_nothing(cluster, "up")
    told = changes_nothing(cluster, "down")
    stops = [line.rpartition(" stop ")[2] for line in told.splitlines() if " stop " in line]
    assert ["admin", "indico-one", "node-a", "node-b", "supervisord"] == stops
    told = changes_nothing(cluster, "node", "restart-client", "one")
    assert "replace the workers of indico-one" in told
    for command in (["switchover"], ["clone", "b"], ["pack"]):
        changes_nothing(cluster, *command)
    assert "primary a is running" in is_refused(cluster, "failover")


def test_of_a_conversion(make_cluster: MakeCluster, tmp_path: Path) -> None:
    source = make_cluster()
    source.start()
    commit(source, "a", "kept", 3)
    source.down()
    target = make_cluster(folder=tmp_path / "target")
    is_as_it_was_there = tree(source)
    changes_nothing(
        target,
        "convert",
        "--to",
        str(target.path),
        "--from",
        str(source.folder / "var" / "node" / "a" / "Data.fs"),
    )
    changes_nothing(source, "convert", "--to", str(target.path))
    assert is_as_it_was_there == tree(source)
    assert not Layout(target.cluster).var.exists()


def test_of_a_clone_to_a_node_whose_disk_is_new(cluster: ClusterUnderTest) -> None:
    cluster.start()
    all_follow(cluster)
    succeed(cluster, "node", "stop", "b")
    folder = cluster.cluster.node("b").data_directory
    folder.rename(folder.with_name("away"))
    changes_nothing(cluster, "clone", "b")
    assert not folder.exists()
    succeed(cluster, "clone", "b")
    all_follow(cluster)


def test_after_a_failover_that_was_cut_short(cluster: ClusterUnderTest) -> None:
    cluster.start()
    all_follow(cluster)
    commit(cluster, "a", "kept", 5)
    succeed(cluster, "node", "stop", "b")
    commit(cluster, "a", "lost", 5)
    cluster.die("a")
    succeed(cluster, "node", "start", "b")
    wait_until(lambda: is_seen_gone(cluster, "a"), "a is seen gone")
    changes_nothing(cluster, "failover")
    changes_nothing(cluster, "node", "start", "a")
    changes_nothing(cluster, "up")
    kill_in_the_middle(cluster, "failover", "promote", "done")
    for options in ([], ["--abandon", "--reason", "a test"]):
        changes_nothing(cluster, "resume", *options)
    assert "can't be undone" in is_refused(cluster, "resume", "--undo")
    for command in (["rejoin", "a"], ["clone", "a"], ["switchover"], ["failover"]):
        assert "failover to b was interrupted" in is_refused(cluster, *command)
    refused = cluster.cli("up")
    assert ExitCode.REFUSED == refused.returncode
    assert refused.stderr.rstrip().endswith("finish it first: " + resume(cluster))
    refused = cluster.cli("node", "start", "a")
    assert "failover to b was interrupted" in refused.stderr
    assert refused.stderr.rstrip().endswith("finish it first: " + resume(cluster))
    succeed(cluster, "resume")
    assert "5 transactions that the primary never had" in changes_nothing(cluster, "rejoin", "a")
    succeed(cluster, "rejoin", "a")
    (tail,) = Layout(cluster.cluster).lost_tails.iterdir()
    before = state_of_all(cluster)
    assert "would be written" in succeed(cluster, "recover", str(tail), "--all", "--dry-run")
    is_as_it_was(before, cluster, ["recover"])


def resume(under_test: ClusterUnderTest) -> str:
    return f"bin/zodbrepl -c {under_test.path} resume"
