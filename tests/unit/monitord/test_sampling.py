"""Rates and latencies of what servers and Indico instances count."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import pytest
from situations import TID_TIME, findings, instance, server, snapshot

from indico_zodbrepl.monitord.sampling import Sampler
from indico_zodbrepl.monitord.series import (
    Kind,
    Measured,
    Series,
    Slot,
    quantile,
)
from indico_zodbrepl.probing.answers import Counted


def counted(
    requests: int = 0, unavailable: int = 0, conflicts: int = 0, **latencies: int
) -> Counted:
    """Latencies are milliseconds: ``ms2=3`` are three commits of at most 2 ms."""
    return Counted(
        requests,
        unavailable,
        conflicts,
        {int(name.removeprefix("ms")) / 1000: count for name, count in latencies.items()},
    )


class Rounds:
    def __init__(self) -> None:
        self._sampler = Sampler()
        self.last = Measured(())

    def at(self, second: float, **situation: Any) -> dict[Series, float]:
        moment = {**situation, "taken_at": TID_TIME + second}
        self.last = self._sampler.measured(findings(**moment), snapshot(**moment), {})
        return dict(self.last.values)

    def answered(self, second: float, pid: int, counts: Counted | None) -> dict[Series, float]:
        return self.at(second, indico={"one": instance("one", pid=pid, counted=counts)})


@pytest.fixture
def rounds() -> Rounds:
    return Rounds()


def test_counts_become_rates_from_the_second_answer_on(rounds: Rounds) -> None:
    first = rounds.answered(0, 7, counted(100, 3, 2, ms2=10))
    assert not [each for each in first if each.subject == "one"]
    found = rounds.answered(2, 7, counted(108, 5, 3, ms2=10, ms16=6))
    assert {
        Kind.REQUESTS: 4.0,
        Kind.UNAVAILABLE: 60.0,
        Kind.CONFLICTS: 30.0,
        Kind.INSTANCE_COMMITS: 3.0,
    } == {each.kind: value for each, value in found.items() if each.subject == "one"}
    assert {"one": {0.016: 6}} == rounds.last.latencies


def test_a_restarted_process_begins_again(rounds: Rounds) -> None:
    rounds.answered(0, 7, counted(100))
    rounds.answered(1, 7, counted(101))
    assert Series(Kind.REQUESTS, "one") not in rounds.answered(2, 8, counted(4))
    assert Series(Kind.REQUESTS, "one") not in rounds.answered(3, 8, counted(2))
    assert 5.0 == rounds.answered(4, 8, counted(7))[Series(Kind.REQUESTS, "one")]


def test_several_processes_of_an_instance_add_up(rounds: Rounds) -> None:
    total = 0.0
    for second in range(20):
        found = rounds.answered(second, second % 2, counted(10 * second))
        total += found.get(Series(Kind.REQUESTS, "one"), 0.0)
    assert 20.0 * 18 == total  # each process answered 10 a second, and the first answers are lost


def test_what_was_counted_during_a_long_silence_is_left_out(rounds: Rounds) -> None:
    rounds.answered(0, 7, counted(100))
    assert Series(Kind.REQUESTS, "one") not in rounds.answered(60, 7, counted(5000))
    assert 1.0 == rounds.answered(61, 7, counted(5001))[Series(Kind.REQUESTS, "one")]


def test_an_instance_that_does_not_count_has_no_series(rounds: Rounds) -> None:
    rounds.answered(0, 7, None)
    assert not [each for each in rounds.answered(1, 7, None) if each.subject == "one"]


def test_commits_are_those_of_the_primary_where_its_server_counts(rounds: Rounds) -> None:
    def answers(commits: int | None) -> dict[str, Any]:
        return {"servers": {"a": dataclasses.replace(server("a"), commits=commits)}}

    rounds.at(0, **answers(50))
    assert 3.0 == rounds.at(2, **answers(56))[Series(Kind.COMMITS, "a")]
    assert not [each for each in rounds.at(3, **answers(None)) if each.kind is Kind.COMMITS]


def test_a_follower_s_own_count_is_no_commit(rounds: Rounds) -> None:
    for second in range(2):
        found = rounds.at(second, servers={"b": dataclasses.replace(server("b"), commits=second)})
    assert not [each for each in found if each.kind is Kind.COMMITS]


def test_quantiles_are_within_the_bounds_of_their_commits() -> None:
    latencies = {0.002: 98, 0.016: 1, 0.128: 1}
    assert 0.002 / math.sqrt(2) <= quantile(latencies, 0.5) <= 0.002
    assert 0.016 / math.sqrt(2) <= quantile(latencies, 0.99) <= 0.016
    assert 0.128 == quantile(latencies, 1.0)
    assert 0.128 == quantile({0.128: 1, math.inf: 5}, 0.99)


def test_the_quantiles_of_a_slot_are_those_of_all_its_commits() -> None:
    slot = Slot(1)
    for count in (1, 98):
        slot.add(Measured((), {"one": {0.001 * count: count}}))
    slot.add(Measured((), {"one": {}}))
    found = slot.figures[Series(Kind.LATENCY_P99, "one")]
    assert 0.098 / math.sqrt(2) <= found.mean <= 0.098
    assert 99 == found.weight
