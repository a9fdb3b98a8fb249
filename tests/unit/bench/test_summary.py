"""Rounds are put together by medians, with their spread."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from runs import answer

from indico_zodbrepl.bench.results import Measurement, Run
from indico_zodbrepl.bench.summary import Summary, summaries


def of_rounds(*answers: dict[str, Any]) -> Summary:
    made = tuple(Measurement("t", "cold", "", number, each, "" if each else "away")
                 for number, each in enumerate(answers, 1))
    found, = summaries(Run(Path("x"), "in-app", measurements=made))
    return found


def test_a_rate_is_the_median_of_its_rounds() -> None:
    found = of_rounds(answer(100), answer(400), answer(200))
    assert (200, 100, 400, 1.5) == (found.rate, found.slowest, found.fastest, found.spread)
    assert found.rounds == 3
    assert found.latency_ms["max"] == 5


def test_one_round_has_no_spread() -> None:
    assert of_rounds(answer()).spread is None


def test_counts_are_those_of_an_operation_and_conflicts_those_of_all_rounds() -> None:
    found = of_rounds(answer(), answer())
    assert (3, 2) == (found.hits, found.misses)
    assert (2, 0.5, 50) == (found.loads, found.stores, found.stored_bytes)
    assert (2, 0) == (found.conflicts, found.given_up)


def test_a_storage_without_a_client_cache_has_neither_hits_nor_misses() -> None:
    found = of_rounds(answer(client_cache=None))
    assert found.hits is None
    assert found.misses is None


def test_a_round_that_failed_is_told_and_does_not_count() -> None:
    found = of_rounds(answer(100), {})
    assert (1, 100, "away") == (found.rounds, found.rate, found.error)


def test_a_test_of_which_every_round_failed_has_no_figures() -> None:
    found = of_rounds({}, {})
    assert (0, None, "", 0.0) == (found.rounds, found.rate, found.unit, found.loads)


@pytest.mark.parametrize("other", [{"test": "u"}, {"caches": "hot"}, {"modify": "title"}])
def test_different_tests_are_not_mixed(other: dict[str, str]) -> None:
    first = {"test": "t", "caches": "cold", "modify": ""}
    made = (Measurement(**first, round=1, answer=answer(1)),
            Measurement(**(first | other), round=1, answer=answer(2)))
    found = summaries(Run(Path("x"), "in-app", measurements=made))
    assert [1, 2] == [each.rate for each in found]
