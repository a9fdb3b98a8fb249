"""The bars of an operation's steps: within the whole, visible, none for what has not begun."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import past
from hypothesis import given
from hypothesis import strategies as st

from indico_zodbrepl.admin.operation_view import NARROWEST, bars
from indico_zodbrepl.operations.operation import Operation, Progress, StepRecord

ENDED = past.failover(Path("/x"))
MOMENTS = st.floats(0, 1e10)


def with_times(times: list[tuple[float | None, float | None]]) -> Operation:
    return dataclasses.replace(
        ENDED, records=tuple(StepRecord(Progress.DONE, began, ended) for began, ended in times)
    )


def test_a_step_that_has_not_begun_has_no_bar() -> None:
    assert [None] * 4 == bars(with_times([(None, None)] * 4), 7.0)
    found = bars(with_times([(1.0, 2.0), (None, None), (2.0, None), (None, None)]), 5.0)
    assert [True, False, True, False] == [bar is not None for bar in found]


def test_a_step_at_work_lasts_until_now() -> None:
    _, bar, *_ = bars(with_times([(0.0, 1.0), (1.0, None), (None, None), (None, None)]), 4.0)
    assert bar is not None
    assert (25.0, 75.0, 3.0) == (bar.left, bar.width, bar.seconds)


@given(st.lists(st.tuples(MOMENTS, st.one_of(st.none(), MOMENTS)), min_size=4, max_size=4), MOMENTS)
def test_each_bar_is_within_the_whole_and_can_be_seen(
    times: list[tuple[float | None, float | None]], now: float
) -> None:
    """Also when clocks were set back meanwhile."""
    for bar in bars(with_times(times), now):
        assert bar is not None
        assert bar.left >= 0
        assert bar.width >= NARROWEST
        assert bar.left + bar.width <= 100.01
        assert bar.seconds >= 0
