"""The search finds the highest rate that holds, in few trials, and tries it twice."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from indico_zodbrepl.bench.suites.http_search import (
    LEAST_RATE,
    PRECISION,
    Limit,
    Load,
    Tried,
    bounds,
    is_confirmed,
    next_rate,
)

MOST = 20
LIMIT = Limit(500, 99)


def searched(holds: Callable[[float], bool], first: float = 10, most: int = MOST) -> list[Tried]:
    tried: list[Tried] = []
    while (rate := next_rate(tried, first, most)) is not None:
        tried.append(Tried(rate, holds(rate)))
    return tried


def load_of(
    rate: float = 10,
    answered: int = 100,
    *,
    dropped: int = 0,
    failures: dict[str, int] | None = None,
    p99: float = 100,
    last_answer_seconds: float = 10.1,
) -> Load:
    failures = failures or {}
    return Load(
        rate,
        10,
        answered + dropped + sum(failures.values()),
        answered,
        dropped,
        failures,
        {"p99": p99, "p95": 50},
        {},
        last_answer_seconds,
        0.1,
    )


@given(st.floats(1, 5000), st.floats(1, 100))
def test_the_rate_found_is_close_below_the_capacity_and_held_twice(
    capacity: float, first: float
) -> None:
    tried = searched(lambda rate: rate <= capacity, first, 40)
    held, failed = bounds(tried)
    assert held is not None
    assert failed is not None
    assert held <= capacity < failed <= held * (1 + PRECISION)
    assert is_confirmed(tried, held)


@given(st.floats(0.01, 5000), st.integers(2, 12))
def test_there_are_never_more_trials_than_allowed(capacity: float, most: int) -> None:
    assert len(searched(lambda rate: rate <= capacity, 10, most)) <= most


@given(st.lists(st.booleans(), min_size=MOST, max_size=MOST))
def test_any_sequence_of_outcomes_ends_with_a_rate_below_all_that_failed(
    outcomes: list[bool],
) -> None:
    left = iter(outcomes)
    tried = searched(lambda _: next(left))
    held, failed = bounds(tried)
    if held is not None and failed is not None:
        assert held < failed


def test_the_rate_is_doubled_then_halved_into_the_gap_and_confirmed() -> None:
    assert [10, 20, 40, 40, 30, 35, 35, 32.5, 32.5] == [
        each.rate for each in searched(lambda rate: rate < 34)
    ]


def test_a_rate_that_fails_once_is_tried_again_at_once() -> None:
    tried = [Tried(10, True), Tried(20, False)]
    assert 20 == next_rate(tried, 10, MOST)
    tried.append(Tried(20, True))
    assert (20, None) == bounds(tried)
    assert 40 == next_rate(tried, 10, MOST)


def test_a_rate_counts_as_failed_when_it_failed_more_often_than_it_held() -> None:
    tried = [
        Tried(10, True),
        Tried(20, False),
        Tried(20, False),
        Tried(15, True),
        Tried(17.5, True),
        Tried(18.75, True),
        Tried(18.75, False),
    ]
    assert 18.75 == next_rate(tried, 10, MOST)
    tried.append(Tried(18.75, False))
    assert (17.5, 18.75) == bounds(tried)
    assert 17.5 == next_rate(tried, 10, MOST)
    assert not is_confirmed(tried, 18.75)


def test_the_last_trial_is_kept_for_trying_once_more() -> None:
    assert [10, 20, 20] == [each.rate for each in searched(lambda _: True, most=3)]
    assert [10, 20, 10] == [each.rate for each in searched(lambda rate: rate < 20, most=3)]


def test_the_search_gives_up_below_the_least_rate() -> None:
    tried = searched(lambda _: False)
    assert (None, tried[-1].rate) == bounds(tried)
    assert tried[-1].rate / 2 < LEAST_RATE


def test_a_rate_holds_when_everything_was_answered_in_time() -> None:
    assert "" == LIMIT.broken_by(load_of())


def test_a_rate_does_not_hold_with_a_failure_a_drop_or_too_much_latency() -> None:
    assert "failed: 2 HTTP status 500" == LIMIT.broken_by(load_of(failures={"HTTP status 500": 2}))
    assert LIMIT.broken_by(load_of(dropped=1)).startswith("dropped: 1")
    assert "p99 501 ms, more than 500 ms" == LIMIT.broken_by(load_of(p99=501))
    assert "" == Limit(500, 95).broken_by(load_of(p99=501))


def test_a_rate_does_not_hold_when_answers_come_more_slowly_than_requests() -> None:
    assert "" == LIMIT.broken_by(load_of(last_answer_seconds=10.5))
    assert "only 95 % of the offered rate was achieved" == LIMIT.broken_by(
        load_of(last_answer_seconds=11)
    )


def test_the_achieved_rate_counts_the_time_of_the_last_answers() -> None:
    assert 10 == load_of(last_answer_seconds=9).achieved
    assert 5 == load_of(last_answer_seconds=20).achieved
