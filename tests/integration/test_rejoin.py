"""Nodes that fell out come back: nothing that only they had vanishes."""

from __future__ import annotations

import filecmp
import json
from pathlib import Path

from clusters import ClusterUnderTest, wait_until
from zeo_client import MERGE, UNRELATED, commit, keys, python27, writing

from indico_zodbrepl.cluster.layout import Layout, data_fs, lineage_file
from indico_zodbrepl.errors import ExitCode
from indico_zodbrepl.monitor import take_snapshot


def run(under_test: ClusterUnderTest, *arguments: str, exit_code: int = 0) -> str:
    """A command that has to end with an exit code; what it printed."""
    done = under_test.cli(*arguments)
    assert exit_code == done.returncode, f"{arguments}:\n{done.stdout}{done.stderr}"
    return done.stdout + done.stderr


def identical(under_test: ClusterUnderTest) -> bool:
    filecmp.clear_cache()
    one, other = (data_fs(node) for node in under_test.cluster.nodes)
    return filecmp.cmp(one, other, shallow=False)


def same_files(under_test: ClusterUnderTest) -> None:
    wait_until(lambda: identical(under_test), "both data files are the same")


def tails(under_test: ClusterUnderTest) -> list[Path]:
    folder = Layout(under_test.cluster).lost_tails
    return sorted(folder.iterdir()) if folder.exists() else []


def exported(folder: Path) -> list[str]:
    return [each["tid"] for each in json.loads((folder / "tail.json").read_text())["transactions"]]


def condition(under_test: ClusterUnderTest, node: str) -> object:
    return json.loads(lineage_file(under_test.cluster.node(node)).read_text())["condition"]


def fail_over(under_test: ClusterUnderTest, lost: int, kept: int) -> list[str]:
    """The primary a commits what b never gets, dies, and b takes over; the lost ids."""
    commit(under_test, "a", "common", 5)
    same_files(under_test)
    under_test.stop("node-b")
    tids = commit(under_test, "a", "lost", lost)
    run(under_test, "node", "fence", "a")
    run(under_test, "node", "promote", "b", "--epoch", "2")
    commit(under_test, "b", "kept", kept)
    return tids


def test_an_old_primary_rejoins_and_its_lost_transactions_are_exported_and_recovered(
    cluster: ClusterUnderTest,
) -> None:
    cluster.start()
    lost = fail_over(cluster, lost=5, kept=3)
    before = data_fs(cluster.cluster.node("a")).read_bytes()

    shown = run(cluster, "rejoin", "a", "--dry-run")
    assert "5 transactions that the primary never had" in shown
    refused = run(cluster, "clone", "a", exit_code=ExitCode.REFUSED)
    assert "has 5 transactions that b lacks" in refused
    assert "rejoin a" in refused
    assert before == data_fs(cluster.cluster.node("a")).read_bytes()
    assert [] == tails(cluster)

    told = run(cluster, "rejoin", "a", "--reason", "it is repaired")
    same_files(cluster)
    (folder,) = tails(cluster)
    assert lost == exported(folder)
    cut = folder / "cut.bin"
    assert before.endswith(cut.read_bytes())
    assert "ok" == condition(cluster, "a")
    assert f"recover {folder}" in told
    assert "5 transactions" in told
    assert "it is repaired" in run(cluster, "journal")

    assert "has joined already" in run(cluster, "rejoin", "a")
    assert "it is the primary" in run(cluster, "rejoin", "b", exit_code=ExitCode.REFUSED)

    lost_keys = {f"lost{number}" for number in range(5)}
    assert not lost_keys & keys(cluster, "b")
    assert "5 can be recovered, 0 conflict" in run(cluster, "recover", str(folder))
    assert "5 divergent transactions" in run(cluster, "recover", str(folder), "--all")
    kept = {
        f"{name}{number}" for name, count in (("common", 5), ("kept", 3)) for number in range(count)
    }
    assert lost_keys | kept == keys(cluster, "b")
    assert "recover" in run(cluster, "journal")
    run(cluster, "recover", str(folder), "--all")
    same_files(cluster)


def test_a_former_primary_that_follows_and_was_not_compared_is_rejoined(
    cluster: ClusterUnderTest,
) -> None:
    """An interrupted switchover leaves it so."""
    cluster.start()
    commit(cluster, "a", "common", 5)
    same_files(cluster)
    path = lineage_file(cluster.cluster.node("b"))
    path.write_text(json.dumps({**json.loads(path.read_text()), "was_writable": True}))
    run(cluster, "rejoin", "b")
    assert json.loads(path.read_text())["was_writable"] is False
    same_files(cluster)
    assert "has joined already" in run(cluster, "rejoin", "b")


def test_a_silently_merged_node_rejoins(cluster: ClusterUnderTest) -> None:
    """Its own transaction lies before others that it shares with the primary."""
    cluster.start()
    lost = fail_over(cluster, lost=1, kept=3)
    python27(cluster, MERGE, *(data_fs(node) for node in cluster.cluster.nodes))
    run(cluster, "rejoin", "a")
    same_files(cluster)
    (folder,) = tails(cluster)
    assert lost == exported(folder)[:1]
    assert 4 == len(exported(folder))


