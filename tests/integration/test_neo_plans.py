"""NEO's own plans on a real cluster: a storage without its disk, and what hangs, come back.

The NEO monitor of this cluster waits for an hour, so that what hangs is left to the commands.  All
tests share the cluster; each leaves it whole.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import programs27
import pytest
from clusters import PATIENCE, ClusterUnderTest, Roles, running, wait_until
from operations import last_entry, succeed
from storage_writer import READER, Writer

from indico_zodbrepl.backends.consensus import Look
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.errors import ExitCode
from indico_zodbrepl.host.supervisor import Supervisor
from indico_zodbrepl.monitor import take_snapshot
from indico_zodbrepl.operations.consensus_facts import look_anew
from indico_zodbrepl.probing.wire import ProbeError

NODES: Roles = {
    "m1": ("master", None),
    "m2": ("master", None),
    "s1": ("storage", None),
    "s2": ("storage", None),
    "w": ("admin", None),
}
ENGINE = ("<neo>", "  replicas 1", "  partitions 4", "  hung-after 3600", "</neo>")
LOOK_SECONDS = 10.0


@pytest.fixture(scope="module")
def neo(tmp_path_factory: pytest.TempPathFactory, home: Path) -> Iterator[ClusterUnderTest]:
    """Two masters and two storages with a copy each; no Indico."""
    with running(
        ClusterUnderTest(tmp_path_factory.mktemp("neo"), home, NODES, backend="neo", engine=ENGINE)
    ) as under_test:
        yield under_test


@pytest.fixture
def whole(neo: ClusterUnderTest) -> ClusterUnderTest:
    wait_until(lambda: copies(neo) == 2, "both copies are up to date")
    return neo


def look(neo: ClusterUnderTest) -> Look | None:
    try:
        return look_anew(neo.cluster)
    except ProbeError:
        return None  # it has just been started, or is frozen


def copies(neo: ClusterUnderTest) -> int:
    found = look(neo)
    return found.copies if found is not None and found.writable else 0


def leader(neo: ClusterUnderTest) -> str:
    found = look(neo)
    assert found is not None
    assert found.leader is not None
    return found.leader


def numbers(neo: ClusterUnderTest) -> set[int]:
    """What a new client reads; one that loses its connection meanwhile is followed by another."""
    deadline = time.monotonic() + PATIENCE
    while True:
        done = programs27.run(
            neo.installation.python27, READER, Layout(neo.cluster).zodb_conf, seconds=PATIENCE
        )
        if done.returncode == 0:
            return set(map(int, done.stdout.split()))
        assert "ClientDisconnected" in done.stderr, done.stderr
        assert time.monotonic() < deadline, done.stderr


def silent(neo: ClusterUnderTest, node: str) -> bool:
    found = look(neo)
    return found is not None and found.member(node).ping == "silent"


def test_a_storage_that_lost_its_disk_is_shown_and_rejoins_while_others_write(
    whole: ClusterUnderTest,
) -> None:
    """Afterwards it stands in for the other one, which was only stopped and only catches up."""
    node = whole.cluster.node("s1")
    assert "has joined already" in succeed(whole, "rejoin", "s1")
    whole.stop("node-s1")
    for path in node.data_directory.glob("neo.sqlite*"):
        path.unlink()
    Supervisor(whole.cluster).start("node-s1")
    wait_until(
        lambda: any(
            "is empty and not taken in" in alert.text and "rejoin s1`" in alert.hint
            for alert in take_snapshot(whole.cluster, LOOK_SECONDS).warnings
        ),
        "the status tells of it",
    )
    assert "the other storages hold everything (each of 4 partitions)" in succeed(
        whole, "rejoin", "s1", "--dry-run"
    )
    assert copies(whole) == 1
    with Writer(whole) as writer:
        succeed(whole, "rejoin", "s1", "--reason", "its disk was replaced")
        writer.goes_on()
    assert copies(whole) == 2
    entry = last_entry(whole)
    assert ("rejoin", "its disk was replaced", "done") == (
        entry.plan.operation,
        entry.plan.reason,
        entry.outcome,
    )
    whole.stop("node-s2")
    wait_until(lambda: copies(whole) == 1, "the refilled storage serves alone")
    assert not set(writer.acknowledged) - numbers(whole)
    assert "forget" not in succeed(whole, "rejoin", "s2")
    assert copies(whole) == 2


def test_a_storage_whose_program_ended_and_whose_disk_is_empty_is_started_and_filled(
    whole: ClusterUnderTest,
) -> None:
    node = whole.cluster.node("s2")
    whole.stop("node-s2")
    for path in node.data_directory.glob("neo.sqlite*"):
        path.unlink()
    assert "forget s2" in succeed(whole, "rejoin", "s2")
    assert copies(whole) == 2


def test_a_failover_is_refused_while_nothing_hangs(whole: ClusterUnderTest) -> None:
    reason = ("--reason", "to be sure")
    for arguments in (
        ("failover", *reason),
        ("failover", "s1", *reason),
        ("failover", leader(whole), *reason),
        ("rejoin", "m1"),
    ):
        done = whole.cli(*arguments)
        assert done.returncode == ExitCode.REFUSED, done.stdout + done.stderr
    assert (
        f"have elected {leader(whole)} by themselves" in whole.cli("failover", "--dry-run").stderr
    )


@pytest.mark.parametrize("role", ["storage", "master"])
def test_what_hangs_is_ended_and_started_again_and_no_acknowledged_write_is_lost(
    whole: ClusterUnderTest, role: str
) -> None:
    name = "s1" if role == "storage" else leader(whole)
    pid = whole.pid_of(f"node-{name}")
    with Writer(whole) as writer:
        os.kill(pid, signal.SIGSTOP)
        wait_until(lambda: silent(whole, name), "it is seen to be silent")
        assert f"FAILOVER of {name}" in succeed(whole, "failover", "--reason", "it hangs")
        writer.goes_on()
    assert not set(writer.acknowledged) - numbers(whole)
    assert whole.pid_of(f"node-{name}") != pid
    assert copies(whole) == 2
    assert f"failover of {name}" == last_entry(whole).plan.name


def test_a_leading_master_that_is_gone_is_replaced_by_the_other_one_and_started_on_demand(
    whole: ClusterUnderTest,
) -> None:
    gone = leader(whole)
    with Writer(whole) as writer:
        whole.die(gone)
        writer.goes_on()
        assert gone != leader(whole)
        assert f"FAILOVER of {gone}" in succeed(whole, "failover", gone, "--reason", "it is back")
        writer.goes_on()
    assert not set(writer.acknowledged) - numbers(whole)
    assert copies(whole) == 2


def test_without_any_master_nothing_is_saved_until_a_failover_starts_one(
    whole: ClusterUnderTest,
) -> None:
    with Writer(whole) as writer:
        for name in ("m1", "m2"):
            whole.die(name)
        wait_until(lambda: copies(whole) == 0, "nothing is served")
        succeed(whole, "failover", "--reason", "both masters are gone")
        writer.goes_on()
    assert not set(writer.acknowledged) - numbers(whole)
    assert last_entry(whole).plan.target == leader(whole)
    other = "m1" if leader(whole) == "m2" else "m2"
    succeed(whole, "failover", other, "--reason", "one is not enough")
    assert copies(whole) == 2


def test_a_hung_neo_monitor_is_ended_and_started_again(whole: ClusterUnderTest) -> None:
    pid = whole.pid_of("node-w")
    os.kill(pid, signal.SIGSTOP)
    succeed(whole, "failover", "--reason", "the status shows nothing")
    assert whole.pid_of("node-w") != pid
    assert copies(whole) == 2


def test_a_storage_that_was_away_serves_nothing_before_those_that_were_not_are_back(
    whole: ClusterUnderTest,
) -> None:
    """By its own partition table, of the time when it went, it is up to date."""
    supervised = Supervisor(whole.cluster)
    with Writer(whole) as writer:
        whole.die("s1")
        writer.goes_on()
        whole.die("s2")
        supervised.start("node-s1")
        try:
            wait_until(lambda: waits_with(whole, "s1"), "s1 is there, and nothing is served")
            before = len(writer.acknowledged)
            time.sleep(3.0)  # a recovery that is content with s1 takes one second
            assert before == len(writer.acknowledged)
        finally:
            supervised.start("node-s2")
        writer.goes_on()
    assert not set(writer.acknowledged) - numbers(whole)


def waits_with(neo: ClusterUnderTest, node: str) -> bool:
    found = look(neo)
    if found is None:
        return False
    assert not found.writable, f"{node} serves what it has"
    return found.member(node).state == "PENDING"
