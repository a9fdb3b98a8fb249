"""Rounds are put together by medians, with their spread, and compared round by round."""

from __future__ import annotations

import math
import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indico_zodbrepl.bench.results import Measurement, Run
from indico_zodbrepl.bench.summary import Spread, ratio, ratios, rows


def measured(
    rate: float | None,
    number: int = 1,
    storage: str = "zeo",
    test: str = "t",
    **parameters: str | int,
) -> Measurement:
    if rate is None:
        return Measurement(storage, test, parameters, number, error="away")
    return Measurement(storage, test, parameters, number, {"rate": rate}, cpu={"node-a": rate / 10})


def run_of(*measurements: Measurement) -> Run:
    return Run(Path("x"), "raw", measurements=measurements)


def test_a_row_is_the_median_of_its_rounds_with_the_least_and_the_most() -> None:
    (found,) = rows(run_of(measured(100, 1), measured(400, 2), measured(200, 3)))
    assert Spread(200, 100, 400) == found.metrics["rate"]
    assert Spread(20, 10, 40) == found.cpu["node-a"]
    assert (3, "") == (found.rounds, found.error)
    assert found.metrics["rate"].half_range == 0.75


def test_half_of_the_range_of_nothing_is_none() -> None:
    assert Spread(0, 0, 5).half_range is None


def test_a_round_that_failed_is_reported_and_does_not_count() -> None:
    (found,) = rows(run_of(measured(100, 1), measured(None, 2)))
    assert (1, 100, "away") == (found.rounds, found.metrics["rate"].median, found.error)


def test_a_case_of_which_every_round_failed_has_no_figures() -> None:
    (found,) = rows(run_of(measured(None, 1), measured(None, 2)))
    assert (0, {}, "away") == (found.rounds, found.metrics, found.error)


@pytest.mark.parametrize(
    "other",
    [
        measured(2, test="u"),
        measured(2, objects=2),
        measured(2, storage="zrs"),
        measured(2, depth=1),
    ],
)
def test_different_cases_and_storages_are_not_mixed(other: Measurement) -> None:
    found = rows(run_of(measured(1, objects=1), other))
    assert [1, 2] == [row.metrics["rate"].median for row in found]


def test_the_order_of_parameters_does_not_matter() -> None:
    (found,) = rows(run_of(measured(1, 1, a=1, b=2), measured(3, 2, b=2, a=1)))
    assert found.rounds == 2


def test_ratios_are_those_of_the_same_round_and_the_same_case() -> None:
    run = run_of(
        measured(100, 1),
        measured(50, 1, "zrs"),
        measured(200, 2),
        measured(180, 2, "zrs"),
        measured(None, 3),
        measured(9, 3, "zrs"),
        measured(7, 1, "zrs", objects=1),
    )
    control, other, alone = rows(run)
    assert ratios(run, control, "zeo", "rate") is None
    assert ratios(run, alone, "zeo", "rate") is None
    assert ratios(run, other, "zeo", "max_ms") is None
    found = ratios(run, other, "zeo", "rate")
    assert found is not None
    assert (0.7, 0.5, 0.9) == pytest.approx((found.median, found.low, found.high))


@pytest.mark.parametrize(
    ("count", "left_out"), [(1, None), (5, None), (6, 0), (8, 0), (9, 1), (10, 1), (12, 2), (20, 5)]
)
def test_a_ratio_of_six_rounds_or_more_has_a_confidence_interval(
    count: int, left_out: int | None
) -> None:
    """The ranks are those of tables of the sign test for 95 %, such as Conover's."""
    found = ratio([float(number) for number in range(count, 0, -1)])
    assert found is not None
    assert (left_out is not None) == found.is_interval
    out = left_out or 0
    assert (1.0 + out, float(count - out), count) == (found.low, found.high, found.rounds)


@settings(deadline=None, max_examples=20)
@given(st.integers(6, 14), st.integers(0, 2**32))
def test_the_confidence_interval_contains_the_true_median_often_enough(
    count: int, seed: int
) -> None:
    chance = random.Random(seed)  # noqa: S311 - no secret
    inside = 0
    for _ in range(1000):
        found = ratio([chance.expovariate(math.log(2)) for _ in range(count)])
        assert found is not None
        inside += found.low <= 1 <= found.high
    assert inside > 920


def test_nothing_is_compared_with_a_control_of_zero() -> None:
    run = run_of(measured(0, 1), measured(50, 1, "zrs"))
    assert ratios(run, rows(run)[1], "zeo", "rate") is None
