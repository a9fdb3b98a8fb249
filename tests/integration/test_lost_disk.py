"""A primary whose data file is gone, empty or shorter: it is not served, and no copy suffers."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
from pathlib import Path

from clusters import ClusterUnderTest, MakeCluster, wait_until
from operations import last_entry, succeed
from test_switchover import all_follow, settles_as
from zeo_client import commit, keys

from indico_zodbrepl.cluster.layout import Layout, data_fs, lineage_file, state_file
from indico_zodbrepl.errors import ExitCode

TRIO = {"a": ("primary", None), "b": ("secondary", "a"), "c": ("secondary", "a")}


def primary_b(make_cluster: MakeCluster) -> ClusterUnderTest:
    """a, b and c after a switchover: the primary, b, is a secondary by the cluster file."""
    cluster = make_cluster(TRIO)
    cluster.start()
    commit(cluster, "a", "common", 5)
    all_follow(cluster)
    succeed(cluster, "switchover", "b")
    settles_as(cluster, "b", 2)
    return cluster


def lose_the_disk(cluster: ClusterUnderTest, name: str) -> Path:
    """Take a node's data directory away and kill its server; return where the data is now."""
    folder = cluster.cluster.node(name).data_directory
    away = folder.with_name(f"{name}.away")
    pid = cluster.pid_of(f"node-{name}")
    folder.rename(away)
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: cluster.program(name) in ("EXITED", "FATAL"), f"{name} is not started")
    return away


def give_back(cluster: ClusterUnderTest, name: str, away: Path) -> None:
    folder = cluster.cluster.node(name).data_directory
    assert not (folder / "Data.fs").exists()
    if folder.exists():
        folder.rename(folder.with_name(f"{name}.empty"))
    away.rename(folder)


def conditions(cluster: ClusterUnderTest) -> set[str]:
    return {
        json.loads(lineage_file(node).read_text())["condition"]
        for node in cluster.cluster.nodes
        if lineage_file(node).exists()
    }


def exported_keys(cluster: ClusterUnderTest) -> int:
    """Transactions in all recovery exports."""
    found = Layout(cluster.cluster).lost_tails.glob("*/tail.json")
    return sum(len(json.loads(path.read_text())["transactions"]) for path in found)


def follow_the_hint(cluster: ClusterUnderTest, hint: str) -> str:
    """Give the failover or clone that a hint names, as it is printed."""
    found = re.search(r"zodbrepl -c \S+ ((?:failover|clone) .*)", hint)
    assert found, hint
    return succeed(cluster, *shlex.split(found.group(1)))


def test_after_a_switchover_the_commits_on_a_lost_disk_are_declared_and_come_back_with_it(
    make_cluster: MakeCluster,
) -> None:
    """The followers were down, so the lost primary alone has the last 60."""
    cluster = primary_b(make_cluster)
    for name in ("a", "c"):
        cluster.die(name)
    commit(cluster, "b", "alone", 60)
    away = lose_the_disk(cluster, "b")
    for name in ("a", "c"):
        succeed(cluster, "node", "start", name)
    assert {"ok"} == conditions(cluster)
    refused = cluster.cli("node", "start", "b")
    assert ExitCode.REFUSED == refused.returncode
    assert "it has no data" in refused.stderr
    dry_run = succeed(cluster, "failover", "--dry-run")
    assert "possibly some transactions" in dry_run
    assert "has every transaction" not in dry_run
    follow_the_hint(cluster, refused.stderr)
    lost = last_entry(cluster).plan.loss
    assert lost is not None
    assert not lost.exact
    assert 5 == len(keys(cluster, "a"))

    give_back(cluster, "b", away)
    assert "60 transactions" in succeed(cluster, "rejoin", "b")
    assert 60 == exported_keys(cluster)


def test_a_frozen_follower_that_thaws_is_not_believed_to_have_all_that_a_lost_disk_had(
    cluster: ClusterUnderTest,
) -> None:
    cluster.start()
    commit(cluster, "a", "common", 5)
    all_follow(cluster)
    succeed(cluster, "switchover", "b")
    cluster.signal("a", signal.SIGSTOP)
    commit(cluster, "b", "alone", 5)
    lose_the_disk(cluster, "b")
    cluster.signal("a", signal.SIGCONT)
    dry_run = succeed(cluster, "failover", "--dry-run")
    assert "possibly some transactions" in dry_run
    assert "has every transaction" not in dry_run


def test_a_primary_with_a_shorter_file_than_its_follower_does_not_start(
    cluster: ClusterUnderTest,
) -> None:
    """The whole copy takes over, and loses nothing."""
    cluster.start()
    commit(cluster, "a", "common", 5)
    all_follow(cluster)
    whole = data_fs(cluster.cluster.node("a")).read_bytes()
    commit(cluster, "a", "later", 10)
    all_follow(cluster)
    for name in ("a", "b"):
        cluster.die(name)
    data_fs(cluster.cluster.node("a")).write_bytes(whole)
    refused = cluster.cli("node", "start", "a")
    assert ExitCode.REFUSED == refused.returncode, refused.stderr
    assert "its data file lacks transactions" in refused.stderr
    assert "node b: up to" in refused.stderr
    assert whole == data_fs(cluster.cluster.node("a")).read_bytes()
    succeed(cluster, "node", "start", "b")
    assert {"ok"} == conditions(cluster)
    follow_the_hint(cluster, refused.stderr)
    succeed(cluster, "rejoin", "a")
    assert 15 == len(keys(cluster, "b"))
    assert 0 == exported_keys(cluster)


def test_a_damaged_state_file_is_derived_from_the_records_of_the_epoch(
    cluster: ClusterUnderTest,
) -> None:
    cluster.start()
    commit(cluster, "a", "common", 5)
    all_follow(cluster)
    succeed(cluster, "switchover", "b")
    for name in ("b", "a"):
        succeed(cluster, "node", "stop", name)
        path = state_file(cluster.cluster.node(name))
        path.write_text("{")
        refused = cluster.cli("node", "start", name)
        assert ExitCode.REFUSED == refused.returncode
        assert "records of the epoch" in refused.stderr
        command = shlex.split(refused.stderr.rpartition("HINT: ")[2].rpartition(": ")[2])
        assert ["mv", str(path)] == command[:2]
        subprocess.run(command, check=True)
        succeed(cluster, "node", "start", name)
    settles_as(cluster, "b", 2)
    all_follow(cluster)
    assert 5 == len(keys(cluster, "b"))


def test_a_follower_with_a_damaged_data_file_is_cloned_as_its_refusal_says(
    cluster: ClusterUnderTest,
) -> None:
    cluster.start()
    commit(cluster, "a", "common", 5)
    all_follow(cluster)
    succeed(cluster, "node", "stop", "b")
    with data_fs(cluster.cluster.node("b")).open("ab") as file:
        file.write(b"no transaction" * 10)
    refused = cluster.cli("restart", "b")
    assert ExitCode.REFUSED == refused.returncode
    follow_the_hint(cluster, refused.stderr)
    all_follow(cluster)
    assert 5 == len(keys(cluster, "b"))
