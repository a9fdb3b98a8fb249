"""What nodes with full disks do, and what they are in the way of."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from clusters import PAIR, ClusterUnderTest, MakeCluster, wait_until
from disks import fill, small_disk_or_skip
from operations import kill_in_the_middle, last_entry, succeed, what_a_plan_could_change
from storage_writer import Writer
from test_switchover import all_follow, settles_as
from zeo_client import commit

from indico_zodbrepl.cluster.files import spare_of
from indico_zodbrepl.errors import ExitCode
from indico_zodbrepl.host import state
from indico_zodbrepl.host.disks import Room
from indico_zodbrepl.monitor import take_snapshot
from indico_zodbrepl.operations.operation import Outcome

SIZE = 8 << 20
NO_SPACE = "can't write: No space left on device"


@pytest.fixture
def on_a_small_disk(cluster: ClusterUnderTest) -> Iterator[ClusterUnderTest]:
    """A running pair; the data directory of primary a is a small disk."""
    with contextlib.closing(small_disk_or_skip("a", data(cluster, "a"), SIZE)):
        cluster.start()
        all_follow(cluster)
        yield cluster
        cluster.close()


def data(cluster: ClusterUnderTest, node: str) -> Path:
    return cluster.cluster.node(node).data_directory


def test_a_full_primary_is_critical_and_hands_over_its_role(
    on_a_small_disk: ClusterUnderTest,
) -> None:
    cluster = on_a_small_disk
    with Writer(cluster) as writer:
        ballast = fill(data(cluster, "a"))
        wait_until(
            lambda: take_snapshot(cluster.cluster).node("a").write_failure is not None,
            "a failed write is reported",
        )
        shown = cluster.cli("status")
        assert (2, True) == (shown.returncode, f"primary a {NO_SPACE}" in shown.stdout), shown
        assert "switchover b" in shown.stdout

        spare = spare_of(data(cluster, "a"))
        renamed = spare.rename(spare.with_name("renamed"))
        refused_and_unchanged(cluster)
        renamed.rename(spare)

        succeed(cluster, "switchover", "b")
        writer.goes_on()
        settles_as(cluster, "b", 2)
        assert Outcome.DONE is last_entry(cluster).outcome
        assert 5.0 > float(str(last_entry(cluster).figures["write_gap_seconds"]))
        written = state.current(cluster.cluster, cluster.cluster.node("a"))
        assert ("secondary", "b", 2) == (written.role, written.upstream, written.epoch)
        snapshot = take_snapshot(cluster.cluster)
        assert ((), Room.FULL) == (snapshot.rivals, snapshot.node("a").disk.room)  # type: ignore[union-attr]

        ballast.unlink()
        all_follow(cluster)
    writer.is_on("a", "b")


def refused_and_unchanged(cluster: ClusterUnderTest) -> None:
    """Without its spare file the primary can't write its new state; that is told before."""
    before = what_a_plan_could_change(cluster)
    refused = cluster.cli("switchover", "b")
    assert (8, True) == (refused.returncode, "its state can't be written" in refused.stdout), (
        refused
    )
    assert "df -h" in refused.stderr
    assert before == what_a_plan_could_change(cluster)
    settles_as(cluster, "a", 1)
    assert take_snapshot(cluster.cluster).node("a").held is None


def test_a_rejoin_without_room_says_what_is_needed_and_is_in_the_way_of_no_failover(
    make_cluster: MakeCluster,
) -> None:
    cluster = make_cluster({**PAIR, "c": ("secondary", "a")})
    with contextlib.closing(small_disk_or_skip("a", data(cluster, "a"), SIZE)):
        cluster.start()
        all_follow(cluster)
        interrupt_a_rejoin(cluster)
        ballast = fill(data(cluster, "a"))

        stopped = cluster.cli("resume")
        assert ExitCode.FAILED == stopped.returncode, stopped
        assert "Wait until a follows b" in stopped.stderr
        for text in ("no space left on the disk", "the disk of node a", "MiB", "still writes"):
            assert text in stopped.stderr
        assert "df -h" in stopped.stderr
        assert "resume --abandon" in stopped.stderr

        cluster.die("b")
        advice = cluster.cli("status").stdout
        assert advice.index("restart b") < advice.index("failover c --dry-run"), advice
        assert "resume" not in advice.partition("What to do")[2], advice
        assert "its rejoin was interrupted" in succeed(cluster, "failover", "c", "--dry-run")
        done = cluster.cli("failover", "c", "--reason", "b is dead")
        assert "failover to c is done, but some steps failed" in done.stdout, done  # those of a
        commit(cluster, "c", "after the failover", 3)

        ballast.unlink()
        succeed(cluster, "rejoin", "a")
        settles_as(cluster, "c", 3)
        cluster.close()


def interrupt_a_rejoin(cluster: ClusterUnderTest) -> None:
    """After a failover to b, a rejoins; that is killed behind its point of no return."""
    commit(cluster, "a", "common", 5)
    all_follow(cluster)
    for node in ("b", "c"):
        cluster.stop(f"node-{node}")
    commit(cluster, "a", "lost", 5)
    cluster.die("a")
    for node in ("b", "c"):
        succeed(cluster, "node", "start", node)
    succeed(cluster, "failover", "b", "--reason", "a is dead")
    commit(cluster, "b", "kept", 3)
    kill_in_the_middle(cluster, "rejoin", "rejoin-mark", "begun", "a")
