"""Jobs at once, with one deadline for all."""

import threading
import time
from collections.abc import Iterator

import pytest

from indico_zodbrepl.probing.race import Race

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
