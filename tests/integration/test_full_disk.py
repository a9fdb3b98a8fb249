"""A primary whose disk is full is reported, and its role can be handed over."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from clusters import ClusterUnderTest, wait_until
from disks import small_disk
from operations import last_entry, succeed, what_a_plan_could_change
from storage_writer import Writer
from test_switchover import all_follow, settles_as

from indico_zodbrepl.cluster.files import spare_of
from indico_zodbrepl.host import state
from indico_zodbrepl.host.disks import Room
from indico_zodbrepl.monitor import take_snapshot
from indico_zodbrepl.operations.operation import Outcome

SIZE = 8 << 20
NO_SPACE = "can't write: No space left on device"


def fill(folder: Path) -> Path:
    """Fill a disk up to its last block; return the file that does."""
    ballast = folder / "ballast"
    with contextlib.suppress(OSError), ballast.open("ab", buffering=0) as file:
        while True:
            file.write(bytes(4096))
    return ballast


@pytest.fixture
def on_a_small_disk(cluster: ClusterUnderTest) -> Iterator[ClusterUnderTest]:
    """A running pair; the data directory of primary a is a small disk."""
    disk = small_disk("a", data(cluster, "a"), SIZE)
    if disk is None:
        pytest.skip("only root can mount a small disk")
    with contextlib.closing(disk):
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
