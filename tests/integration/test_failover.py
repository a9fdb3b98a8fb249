"""A forced failover: only from a primary that is gone, and nothing is lost without a word."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

from clusters import ClusterUnderTest, MakeCluster, settles_at, wait_until
from operations import kill_in_the_middle, last_entry, succeed, what_a_plan_could_change
from storage_writer import Writer, numbers_on
from test_start_up_check import commit, last_tid
from test_switchover import all_follow, settles_as

from indico_zodbrepl.host import supervisor
from indico_zodbrepl.monitor import take_snapshot
from indico_zodbrepl.operations.operation import Outcome


def is_seen_gone(under_test: ClusterUnderTest, node: str) -> bool:
    snapshot = take_snapshot(under_test.cluster)
    return not snapshot.node(node).reachable and all(
        other.reachable and not other.connected for other in snapshot.nodes if other.name != node
    )


def test_of_a_primary_that_lives_it_is_refused_and_changes_nothing(
    cluster: ClusterUnderTest,
) -> None:
    cluster.start()
    all_follow(cluster)
    before = what_a_plan_could_change(cluster)
    refused = cluster.cli("failover", "--reason", "impatience")
    assert 8 == refused.returncode
    assert "primary a is running" in refused.stderr
    assert "switchover" in refused.stderr
    assert 2 == cluster.cli("failover").returncode, "a reason is required"
    assert before == what_a_plan_could_change(cluster)
    frozen = cluster.pid_of("node-a")
    os.kill(frozen, signal.SIGSTOP)
    assert "SIGSTOP" in succeed(cluster, "failover", "--dry-run")
    assert before == what_a_plan_could_change(cluster)
    succeed(cluster, "failover", "--reason", "it is frozen")
    wait_until(lambda: cluster.pid_of("node-a") != frozen, "the frozen process is gone")
    settles_as(cluster, "b", 2)
    assert Outcome.DONE is last_entry(cluster).outcome
    wait_until(lambda: take_snapshot(cluster.cluster).node("b").followers == ("a",), "a follows")


def test_what_only_the_dead_primary_had_is_exported_and_reported_and_clients_are_restarted(
    make_cluster: MakeCluster,
) -> None:
    under_test = make_cluster(indico=("one",))
    under_test.start()
    all_follow(under_test)
    client = under_test.pid_of("indico-one")
    with Writer(under_test) as writer:
        under_test.stop("node-b")
        writer.goes_on()
        under_test.die("a")
        succeed(under_test, "node", "start", "b")
        acknowledged = set(writer.acknowledged)
        wait_until(lambda: is_seen_gone(under_test, "a"), "a is seen gone")
        shown = succeed(under_test, "failover", "--reason", "a test")
        writer.goes_on()
    lost = acknowledged - numbers_on(under_test, "b")
    assert len(lost) >= 20
    entry = last_entry(under_test)
    folder = Path(entry.figures["exported_to"])
    kept = json.loads((folder / "tail.json").read_text())
    assert len(kept["transactions"]) == entry.figures["lost_transactions"] >= len(lost)
    assert 0o700 == folder.stat().st_mode & 0o777
    assert str(folder) in " ".join(shown.split())
    assert "rejoin a" in shown
    assert client != under_test.pid_of("indico-one")
    assert "STOPPED" == supervisor.program_states(under_test.cluster)["node-a"].state
    assert f"{entry.figures['lost_transactions']}" in succeed(under_test, "journal")
    # The rejoin needs no second export of the same.
    assert f"that is in {folder}" in " ".join(succeed(under_test, "rejoin", "a").split())
    assert [folder] == list(folder.parent.iterdir())


def test_one_that_is_killed_in_the_middle_is_resumed(cluster: ClusterUnderTest) -> None:
    cluster.start()
    all_follow(cluster)
    for old, new, epoch, action in (("a", "b", 2, "fence"), ("b", "a", 3, "promote")):
        cluster.die(old)
        wait_until(
            lambda old=old: is_seen_gone(cluster, old),  # type: ignore[misc]
            f"{old} is seen gone",
        )
        kill_in_the_middle(cluster, "failover", action, "done")
        succeed(cluster, "resume")
        assert Outcome.DONE is last_entry(cluster).outcome
        settles_as(cluster, new, epoch)
        all_follow(cluster)


def test_a_refusal_of_before_the_failover_is_not_replayed_after_it(
    cluster: ClusterUnderTest,
) -> None:
    cluster.start()
    all_follow(cluster)
    settles_at(commit(cluster, "a"), lambda: last_tid(cluster, "b"))
    cluster.die("a")
    cluster.cluster.node("a").data_directory.rename(cluster.folder / "lost")
    supervisor.Supervisor(cluster.cluster).start("node-a")

    def refused() -> bool:
        return take_snapshot(cluster.cluster).node("a").refusal is not None

    wait_until(refused, "node a refuses to start without its data")
    wait_until(lambda: is_seen_gone(cluster, "a"), "a is seen gone")
    succeed(cluster, "failover", "--reason", "its disk is gone")
    wait_until(lambda: take_snapshot(cluster.cluster).primary == "b", "b is the only primary")
    assert not refused()
    assert "failover b" not in cluster.cli("status").stdout
