"""The advice, step by step, in states that once were dead ends."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "monitor"))

from zrs_model import Operation, Supervisor, World
from zrs_probes import snapshot_of
from zrs_states import HEALTHY, Does, Kind, Known, Past, world_of
from zrs_walk import End, Walks

CURRENT = Known.CURRENT
STOPPED: Kind = (CURRENT, Does.STOPPED, Past.WHOLE, False)
DAMAGED: Kind = (CURRENT, Does.STOPPED, Past.UNREADABLE, False)
FULL_AND_BEHIND: Kind = (CURRENT, Does.UNLINKED, Past.BEHIND, True)
ROOM = "by hand: Make room for secondary b"
LAST_RESORT = "by hand: Bring the data of node a back, or decide what to give up"


def pair(lead: Kind, follower: Kind) -> World:
    return world_of("pair", (lead, follower))


def interrupted(world: World, *, past: bool = False) -> World:
    return dataclasses.replace(world, operation=Operation("rejoin", "b", past=past))


STATES: dict[str, tuple[World, list[str]]] = {
    "the end of a secondary's file can't be read": (pair(HEALTHY, DAMAGED), ["clone b"]),
    "so it was, and it refused to start": (
        pair(HEALTHY, (CURRENT, Does.REFUSED, Past.UNREADABLE, False)),
        ["clone b"],
    ),
    "a link stays down": (
        pair(HEALTHY, (CURRENT, Does.UNLINKED, Past.BEHIND, False)),
        ["restart b"],
    ),
    "a secondary missed a promotion while it ran": (
        pair(HEALTHY, (Known.MISSED, Does.RUNS, Past.WHOLE, False)),
        ["restart b"],
    ),
    "the disk of a secondary is full": (pair(HEALTHY, FULL_AND_BEHIND), [ROOM, "restart b"]),
    "the disk of a secondary was replaced": (
        pair(HEALTHY, (Known.LOST, Does.STOPPED, Past.EMPTY, False)),
        ["restart b"],
    ),
    "a rejoin stopped past its point of no return, and the disk is full": (
        interrupted(pair(HEALTHY, (CURRENT, Does.STOPPED, Past.WHOLE, True)), past=True),
        [ROOM, "resume"],
    ),
    "a rejoin was interrupted, then the primary's data were lost": (
        interrupted(pair((Known.LOST, Does.STOPPED, Past.EMPTY, False), STOPPED)),
        ["up", "failover b", "restart a"],
    ),
    "a truncated primary stopped, and the secondary holds more": (
        pair((CURRENT, Does.STOPPED, Past.TRUNCATED, False), HEALTHY),
        ["failover b", "restart a"],
    ),
    "a diverged secondary stopped": (
        pair(HEALTHY, (Known.MISSED, Does.STOPPED, Past.DIVERGED, False)),
        ["rejoin b"],
    ),
    "a refusal was recorded, and its cause is gone": (
        pair(HEALTHY, (CURRENT, Does.REFUSED, Past.WHOLE, False)),
        ["rejoin b"],
    ),
    "a relay was lost, and its follower diverged": (
        world_of(
            "chain",
            (
                HEALTHY,
                (Known.LOST, Does.STOPPED, Past.EMPTY, False),
                (Known.MISSED, Does.STOPPED, Past.DIVERGED, False),
            ),
        ),
        ["restart b", "rejoin c"],
    ),
    "supervisord was killed": (
        dataclasses.replace(pair(HEALTHY, HEALTHY), supervisor=Supervisor.AWAY),
        ["up"],
    ),
    "a replaced primary takes writes": (
        pair(STOPPED, (Known.FORMER, Does.RUNS, Past.WHOLE, False)),
        ["fence b", "up", "rejoin b"],
    ),
    "no data can be read": (pair(DAMAGED, DAMAGED), [LAST_RESORT]),
}


@pytest.mark.parametrize("name", STATES)
def test_each_advice_leads_on(name: str) -> None:
    world, expected = STATES[name]
    end, said = Walks().end_of(world)
    by_hand = expected[-1] == LAST_RESORT
    assert expected == (said if by_hand else said[:-1])
    assert end is (End.BY_HAND if by_hand else End.HEALTHY)


def test_a_damaged_file_has_an_alert_whose_hint_is_the_advice() -> None:
    secondary = snapshot_of(pair(HEALTHY, DAMAGED)).warnings
    alert = next(each for each in secondary if "is damaged" in each.text)
    assert "clone b" in alert.hint
    assert not [each for each in secondary if "restart b" in each.hint]
    primary = snapshot_of(pair(DAMAGED, HEALTHY)).warnings
    assert "failover" in next(each for each in primary if "is damaged" in each.text).hint
