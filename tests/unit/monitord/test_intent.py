"""What the watching program says that it would do; it never does it."""

from __future__ import annotations

import shlex
from typing import Any

import pytest
from situations import (
    HEALTHY,
    HOME,
    PRIMARY_KILLED,
    REFUSED,
    SILENT,
    TID,
    TID_TIME,
    cluster,
    findings,
    snapshot,
)

from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.host.last_seen import LastSeen
from indico_zodbrepl.monitor.snapshot import OpenOperation
from indico_zodbrepl.monitord.events import Event, Kind, Weight
from indico_zodbrepl.monitord.intent import intents
from indico_zodbrepl.monitord.memory import Memory
from indico_zodbrepl.operations.evidence import Process
from indico_zodbrepl.operations.facts import Situation

AFTER = 10.0
FROZEN: dict[str, Any] = {"servers": {"a": SILENT}, "comparisons": {"b": None}}


class Watching:
    """A memory that is shown one situation after the other."""

    def __init__(self) -> None:
        self.memory = Memory()
        self.last_seen: LastSeen | None = None

    def at(self, second: float, process: Process = Process.NONE, **situation: Any) -> list[Event]:
        moment = {**situation, "taken_at": TID_TIME + second}
        return list(
            intents(
                self.memory,
                Situation(
                    TID_TIME + second,
                    findings(**moment),
                    snapshot(**moment),
                    {},
                    {},
                    {},
                    {"a": process},
                    self.last_seen,
                ),
                AFTER,
                Commands(cluster(), HOME),
            )
        )

    def during(self, seconds: range, **situation: Any) -> list[Event]:
        return [event for second in seconds for event in self.at(second, **situation)]


@pytest.fixture
def watching() -> Watching:
    return Watching()


def test_a_healthy_cluster_gives_no_cause(watching: Watching) -> None:
    assert [] == watching.during(range(60), **HEALTHY)


def test_a_primary_that_is_back_within_moments_gives_no_cause(watching: Watching) -> None:
    assert [] == watching.during(range(3), **PRIMARY_KILLED)
    assert [] == watching.during(range(3, 60), **HEALTHY)


def test_a_lost_primary_is_reported_before_a_failover_is_due_and_when_it_is(
    watching: Watching,
) -> None:
    soon, due = watching.during(range(60), **PRIMARY_KILLED)
    command = "bin/zodbrepl failover b --reason 'primary a is gone'"
    by = "reported by 5 observers"
    assert f"Failover advised after 10 s: {command}; primary a down for 3 s, {by}" == soon.text
    assert f"Failover advised now: {command}; primary a down for 10 s, {by}" == due.text
    assert {(Kind.WOULD_ACT, Weight.CRITICAL, "a")} == {
        (event.kind, event.weight, event.subject) for event in (soon, due)
    }
    assert "the control host's probe: down, nothing listens" in due.detail
    assert (
        "first try: Bring primary a back; else show its steps: "
        "`bin/zodbrepl failover b --dry-run`" == due.hint
    )
    assert "failover" in shlex.split(command)


@pytest.mark.parametrize(
    ("newer", "expected"),
    [(0, "b has every known transaction of a"), (1, "b lacks known transactions of a")],
)
def test_it_says_whether_the_new_primary_has_what_was_seen_of_the_old_one(
    watching: Watching, newer: int, expected: str
) -> None:
    watching.last_seen = LastSeen(TID_TIME, "a", TID + newer)
    found = watching.during(range(5), **PRIMARY_KILLED)
    assert found[0].detail.endswith(expected)


def test_its_return_is_reported_when_something_was_reported_before(watching: Watching) -> None:
    watching.during(range(5), **PRIMARY_KILLED)
    (over,) = watching.during(range(5, 60), **HEALTHY)
    assert Weight.GOOD == over.weight
    assert "Failover no longer advised, 5 s after primary a stopped serving" == over.text


def test_one_observer_alone_is_no_cause(watching: Watching) -> None:
    """Indico and the follower are still connected to it: perhaps only we don't reach it."""
    found = watching.during(range(60), **FROZEN, process=Process.RUNS)
    assert [
        "Failover not advised. Only 1 of 2 required observers reports it down; "
        f"primary a has not served for {seconds} s"
        for seconds in (3, 10)
    ] == [event.text for event in found]


def test_without_a_follower_that_is_fit_nobody_can_take_over(watching: Watching) -> None:
    found = watching.during(
        range(20), **{**PRIMARY_KILLED, "servers": {"a": REFUSED, "b": REFUSED}}
    )
    assert "no node can take over" in found[0].text


def test_while_an_operation_is_at_work_it_would_do_nothing(watching: Watching) -> None:
    operation = OpenOperation("x", "failover", "b", "eve", TID_TIME, "running", at_work=True)
    assert [] == watching.during(range(60), **PRIMARY_KILLED, operations=(operation,))
