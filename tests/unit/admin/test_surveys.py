"""Looks that take long: joined by who asks for the same, kept for a while, never too many."""

from __future__ import annotations

import threading

import pytest
from werkzeug.exceptions import TooManyRequests

from indico_zodbrepl.admin import surveys
from indico_zodbrepl.admin.access.quotas import Sender
from indico_zodbrepl.admin.surveys import Surveys

PATIENCE = 120.0
ALICE, VICTOR = Sender("alice", is_operator=True), Sender("victor")


def test_who_asks_for_a_look_that_is_under_way_gets_it() -> None:
    made, goes_on = Surveys(), threading.Event()
    first = made.begin("plan", lambda: goes_on.wait(PATIENCE), ALICE)
    assert first is made.begin("plan", lambda: pytest.fail("a second look"), VICTOR)
    assert not first.wait(0.01)
    goes_on.set()
    assert first.wait(PATIENCE)
    assert first is not made.begin("plan", lambda: None, ALICE), "what is over is looked at again"


def test_a_look_is_found_by_its_name_for_what_it_is_a_look_at() -> None:
    made = Surveys()
    begun = made.begin("plan", lambda: 3, VICTOR)
    assert begun.wait(PATIENCE)
    found = made.get(begun.identifier, "plan")
    assert found is not None
    assert 3 == found.future.result()
    assert made.get(begun.identifier, "another") is None
    assert made.get("guessed", "plan") is None


def test_what_a_look_raises_is_kept_for_who_asks() -> None:
    made = Surveys()
    begun = made.begin("plan", lambda: 1 // 0, VICTOR)
    assert begun.wait(PATIENCE)
    assert isinstance(begun.future.exception(), ZeroDivisionError)


def test_the_oldest_looks_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(surveys, "MOST_KEPT", 3)
    made = Surveys()
    names = []
    for number in range(6):
        begun = made.begin(number, lambda: None, VICTOR)
        assert begun.wait(PATIENCE)
        names.append(begun.identifier)
    kept = [number for number, name in enumerate(names) if made.get(name, number)]
    assert 5 in kept
    assert 0 not in kept
    assert len(kept) <= 3


def test_too_many_looks_of_one_sender_are_refused() -> None:
    made, goes_on = Surveys(), threading.Event()
    begun = [
        made.begin(number, lambda: goes_on.wait(PATIENCE), VICTOR) for number in range(surveys.EACH)
    ]
    with pytest.raises(TooManyRequests):
        made.begin(99, lambda: None, VICTOR)
    other = made.begin(99, lambda: None, Sender("veronica"))
    goes_on.set()
    assert all(each.wait(PATIENCE) for each in [*begun, other])
    made.begin(100, lambda: None, VICTOR)


def test_an_operator_s_plan_does_not_wait_for_those_of_viewers() -> None:
    made, goes_on = Surveys(), threading.Event()
    begun = [
        made.begin(f"{name} {number}", lambda: goes_on.wait(PATIENCE), Sender(name))
        for name in ("victor", "veronica", "viola", "vincent")
        for number in range(surveys.EACH)
    ]
    with pytest.raises(TooManyRequests):
        made.begin("more", lambda: None, Sender("vera"))
    assert made.begin("plan", lambda: None, ALICE).wait(PATIENCE)
    assert made.begin("vincent 3", lambda: None, ALICE).wait(PATIENCE), "the viewer's still waits"
    goes_on.set()
    assert all(each.wait(PATIENCE) for each in begun)


def test_plans_of_viewers_do_not_make_the_page_forget_an_operator_s(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(surveys, "MOST_KEPT", 3)
    made = Surveys()
    confirmed = made.begin("plan", lambda: None, ALICE)
    assert confirmed.wait(PATIENCE)
    for number in range(6):
        assert made.begin(number, lambda: None, VICTOR).wait(PATIENCE)
    assert confirmed is made.get(confirmed.identifier, "plan")
