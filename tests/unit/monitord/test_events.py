"""Each change is told once, what gets worse at once, what gets better once it has settled."""

from __future__ import annotations

import json
from typing import Any

import pytest
from situations import (
    HEALTHY,
    PRIMARY_KILLED,
    REFUSED,
    SECONDARY_KILLED,
    SILENT,
    TID_TIME,
    behind,
    server,
    snapshot,
    state,
)

from indico_zodbrepl.cluster.model import Role
from indico_zodbrepl.monitor.snapshot import Snapshot
from indico_zodbrepl.monitord import memory as memories
from indico_zodbrepl.monitord.events import Event, Kind, Weight, events
from indico_zodbrepl.monitord.memory import Memory
from indico_zodbrepl.probing.answers import ServerRole

LIMIT = 10.0


class Watching:
    """A memory that is shown one situation after the other."""

    def __init__(self) -> None:
        self.memory = Memory()

    def at(self, second: float, **situation: Any) -> list[Event]:
        return self.sees(snapshot(**situation, taken_at=TID_TIME + second))

    def sees(self, found: Snapshot) -> list[Event]:
        return events(self.memory, found, LIMIT)


@pytest.fixture
def watching() -> Watching:
    """One that has seen a healthy cluster at second 0."""
    made = Watching()
    made.at(0, **HEALTHY)
    return made


def told(found: list[Event], *kinds: Kind) -> list[str]:
    return [event.text for event in found if not kinds or event.kind in kinds]


def test_the_first_look_tells_the_state_and_nothing_else_of_a_healthy_cluster() -> None:
    assert ["HEALTHY: Indico is writable; a is primary, b follows."] == told(
        Watching().at(0, **HEALTHY)
    )


def test_what_stays_as_it_is_is_reported_once(watching: Watching) -> None:
    first = watching.at(1, **SECONDARY_KILLED)
    assert [
        (Kind.STATE, Weight.WARNING),
        (Kind.ALERT, Weight.WARNING),
        (Kind.ALERT, Weight.WARNING),
    ] == [(event.kind, event.weight) for event in first]
    assert "`bin/zodbrepl restart b`" in first[1].hint
    assert [] == [
        event for second in range(2, 60) for event in watching.at(second, **SECONDARY_KILLED)
    ]


def test_a_lost_primary_is_critical_and_reported_at_once(watching: Watching) -> None:
    found = watching.at(1, **PRIMARY_KILLED)
    assert Weight.CRITICAL == found[0].weight
    assert found[0].text.startswith("DOWN: Nothing can be saved: primary a is stopped")
    assert "was healthy" == found[0].detail
    assert "primary a is stopped" in told(found, Kind.ALERT)


def test_what_is_over_is_reported_once_it_has_been_over_for_some_seconds(
    watching: Watching,
) -> None:
    watching.at(1, **SECONDARY_KILLED)
    assert [] == watching.at(2, **HEALTHY)
    assert [] == watching.at(3, **HEALTHY)
    found = [event for second in (4, 5, 6) for event in watching.at(second, **HEALTHY)]
    assert {
        "HEALTHY: Indico is writable; a is primary, b follows.",
        "no longer: secondary b is stopped",
        "no longer: primary a has no follower",
    } == set(told(found))
    assert {Weight.GOOD} == {event.weight for event in found}


def test_a_server_that_misses_a_probe_now_and_then_is_reported_once(watching: Watching) -> None:
    missed = {"servers": {"b": SILENT}, "comparisons": {"b": None}}
    found = [
        event
        for second in range(1, 41)
        for event in watching.at(second, **(missed if second % 2 else HEALTHY))
    ]
    assert ["secondary b does not answer"] == told(found, Kind.ALERT)
    assert 1 == len(told(found, Kind.STATE))
    assert [] == told(found, Kind.CLEARED)


def promoted() -> dict[str, Any]:
    return {
        "states": {
            "a": state("a", epoch=1),
            "b": state("b", role=Role.PRIMARY, upstream=None, epoch=2),
        },
        "servers": {
            "a": REFUSED,
            "b": server(
                "b",
                role=ServerRole.PRIMARY,
                upstream=None,
                connected=None,
                read_only=False,
                epoch=2,
            ),
        },
        "comparisons": {"b": None},
    }


def test_a_promotion_is_reported_by_primary_role_and_epoch(watching: Watching) -> None:
    watching.at(1, **PRIMARY_KILLED)
    found = watching.at(2, **promoted())
    assert ["the primary is b now; it was a"] == told(found, Kind.PRIMARY)
    assert ["node b is primary in epoch 2 now; it was secondary in epoch 1"] == told(
        found, Kind.ROLE
    )


def test_a_new_epoch_in_the_same_role_is_reported(watching: Watching) -> None:
    found = watching.at(1, servers={"b": server("b", epoch=2)})
    assert ["secondary b is in epoch 2 now; it was in 1"] == told(found, Kind.EPOCH)


def lagging(seconds: float) -> dict[str, Any]:
    """b lacks transactions; its last one is that much older than the primary's."""
    tid = server("b").last_tid - round(seconds * (1 << 32) / 60)
    return {"servers": {"b": server("b", tid)}, "comparisons": {"b": behind(7)}}


def test_lag_over_the_limit_is_reported_once_and_again_when_it_is_gone(watching: Watching) -> None:
    found = [event for second in range(1, 40) for event in watching.at(second, **lagging(second))]
    assert ["node b is more than 10 s behind the primary"] == told(found, Kind.LAG)
    (only,) = [event for event in found if event.kind is Kind.LAG]
    assert "it lacks 7 transactions" == only.detail
    assert ["node b has caught up; it was 38.0 s behind at most"] == told(
        watching.at(40, **HEALTHY), Kind.CAUGHT_UP
    )


def test_the_first_transaction_after_a_quiet_hour_is_no_hour_of_lag(watching: Watching) -> None:
    found = watching.at(3600, **lagging(3600)) + watching.at(3601, **HEALTHY)
    assert [] == told(found, Kind.LAG, Kind.CAUGHT_UP)


def test_a_restarted_program_tells_nothing_twice(watching: Watching) -> None:
    watching.at(1, **SECONDARY_KILLED)
    watching.memory = memories.from_json(json.loads(json.dumps(watching.memory.to_json())))
    assert [] == watching.at(2, **SECONDARY_KILLED)


@pytest.mark.parametrize("damaged", [None, [], {}, {"format": 2}, {"format": 1, "state": "x"}])
def test_a_memory_that_can_not_be_read_is_an_empty_one(damaged: Any) -> None:
    assert Memory() == memories.from_json(damaged)
