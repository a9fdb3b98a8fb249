"""Waiting for a condition: when it ends, and what it returns."""

from __future__ import annotations

import time

import pytest

from indico_zodbrepl.probing.waiting import wait_until, wait_while


def test_the_first_true_result_is_returned() -> None:
    results = iter(["", "", "found", "later"])
    assert "found" == wait_until(lambda: next(results), time.monotonic() + 10, 0.001)


def test_a_condition_that_holds_needs_no_pause() -> None:
    assert wait_until(lambda: True, time.monotonic() - 1, 60)


def test_at_the_deadline_the_last_result_is_returned() -> None:
    began, calls = time.monotonic(), []

    def check() -> bool:
        calls.append(1)
        return False

    assert not wait_until(check, began + 0.1, 0.01)
    assert 0.1 <= time.monotonic() - began < 5
    assert len(calls) >= 2


def test_an_error_ends_the_wait() -> None:
    with pytest.raises(ValueError, match="none"):
        wait_until(lambda: int("none"), time.monotonic() + 10)


def test_what_is_missing_is_asked_until_nothing_is() -> None:
    results = iter(["much", "little", None, "later"])
    assert wait_while(lambda: next(results), time.monotonic() + 10, 0.001) is None


def test_at_the_deadline_what_was_missing_last_is_returned() -> None:
    results = iter(["much", *200 * ["little"]])
    assert "little" == wait_while(lambda: next(results), time.monotonic() + 0.1, 0.01)
