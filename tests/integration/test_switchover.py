"""A planned switchover loses nothing, whatever happens to who carries it out."""

from __future__ import annotations

import os
import signal

from clusters import ClusterUnderTest, MakeCluster, settles_at, wait_until
from operations import kill_in_the_middle, last_entry, succeed, what_a_plan_could_change
from storage_writer import Writer

from indico_zodbrepl.monitor import take_snapshot
from indico_zodbrepl.operations.operation import Outcome


def primary_and_epochs(under_test: ClusterUnderTest) -> tuple[str | None, set[int | None]]:
    snapshot = take_snapshot(under_test.cluster)
    return snapshot.primary, {node.epoch for node in snapshot.nodes}


def settles_as(under_test: ClusterUnderTest, primary: str, epoch: int) -> None:
    """Wait until this is the primary, and all nodes are in this epoch."""
    expected: tuple[str | None, set[int | None]] = (primary, {epoch})
    settles_at(expected, lambda: primary_and_epochs(under_test))


def all_follow(under_test: ClusterUnderTest) -> None:
    wait_until(
        lambda: all(
            node.connected is not False and node.reachable
            for node in take_snapshot(under_test.cluster).nodes
        ),
        "all follow",
    )


def test_under_a_writer_nothing_is_lost_and_nobody_is_restarted(make_cluster: MakeCluster) -> None:
    under_test = make_cluster(indico=("one",))
    under_test.start()
    all_follow(under_test)
    pids = {name: under_test.pid_of(name) for name in ("node-a", "node-b", "indico-one")}
    before = what_a_plan_could_change(under_test)
    with Writer(under_test) as writer:
        shown = succeed(under_test, "switchover", "--dry-run")
        assert "point of no return" in shown
        assert "bin/zodbrepl" in shown
        assert before == what_a_plan_could_change(under_test)
        for target, epoch in (("b", 2), ("a", 3)):
            succeed(under_test, "switchover", target, "--reason", "a new disk")
            writer.goes_on()
            settles_as(under_test, target, epoch)
    entry = last_entry(under_test)
    assert ("switchover", "a new disk", Outcome.DONE, "a") == (
        entry.plan.operation,
        entry.plan.reason,
        entry.outcome,
        entry.plan.target,
    )
    assert 0 < entry.figures["write_gap_seconds"]
    assert pids == {name: under_test.pid_of(name) for name in pids}
    writer.is_on("a", "b")
    assert "switchover a" in succeed(under_test, "journal")


def test_a_control_plane_that_is_killed_in_the_middle_is_resumed_or_undone(
    cluster: ClusterUnderTest,
) -> None:
    cluster.start()
    all_follow(cluster)
    with Writer(cluster) as writer:
        kill_in_the_middle(cluster, "switchover", "seal", "done")
        refused = cluster.cli("switchover")
        assert (8, True) == (refused.returncode, "was interrupted" in refused.stderr)
        succeed(cluster, "resume", "--undo")
        writer.goes_on()
        settles_as(cluster, "a", 1)
        assert Outcome.UNDONE is last_entry(cluster).outcome
        resume_with_a_frozen_target(cluster)
        writer.goes_on()
        settles_as(cluster, "a", 1)
        for target, epoch, action, progress in (
            ("b", 2, "promote", "begun"),
            ("a", 3, "promote", "done"),
        ):
            kill_in_the_middle(cluster, "switchover", action, progress)
            succeed(cluster, "resume")
            writer.goes_on()
            settles_as(cluster, target, epoch)
            assert Outcome.DONE is last_entry(cluster).outcome
    writer.is_on("a", "b")


def resume_with_a_frozen_target(cluster: ClusterUnderTest) -> None:
    """It has to fail, and to let the primary go on as before."""
    kill_in_the_middle(cluster, "switchover", "hold", "begun")
    frozen = cluster.pid_of("node-b")
    os.kill(frozen, signal.SIGSTOP)
    try:
        failed = cluster.cli("resume")
    finally:
        os.kill(frozen, signal.SIGCONT)
    assert "was not done; everything is as before" in failed.stderr
    assert Outcome.UNDONE is last_entry(cluster).outcome
    all_follow(cluster)


def test_a_running_follower_that_is_told_its_upstream_by_hand_is_not_restarted(
    cluster: ClusterUnderTest,
) -> None:
    cluster.start()
    before = cluster.pid_of("node-b")
    succeed(cluster, "node", "follow", "b", "--upstream", "a", "--epoch", "1")
    assert before == cluster.pid_of("node-b")
    assert True is last_entry(cluster).figures["in_place"]
