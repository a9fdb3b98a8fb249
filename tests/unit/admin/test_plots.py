"""Where things are in a plot: within it, in order, and at round marks."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indico_zodbrepl.admin import benchmarks
from indico_zodbrepl.admin.benchmarks import Scale

AMOUNTS = st.lists(st.floats(1e-6, 1e12), min_size=1, max_size=20)


@given(AMOUNTS)
def test_all_values_are_within_an_axis_from_zero(values: list[float]) -> None:
    scale = benchmarks.from_zero(values)
    assert 0.0 == scale.low
    assert scale.high >= max(values) * (1 - 1e-9)
    assert scale.high <= 2 * max(values)
    places = [scale.at(value) for value in sorted(values)]
    assert sorted(places) == places
    assert 0 <= places[0]
    assert places[-1] <= 100


@given(AMOUNTS)
def test_all_values_are_within_an_axis_by_tens(values: list[float]) -> None:
    scale = benchmarks.by_tens(values)
    assert scale.low <= min(values) * (1 + 1e-9)
    assert scale.high >= max(values) * (1 - 1e-9)
    assert (0.0, 100.0) == (scale.ticks[0].at, scale.ticks[-1].at)


@given(AMOUNTS)
def test_an_axis_has_some_marks_and_not_many(values: list[float]) -> None:
    ticks = benchmarks.from_zero(values).ticks
    assert 2 <= len(ticks) <= 7
    assert len(ticks) == len({tick.at for tick in ticks})


@pytest.mark.parametrize(
    ("highest", "labels"),
    [
        (100, ["0", "20", "40", "60", "80", "100"]),
        (7, ["0", "2", "4", "6", "8"]),
        (0.3, ["0", "0.1", "0.2", "0.3"]),
        (1234, ["0", "500", "1,000", "1,500"]),
    ],
)
def test_marks_are_round(highest: float, labels: list[str]) -> None:
    assert labels == [tick.label for tick in benchmarks.from_zero([highest]).ticks]


@pytest.mark.parametrize("values", [[], [0.0], [math.nan], [math.inf], [-3.0]])
def test_without_a_value_to_show_there_is_an_axis_all_the_same(values: list[float]) -> None:
    assert 0.0 == benchmarks.from_zero(values).at(0.0)
    assert 0.0 == benchmarks.by_tens(values).at(0.0)


def test_what_is_outside_of_an_axis_is_at_its_end() -> None:
    assert (0.0, 100.0) == (Scale(0, 10).at(-5), Scale(0, 10).at(50))
    assert 0.0 == Scale(1, 100, True).at(0)


def test_a_line_is_in_the_order_of_time_and_high_values_are_at_the_top() -> None:
    moments, scale = benchmarks.span_of([100.0, 300.0]), benchmarks.from_zero([10.0, 20.0])
    found = benchmarks.line([(300.0, 20.0), (100.0, 10.0), (200.0, math.nan)], moments, scale)
    assert [100.0, 300.0] == [point.moment for point in found.points]
    assert found.points[0].left < found.points[1].left
    assert found.points[0].top > found.points[1].top
    assert 1 == len(found.pieces)
    assert all(0 < place < 100 for point in found.points for place in (point.left, point.top))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0, "0"),
        (0.01234, "0.0123"),
        (3.14159, "3.14"),
        (27.04, "27"),
        (27.36, "27.4"),
        (1234567.8, "1,234,568"),
    ],
)
def test_a_number_has_the_digits_that_are_worth_reading(value: float, expected: str) -> None:
    assert expected == benchmarks.number(value)
