"""Jobs at once, with one deadline for all."""

import threading
import time
from collections.abc import Iterator

import pytest

from indico_zodbrepl.probing import race as race_module
from indico_zodbrepl.probing.race import NoAnswer, Race, all_at_once, within

Results = Iterator[tuple[tuple[str, str], object]]

GENEROUS = 60.0


def test_a_job_that_hangs_delays_nobody_and_its_first_results_count() -> None:
    over = threading.Event()

    def hang() -> Results:
        yield ("first", ""), 1
        over.wait(GENEROUS)
        yield ("second", ""), 2

    race = Race()
    race.start("hang", hang)
    race.start("quick", lambda: [(("quick", ""), 3)])
    found = race.wait(time.monotonic() + 3)
    assert {("first", ""): 1, ("quick", ""): 3} == found
    over.set()


def test_a_job_that_goes_on_hanging_is_not_started_again_and_again_until_it_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(race_module, "GRACE", 0.0)
    over, started = threading.Event(), []

    def hang() -> Results:
        started.append(threading.current_thread())
        over.wait(GENEROUS)
        yield ("answer", ""), 1

    def once() -> dict[tuple[str, str], object]:
        race = Race("a series of this test")
        race.start("hang", hang)
        return race.wait(time.monotonic() + 0.05)

    assert [{}, {}, {}] == [once() for _ in range(3)]
    assert 1 == len(started)
    over.set()
    started[0].join(GENEROUS)
    race = Race("a series of this test")
    race.start("hang", hang)
    assert {("answer", ""): 1} == race.wait(time.monotonic() + GENEROUS)


def test_work_that_hangs_is_given_up_at_its_deadline_and_started_again_after_its_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(race_module, "GRACE", 0.0)
    over, started = threading.Event(), []

    def hang() -> int:
        started.append(threading.current_thread())
        over.wait(GENEROUS)
        return 1

    for _ in range(3):
        with pytest.raises(NoAnswer):
            within(0.05, "work of this test", "hang", hang)
    assert 1 == len(started)
    over.set()
    started[0].join(GENEROUS)
    assert 1 == within(GENEROUS, "work of this test", "hang", hang)


def test_what_work_raises_reaches_the_caller() -> None:
    with pytest.raises(ZeroDivisionError):
        within(GENEROUS, "work of this test", "wrong", lambda: 1 // 0)
    assert within(GENEROUS, "work of this test", "none", lambda: None) is None


def test_all_done_is_not_waited_for() -> None:
    race = Race()
    race.start("quick", lambda: [(("quick", ""), 3)])
    assert {("quick", ""): 3} == race.wait(time.monotonic() + 3600)


def test_a_mistake_in_a_job_is_raised_not_taken_for_silence() -> None:
    def wrong() -> Results:
        raise KeyError("mistake")
        yield

    race = Race()
    race.start("wrong", wrong)
    with pytest.raises(KeyError, match="mistake"):
        race.wait(time.monotonic() + GENEROUS)


def test_of_several_failures_the_first_job_s_is_raised_whichever_came_first() -> None:
    """A check before the plan says why, however quickly the plan itself fails."""
    planned = threading.Event()

    def check() -> None:
        planned.wait(20)
        raise ValueError("the disk is full")

    def plan() -> None:
        planned.set()
        raise RuntimeError("no plan")

    with pytest.raises(ValueError, match="the disk is full"):
        all_at_once([lambda: None, check, plan])
