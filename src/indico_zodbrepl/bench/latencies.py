"""Latencies summed up: of one list, or counted by several processes.  Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

TICKS_PER_MS = 10_000
"""Programs count latencies in tenths of a microsecond."""
PERCENTS = (50, 90, 99)


def milliseconds(seconds: Sequence[float],
                 percents: Sequence[int] = PERCENTS) -> dict[str, float]:
    """Mean, p50, p90, p99 (nearest rank) and max in milliseconds, by name; {} of none."""
    if not seconds:
        return {}
    ordered = sorted(seconds)
    found = {"mean": math.fsum(ordered) / len(ordered),
             **{f"p{percent}": ordered[math.ceil(percent * len(ordered) / 100) - 1]
                for percent in percents}, "max": ordered[-1]}
    return {name: round(1000 * value, 4) for name, value in found.items()}


def latency_metrics(counted: Iterable[Sequence[tuple[int, int]]]) -> Mapping[str, float]:
    """The metrics ``suite.LATENCIES``, in milliseconds; {} without any operation.

    Args:
        counted: of each process, how many operations took how many tenths of a microsecond.
    """
    counts: Counter[int] = Counter()
    for each in counted:
        for ticks, count in each:
            counts[ticks] += count
    total = counts.total()
    if not total:
        return {}
    metrics = {"mean_ms": sum(ticks * count for ticks, count in counts.items()) / total,
               **{f"p{percent}_ms": nearest_rank(counts, percent / 100) for percent in PERCENTS},
               "max_ms": max(counts)}
    return {name: value / TICKS_PER_MS for name, value in metrics.items()}


def nearest_rank(counts: Mapping[int, int], part: float) -> int:
    """The least value that at least this part of all values does not exceed."""
    rank = math.ceil(part * sum(counts.values()))
    passed = 0
    for value in sorted(counts):
        passed += counts[value]
        if passed >= rank:
            return value
    raise ValueError("there are no values")
