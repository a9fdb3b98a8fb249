"""The schedule of faults: repeatable, complete, in time."""

from __future__ import annotations

from itertools import pairwise

from schedule import ANY, NOBODY, QUIET_SECONDS, Sort, plan, plan_of

SORTS = [
    Sort("isolate", (3.0, 12.0)),
    Sort("kill-node", (1.0, 1.0)),
    Sort("pack", (1.0, 5.0), NOBODY),
]


def test_a_seed_makes_the_same_schedule_each_time() -> None:
    assert plan(7, 600, SORTS) == plan(7, 600, SORTS[::-1])
    assert plan(7, 600, SORTS) != plan(8, 600, SORTS)


def test_a_longer_run_begins_like_a_shorter_one() -> None:
    short = plan(7, 120, SORTS)
    assert short
    assert short == plan(7, 600, SORTS)[: len(short)]


def test_each_fault_strikes_before_one_strikes_again() -> None:
    found = [each.fault for each in plan(3, 600, SORTS)]
    for place in range(0, len(found) - 2, 3):
        assert {"isolate", "kill-node", "pack"} == set(found[place : place + 3])


def test_faults_are_over_when_the_run_ends() -> None:
    for seed in range(50):
        found = plan(seed, 180, SORTS)
        assert found[0].at >= QUIET_SECONDS
        assert max(each.until for each in found) <= 180
        assert [each.at for each in found] == sorted(each.at for each in found)


def test_several_seeds_share_the_time() -> None:
    found = plan_of([7, 8], 600, SORTS)
    first, second = plan(7, 300, SORTS), plan(8, 300, SORTS)
    assert found[: len(first)] == first
    assert [each.fault for each in found[len(first) :]] == [each.fault for each in second]
    assert found[len(first)].at == 300 + second[0].at
    assert max(each.until for each in found) <= 600


def test_some_faults_strike_together_and_most_do_not() -> None:
    found = plan(1, 7200, SORTS)
    together = [later for one, later in pairwise(found) if later.at < one.until]
    assert 0.1 < len(together) / len(found) < 0.4


def test_a_fault_concerns_whom_it_can() -> None:
    found = plan(1, 7200, SORTS)
    assert {""} == {each.target for each in found if each.fault == "pack"}
    assert set(ANY) == {each.target for each in found if each.fault == "isolate"}
