"""Latencies that several processes counted are put together as those of one."""

from __future__ import annotations

import pytest

from indico_zodbrepl.bench.suite import LATENCIES
from indico_zodbrepl.bench.summary import latency_metrics, milliseconds, nearest_rank


def test_all_metrics_are_there_in_milliseconds() -> None:
    found = latency_metrics([[(10_000, 1), (20_000, 2), (50_000, 1)]])
    assert {metric.name for metric in LATENCIES} == set(found)
    assert (2.5, 2.0, 5.0) == (found["mean_ms"], found["p50_ms"], found["max_ms"])


def test_processes_count_together() -> None:
    assert latency_metrics([[(10, 1)], [(10, 1), (30, 2)]]) == latency_metrics([[(10, 2), (30, 2)]])


def test_without_operations_there_are_no_metrics() -> None:
    assert {} == latency_metrics([[], []])


@pytest.mark.parametrize(("part", "expected"), [(0.5, 50), (0.9, 90), (0.99, 99), (1.0, 100)])
def test_percentiles_are_of_the_nearest_rank(part: float, expected: int) -> None:
    assert expected == nearest_rank(dict.fromkeys(range(1, 101), 1), part)


def test_a_percentile_of_one_value_is_this_value() -> None:
    assert 7 == nearest_rank({7: 1}, 0.99)


def test_a_list_is_summed_up_in_milliseconds() -> None:
    found = milliseconds([number / 1000 for number in range(100, 0, -1)])
    assert found == {"mean": 50.5, "p50": 50.0, "p90": 90.0, "p99": 99.0, "max": 100.0}
    assert milliseconds([]) == {}


def test_other_percentiles_can_be_had_of_a_list() -> None:
    assert milliseconds([0.002, 0.001], (95,)) == {"mean": 1.5, "p95": 2.0, "max": 2.0}
