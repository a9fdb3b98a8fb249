"""Looks that take long: joined by who asks for the same, kept for a while, never too many."""

from __future__ import annotations

import threading

import pytest

from indico_zodbrepl.admin import surveys
from indico_zodbrepl.admin.surveys import Surveys
from indico_zodbrepl.errors import ExitCode, OperatorError

PATIENCE = 120.0


def test_who_asks_for_a_look_that_is_under_way_gets_it() -> None:
    made, goes_on = Surveys(), threading.Event()
    first = made.begin("plan", lambda: goes_on.wait(PATIENCE))
    assert first is made.begin("plan", lambda: pytest.fail("a second look"))
    assert not first.wait(0.01)
    goes_on.set()
    assert first.wait(PATIENCE)
    assert first is not made.begin("plan", lambda: None), "what is over is looked at anew"


def test_a_look_is_found_by_its_name_for_what_it_is_a_look_at() -> None:
    made = Surveys()
    begun = made.begin("plan", lambda: 3)
    assert begun.wait(PATIENCE)
    found = made.get(begun.identifier, "plan")
    assert found is not None
    assert 3 == found.future.result()
    assert made.get(begun.identifier, "another") is None
    assert made.get("guessed", "plan") is None


def test_what_a_look_raises_is_kept_for_who_asks() -> None:
    made = Surveys()
    begun = made.begin("plan", lambda: 1 // 0)
    assert begun.wait(PATIENCE)
    assert isinstance(begun.future.exception(), ZeroDivisionError)


def test_the_oldest_looks_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(surveys, "MOST_KEPT", 3)
    made = Surveys()
    names = []
    for number in range(6):
        begun = made.begin(number, lambda: None)
        assert begun.wait(PATIENCE)
        names.append(begun.identifier)
    kept = [number for number, name in enumerate(names) if made.get(name, number)]
    assert 5 in kept
    assert 0 not in kept
    assert len(kept) <= 3


def test_too_many_looks_at_once_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(surveys, "MOST_UNDER_WAY", 2)
    made, goes_on = Surveys(), threading.Event()
    begun = [made.begin(number, lambda: goes_on.wait(PATIENCE)) for number in range(2)]
    with pytest.raises(OperatorError) as caught:
        made.begin(2, lambda: None)
    assert ExitCode.TIMED_OUT == caught.value.exit_code
    goes_on.set()
    assert all(each.wait(PATIENCE) for each in begun)
    made.begin(2, lambda: None)
