"""The load generator asks when it is due, counts everything, and hides no stall."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import itertools
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pages_server import (
    CALLS,
    CLOSING,
    MISSING,
    REFUSED,
    SILENT,
    STALL_SECONDS,
    STALLING,
    PagesServer,
    two_servers,
)

from indico_zodbrepl.bench.suites.http_generator import (
    ARRIVALS,
    POISSON,
    UNIFORM,
    Job,
    Outcome,
    due_times,
    load,
    summed_up,
)
from indico_zodbrepl.bench.suites.http_trials import generator
from indico_zodbrepl.bench.suites.indico_session import Session
from indico_zodbrepl.errors import OperatorError

RATES = st.floats(0.5, 500)
SECONDS = st.floats(0.1, 20)


def outcome_of(
    server: PagesServer,
    paths: list[str],
    rate: float = 100.0,
    *,
    seconds: float | None = None,
    in_flight: int = 100,
    timeout_seconds: float = 20.0,
) -> Outcome:
    """What becomes of each path, asked for once unless ``seconds`` says otherwise."""
    return asyncio.run(
        load(
            Job(
                [server.base],
                paths,
                rate,
                seconds or len(paths) / rate,
                UNIFORM,
                0,
                in_flight,
                timeout_seconds,
            )
        )
    )


@given(RATES, SECONDS, st.sampled_from(ARRIVALS), st.integers())
def test_requests_are_due_in_order_within_the_time_and_as_many_as_the_rate_says(
    rate: float, seconds: float, arrivals: str, seed: int
) -> None:
    due = due_times(rate, seconds, arrivals, seed)
    assert max(1, round(rate * seconds)) == len(due)
    assert due == sorted(due)
    assert all(0 <= each < seconds for each in due)
    assert due == due_times(rate, seconds, arrivals, seed)


@given(RATES, SECONDS)
def test_uniform_arrivals_are_equally_far_apart(rate: float, seconds: float) -> None:
    due = due_times(rate, seconds, UNIFORM, 0)
    step = seconds / len(due)
    assert all(
        math.isclose(step, later - each, rel_tol=1e-6) for each, later in itertools.pairwise(due)
    )


def test_poisson_arrivals_are_as_irregular_as_chance_and_differ_by_seed() -> None:
    due = due_times(100, 100, POISSON, 1)
    gaps = [later - each for each, later in itertools.pairwise(due)]
    mean = sum(gaps) / len(gaps)
    deviation = math.sqrt(sum((gap - mean) ** 2 for gap in gaps) / len(gaps))
    assert 0.9 < deviation / mean < 1.1
    assert due != due_times(100, 100, POISSON, 2)


def test_a_stall_is_in_the_latency_of_every_request_that_was_due_meanwhile() -> None:
    rate, stalled = 50.0, 25
    paths = ["/"] * 100
    paths[stalled] = STALLING
    with PagesServer() as server:
        found = outcome_of(server, paths, rate)
    assert (100, 0, []) == (len(found.latencies), found.failures.total(), found.dropped)
    for number, latency in found.latencies.items():
        since = (number - stalled) / rate
        # Those next to its begin may have overtaken the request that stalls.
        if number == stalled or 0.2 <= since <= STALL_SECONDS:
            assert latency >= STALL_SECONDS - since


def test_each_page_is_asked_for_once_in_turn_and_again_from_the_first() -> None:
    with PagesServer() as server:
        found = outcome_of(server, ["/a", "/b", "/c"], rate=20, seconds=0.5)
        assert 10 == len(server.asked) == len(found.latencies) == len(found.late)
        assert ["/a"] * 4 + ["/b"] * 3 + ["/c"] * 3 == sorted(server.asked)


def test_servers_get_requests_in_turn() -> None:
    with two_servers() as (one, other):
        asyncio.run(load(Job([one.base, other.base], ["/"], 100, 0.2, UNIFORM)))
        assert 10 == len(one.asked) == len(other.asked)


def test_what_is_due_while_too_many_are_in_flight_is_dropped_and_counted() -> None:
    with PagesServer() as server:
        found = outcome_of(server, [SILENT] * 20, in_flight=5, timeout_seconds=1.0)
        assert 5 == len(server.asked)
    assert list(range(5, 20)) == found.dropped
    assert {"not answered in time": 5} == found.failures
    assert {} == found.latencies


@pytest.mark.parametrize(
    ("path", "why"), [(MISSING, "HTTP status 404"), (CLOSING, "ServerDisconnectedError")]
)
def test_other_answers_than_pages_have_failed(path: str, why: str) -> None:
    with PagesServer() as server:
        found = outcome_of(server, ["/", path])
    assert {why: 1} == found.failures
    assert [0] == list(found.latencies)


@given(st.integers(0, 100), st.integers(0, 1000))
def test_changes_are_the_percentage_of_all_requests_and_evenly_spread(
    percent: int, first: int
) -> None:
    job = Job([], ["/"], 1, 1, changes=percent)
    assert percent == sum(job.is_change(number) for number in range(first, first + 100))


def test_visitors_who_are_logged_in_request_pages_and_change_conferences_in_turn() -> None:
    sessions = [Session("indico_session=a", "secret a"), Session("indico_session=b", "secret b")]
    with PagesServer() as server:
        job = Job(
            [server.base], ["/page"], 20, 0.5, sessions=sessions, changed=["7", "8"], changes=30
        )
        found = asyncio.run(load(job))
        assert {"/page": 7, CALLS: 3} == collections.Counter(server.asked)
        assert {"indico_session=a": 5, "indico_session=b": 5} == collections.Counter(server.cookies)
        assert ["7", "8", "7"] == sorted_by_value([call for _, call in server.calls])
        assert {token for token, _ in server.calls} <= {each.token for each in sessions}
    assert 10 == len(found.latencies)
    assert summed_up(job, found, 0.0)["change_latency_ms"]


def sorted_by_value(calls: list[dict[str, Any]]) -> list[str]:
    """The conferences of calls that may have overtaken each other, in the order of their values."""
    values = [call["params"] for call in calls]
    return [each["conference"] for each in sorted(values, key=lambda each: str(each["value"]))]


def test_a_change_that_is_refused_or_not_answered_has_failed() -> None:
    session = Session("indico_session=a", "secret")
    with PagesServer() as server:
        refused = Job(
            [server.base], [], 10, 0.1, sessions=[session], changed=[REFUSED], changes=100
        )
        assert {"refused: ERR-1": 1} == asyncio.run(load(refused)).failures
    assert "no answer to a call" == refused.request(0).failure(200, b"<html>")
    assert "HTTP status 503" == refused.request(0).failure(503, b"")


def test_nobody_who_is_not_logged_in_changes_anything() -> None:
    assert "GET" == Job([], ["/"], 1, 1, changes=100).request(0).method


def test_a_server_that_is_not_there_fails_each_request() -> None:
    with PagesServer() as server:
        pass
    found = outcome_of(server, ["/"] * 3)
    assert {"ClientConnectorError": 3} == found.failures


def test_the_sums_count_each_request_once() -> None:
    outcome = Outcome({0: 0.1, 2: 0.3}, dropped=[3], late=[0.0, 0.001, 0.0])
    outcome.failures["HTTP status 500"] = 1
    found = summed_up(Job([], [], 4, 1), outcome, 0.5)
    assert (4, 2, 1) == (found["scheduled"], found["answered"], found["dropped"])
    assert {"HTTP status 500": 1} == found["failures"]


def test_the_program_does_one_job_after_the_other(tmp_path: Path) -> None:
    with PagesServer() as server, generator(tmp_path) as making:
        for rate in (10.0, 40.0):
            found = making.load(Job([server.base], ["/"], rate, 0.5))
            assert (rate, rate * 0.5) == (found.rate, found.scheduled)
            assert found.scheduled == found.answered
            assert found.achieved <= rate


def test_a_program_that_fails_says_why(tmp_path: Path) -> None:
    job = Job(["http://127.0.0.1:1"], [], 1, 1)
    with generator(tmp_path) as making:
        with pytest.raises(OperatorError, match="ZeroDivisionError"):
            making.load(job)
        with pytest.raises(OperatorError, match="ZeroDivisionError"):
            making.load(job)


def test_an_interruption_ends_the_program(tmp_path: Path) -> None:
    before = children()
    with contextlib.suppress(KeyboardInterrupt), generator(tmp_path):
        assert len(before) + 1 == len(children())
        raise KeyboardInterrupt
    assert before == children()


def children() -> list[str]:
    return sorted(
        pid
        for path in Path("/proc/self/task").glob("*/children")
        for pid in path.read_text().split()
    )