def test_a_node_with_another_database_needs_a_clone_and_is_cloned_while_others_write(
    cluster: ClusterUnderTest,
) -> None:
    cluster.start()
    commit(cluster, "a", "common", 5)
    cluster.stop("node-b")
    node = cluster.cluster.node("b")
    for path in node.data_directory.glob("Data.fs*"):
        path.unlink()
    python27(cluster, UNRELATED, data_fs(node))
    other = data_fs(node).read_bytes()

    told = run(cluster, "rejoin", "b", exit_code=ExitCode.REFUSED)
    assert "clone b" in told
    assert "needs-seeding" == condition(cluster, "b")
    assert other == data_fs(node).read_bytes()
    run(cluster, "node", "start", "b", exit_code=ExitCode.REFUSED)

    with writing(cluster, "a", "meanwhile") as tids:
        assert "would" not in run(cluster, "clone", "b", "--dry-run")
        assert other == data_fs(node).read_bytes()
        run(cluster, "clone", "b")
    assert tids
    same_files(cluster)
    assert "ok" == condition(cluster, "b")
    (kept,) = node.data_directory.parent.glob("b.before-clone-*")
    assert other == (kept / "Data.fs").read_bytes()
    assert not (node.data_directory / "clone").exists()


def test_data_directories_may_be_links_to_other_disks(cluster: ClusterUnderTest) -> None:
    for node in cluster.cluster.nodes:
        disk = cluster.folder / f"disk-{node.name}"
        disk.mkdir()
        node.data_directory.parent.mkdir(parents=True, exist_ok=True)
        node.data_directory.symlink_to(disk)
    cluster.start()
    lost = fail_over(cluster, lost=5, kept=3)
    run(cluster, "rejoin", "a")
    same_files(cluster)
    (folder,) = tails(cluster)
    assert lost == exported(folder)
    run(cluster, "clone", "a")
    same_files(cluster)
    run(cluster, "switchover")
    same_files(cluster)
    assert all(node.data_directory.is_symlink() for node in cluster.cluster.nodes)


def part_after_a_pack(under_test: ClusterUnderTest, lost: int, kept: int) -> list[str]:
    """As ``fail_over``; all are packed before, and the disk of a is away until b has committed."""
    commit(under_test, "a", "common", 5)
    same_files(under_test)
    run(under_test, "pack", "--days", "0", "--reason", "to make room")
    under_test.stop("node-b")
    tids = commit(under_test, "a", "lost", lost)
    disk, away = under_test.cluster.node("a").data_directory, under_test.folder / "away"
    disk.rename(away)
    under_test.die("a")
    run(under_test, "node", "start", "b")
    wait_until(lambda: take_snapshot(under_test.cluster).node("b").reachable, "b answers")
    run(under_test, "failover", "--reason", "the disk of a is gone")
    commit(under_test, "b", "kept", kept)
    away.rename(disk)
    return tids


def test_what_was_committed_after_a_pack_is_exported_when_the_disk_comes_back(
    cluster: ClusterUnderTest,
) -> None:
    """A pack explains only what is older than it, also when nobody else has committed since."""
    cluster.start()
    lost = part_after_a_pack(cluster, lost=10, kept=3)
    assert "10 transactions, exported and cut off" in run(cluster, "rejoin", "a", "--dry-run")
    refused = run(cluster, "clone", "a", exit_code=ExitCode.REFUSED)
    assert "has 10 transactions that b lacks" in refused
    assert "10 transactions" in run(cluster, "rejoin", "a")
    (folder,) = tails(cluster)
    assert lost == exported(folder)
    assert "ok" == condition(cluster, "a")
    assert "10 can be recovered, 0 conflict" in run(cluster, "recover", str(folder))


def test_what_a_pack_of_unknown_time_may_hide_is_reported_and_exported_by_a_clone(
    cluster: ClusterUnderTest,
) -> None:
    """Unless the journal tells where the histories parted."""
    cluster.start()
    lost = part_after_a_pack(cluster, lost=10, kept=3)
    for node in cluster.cluster.nodes:
        data_fs(node).with_name("Data.fs.packed").unlink()
    assert "10 transactions, exported and cut off" in run(cluster, "rejoin", "a", "--dry-run")
    Layout(cluster.cluster).journal.rename(cluster.folder / "journal")

    told = run(cluster, "rejoin", "a", exit_code=ExitCode.REFUSED)
    assert "10 transactions up to" in told
    assert "clone a" in told
    assert "needs-seeding" == condition(cluster, "a")
    assert "up to 10 transactions" in " ".join(run(cluster, "clone", "a", "--dry-run").split())
    told = run(cluster, "clone", "a")
    (folder,) = tails(cluster)
    assert lost == exported(folder)
    assert f"recover {folder}" in told
    assert "10 can be recovered, 0 conflict" in run(cluster, "recover", str(folder))
