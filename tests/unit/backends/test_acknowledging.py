"""When commits of PostgreSQL and MariaDB are acknowledged, refused, or go on alone."""

from __future__ import annotations

import dataclasses
import time

import pytest

from indico_zodbrepl.backends.acknowledging import CommitsLook, answer, next_state, show
from indico_zodbrepl.cluster.model import Synchronous, SyncLevel, WhenAlone
from indico_zodbrepl.probing.answers import AckState

REFUSE = Synchronous(1, SyncLevel.FSYNC, 10.0, WhenAlone.REFUSE)
DEGRADE = dataclasses.replace(REFUSE, alone=WhenAlone.DEGRADE)
ENOUGH = CommitsLook({"b": "0/5"}, 0.0, 0, "0/5")
NONE = CommitsLook({}, 0.0, 0, "0/5")
LATE = CommitsLook({}, 10.5, 1, "0/5")
STALLED = CommitsLook({"b": "0/5"}, 10.5, 1, "0/5")

OFF, WAITING, SYNCHRONOUS = AckState.OFF, AckState.WAITING, AckState.SYNCHRONOUS
REFUSING, ASKING, ALONE = AckState.REFUSING, AckState.ASKING, AckState.ALONE


@pytest.mark.parametrize(
    ("state", "lasts", "look", "wanted", "after"),
    [
        (OFF, 0, ENOUGH, REFUSE, SYNCHRONOUS),
        (OFF, 0, NONE, REFUSE, WAITING),
        (SYNCHRONOUS, 99, NONE, REFUSE, WAITING),
        (WAITING, 9.9, NONE, REFUSE, WAITING),
        (WAITING, 10.0, NONE, REFUSE, REFUSING),
        (WAITING, 10.0, NONE, DEGRADE, ALONE),
        (SYNCHRONOUS, 99, LATE, REFUSE, REFUSING),
        (SYNCHRONOUS, 99, STALLED, REFUSE, REFUSING),  # it is connected, and confirms nothing
        (SYNCHRONOUS, 99, STALLED, DEGRADE, ALONE),
        (REFUSING, 99, NONE, REFUSE, REFUSING),
        (REFUSING, 99, ENOUGH, REFUSE, SYNCHRONOUS),
        (ALONE, 99, NONE, DEGRADE, ALONE),
        (ALONE, 99, NONE, REFUSE, REFUSING),  # an order changed it
        (ALONE, 99, ENOUGH, DEGRADE, SYNCHRONOUS),
        (SYNCHRONOUS, 99, ENOUGH, dataclasses.replace(REFUSE, count=2), WAITING),
        (REFUSING, 99, NONE, dataclasses.replace(REFUSE, count=0), OFF),
    ],
)
def test_the_state_follows_from_who_confirms(
    state: AckState, lasts: float, look: CommitsLook, wanted: Synchronous, after: AckState
) -> None:
    assert next_state(state, lasts, look, wanted, told=False, when_told=False) is after


def test_where_others_decide_a_primary_goes_on_alone_only_after_they_have_recorded_it() -> None:
    asks = next_state(WAITING, 10.0, NONE, DEGRADE, told=False, when_told=True)
    assert asks is ASKING
    assert next_state(asks, 99, NONE, DEGRADE, told=False, when_told=True) is ASKING
    assert next_state(asks, 0, NONE, DEGRADE, told=True, when_told=True) is ALONE
    assert next_state(ALONE, 0, NONE, DEGRADE, told=False, when_told=True) is ALONE


@pytest.mark.parametrize("state", [OFF, WAITING, SYNCHRONOUS, REFUSING])
def test_a_late_answer_to_an_earlier_question_does_not_count(state: AckState) -> None:
    """What it says was recorded, and taken back when the followers were there again."""
    assert next_state(state, 99, LATE, DEGRADE, told=True, when_told=True) is ASKING


def test_the_monitor_reads_the_state_that_a_server_shows() -> None:
    text = show(ALONE, DEGRADE, time.time() - 60)
    found = answer(REFUSE, text, {}, 2)
    assert (ALONE, "degrade", 2, True) == (
        found.state,
        found.alone,
        found.in_doubt,
        found.since > 59,
    )


@pytest.mark.parametrize("text", ["", "nonsense", '{"state": "king"}'])
def test_of_a_server_that_shows_none_the_followers_tell_it(text: str) -> None:
    assert answer(REFUSE, text, {"b": "0/5"}, 0).state is SYNCHRONOUS
    assert answer(REFUSE, text, {}, 0).state is WAITING
    assert answer(Synchronous(), text, {}, 0).state is OFF
