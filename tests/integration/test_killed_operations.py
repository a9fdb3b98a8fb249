"""Whoever carries out an operation may be killed at any moment: `resume` ends it soundly.

Soundly: one primary, every other node follows it, and each transaction that was acknowledged is
there or exported.
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Iterator

import pytest
from clusters import ClusterUnderTest, wait_until
from operations import count_effects, is_killed, last_entry, succeed
from storage_writer import Writer, numbers_on
from test_failover import is_seen_gone
from test_switchover import all_follow

from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.errors import ExitCode
from indico_zodbrepl.monitor import take_snapshot
from indico_zodbrepl.operations import store
from indico_zodbrepl.operations.operation import Outcome

pytestmark = pytest.mark.exhaustive

Moment = tuple[str, str | int]
EVERY = int(os.environ.get("ZODBREPL_TEST_EVERY", "0"))
"""Of the moments within steps each n-th is tried, beside each step's begin and end; 1 for all,
which takes an hour. With 0, for minutes, it is each step's begin and the middle of the longest."""


def moments(effects: list[tuple[str, int]]) -> Iterator[Moment]:
    """Boundaries of each step, and moments within steps."""
    if not EVERY:
        longest, most = max(effects, key=lambda step: step[1])
        yield from ((action, "begun") for action, _count in effects)
        yield longest, (most + 1) // 2
        return
    within = [(action, number + 1) for action, count in effects for number in range(count)]
    for action, _count in effects:
        yield action, "begun"
        yield action, "done"
    yield from itertools.islice(within, 0, None, EVERY)


def primary(under_test: ClusterUnderTest) -> str:
    """The only node that takes writes; a probe may miss an answer on a busy machine."""
    found: list[str] = []

    def is_there() -> bool:
        name = take_snapshot(under_test.cluster).primary
        found[:] = [name] if name is not None else []
        return bool(found)

    wait_until(is_there, "there is one primary")
    return found[0]


def other(node: str) -> str:
    return {"a": "b", "b": "a"}[node]


def is_sound(under_test: ClusterUnderTest) -> bool:
    snapshot = take_snapshot(under_test.cluster)
    return (
        snapshot.primary is not None
        and len({node.epoch for node in snapshot.nodes}) == 1
        and all(
            node.reachable and (node.name == snapshot.primary or node.connected)
            for node in snapshot.nodes
        )
    )


def ends_soundly(under_test: ClusterUnderTest, writer: Writer) -> None:
    """Nothing is open, one is primary, the other follows, and all that was acknowledged is kept."""
    assert store.unfinished(under_test.cluster) is None
    for status in take_snapshot(under_test.cluster).nodes:
        if status.out_of_line or not status.reachable:
            succeed(under_test, "rejoin", status.name)
    wait_until(lambda: is_sound(under_test), "one is primary, the other follows")
    writer.goes_on()
    acknowledged = set(writer.acknowledged)
    for node in ("a", "b"):
        wait_until(
            lambda node=node: (
                len(  # type: ignore[misc]
                    acknowledged - numbers_on(under_test, node)
                )
                <= exported(under_test)
            ),
            f"node {node} has all that was acknowledged and not exported",
        )


def exported(under_test: ClusterUnderTest) -> int:
    """How many transactions were exported."""
    return sum(
        len(json.loads(path.read_text())["transactions"])
        for path in Layout(under_test.cluster).lost_tails.glob("*/tail.json")
    )


@pytest.fixture
def working(cluster: ClusterUnderTest) -> Iterator[Writer]:
    """A cluster in which somebody writes."""
    cluster.start()
    all_follow(cluster)
    with Writer(cluster) as writer:
        yield writer


def test_a_switchover(working: Writer) -> None:
    cluster = working.under_test
    for action, when in moments(count_effects(cluster, "switchover")):
        old = primary(cluster)
        if is_killed(cluster, "switchover", action, when):
            succeed(cluster, "resume")
        assert Outcome.DONE is last_entry(cluster).outcome, (action, when)
        assert other(old) == primary(cluster)
        ends_soundly(cluster, working)


def test_a_switchover_that_is_undone(working: Writer) -> None:
    cluster = working.under_test
    steps = [
        step
        for step in count_effects(cluster, "switchover")
        if step[0] in ("hold", "prove", "seal", "promote")
    ]
    for action, when in moments(steps):
        old = primary(cluster)
        if not is_killed(cluster, "switchover", action, when):
            continue
        undone = cluster.cli("resume", "--undo")
        if undone.returncode == ExitCode.REFUSED:
            assert "can't be undone any more" in undone.stderr, (action, when)
            succeed(cluster, "resume")
        else:
            assert 0 == undone.returncode, undone.stderr
            assert old == primary(cluster)
        ends_soundly(cluster, working)


@pytest.mark.parametrize("comes_back", [False, True])
def test_a_failover(working: Writer, *, comes_back: bool) -> None:
    cluster = working.under_test
    lose_the_primary(cluster)
    for action, when in moments(count_effects(cluster, "failover")):
        ends_soundly(cluster, working)
        old = lose_the_primary(cluster)
        if not is_killed(cluster, "failover", action, when):
            continue  # other steps are needed when something is lost than when nothing is
        if comes_back:
            cluster.cli("node", "start", old)  # the guard may refuse it
        resumed = cluster.cli("resume")
        if resumed.returncode == ExitCode.REFUSED:
            assert comes_back, (action, when, resumed.stderr)
            assert "everything is as before" in resumed.stderr, (action, when, resumed.stderr)
            assert old == primary(cluster)
        else:
            assert 0 == resumed.returncode, (action, when, resumed.stdout, resumed.stderr)
            assert other(old) == primary(cluster)
    ends_soundly(cluster, working)


def lose_the_primary(under_test: ClusterUnderTest) -> str:
    old = primary(under_test)
    under_test.die(old)
    wait_until(lambda: is_seen_gone(under_test, old), f"{old} is seen gone")
    return old


def test_a_rejoin(working: Writer) -> None:
    cluster = working.under_test
    leave_somebody_behind(cluster, working)
    for action, when in moments(count_effects(cluster, "rejoin", behind(cluster))):
        leave_somebody_behind(cluster, working)
        if is_killed(cluster, "rejoin", action, when, behind(cluster)):
            succeed(cluster, "resume")
        assert Outcome.DONE is last_entry(cluster).outcome, (action, when)
        ends_soundly(cluster, working)


def behind(under_test: ClusterUnderTest) -> str:
    return other(primary(under_test))


def leave_somebody_behind(under_test: ClusterUnderTest, writer: Writer) -> None:
    """The primary acknowledges what its follower never gets, and the follower takes over."""
    old = primary(under_test)
    new = other(old)
    epoch = take_snapshot(under_test.cluster).epoch
    succeed(under_test, "node", "stop", new)
    writer.goes_on()
    succeed(under_test, "node", "fence", old)
    succeed(under_test, "node", "promote", new, "--epoch", str((epoch or 0) + 1))
    writer.goes_on()


def test_a_clone(working: Writer) -> None:
    cluster = working.under_test
    for action, when in moments(count_effects(cluster, "clone", behind(cluster))):
        if is_killed(cluster, "clone", action, when, behind(cluster)):
            succeed(cluster, "resume")
        assert Outcome.DONE is last_entry(cluster).outcome, (action, when)
        ends_soundly(cluster, working)
