"""The rounds of a run put together: medians and their spread; no I/O."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from .results import Measurement, Run

LATENCIES = ("mean", "p50", "p90", "p99", "max")


@dataclasses.dataclass(frozen=True)
class Summary:
    """One test in one state of the caches, over all rounds that succeeded.

    Attributes:
        unit: what is counted, such as "contributions".
        rounds: how many succeeded.
        rate: units a second, the median of the rounds; None without any.
        slowest, fastest: rates of the slowest and the fastest round.
        spread: (fastest - slowest) / rate; None with fewer than two rounds.
        latency_ms: mean, p50, p90, p99, max of an operation: the median of the rounds of each.
        conflicts: modifications tried again after a conflict, in all rounds.
        given_up: modifications that were not saved after the last try, in all rounds.
        hits, misses: of the storage client's cache, an operation; None where it has none.
        loads, stores: objects from and to the storage, an operation.
        stored_bytes: bytes to the storage, an operation.
        error: that of the last round that failed; '' when none did.
    """

    test: str
    caches: str
    modify: str
    unit: str
    rounds: int
    rate: float | None
    slowest: float | None
    fastest: float | None
    spread: float | None
    latency_ms: Mapping[str, float]
    conflicts: int
    given_up: int
    hits: float | None
    misses: float | None
    loads: float
    stores: float
    stored_bytes: float
    error: str


def summaries(run: Run) -> Sequence[Summary]:
    """Those of a run, in the order of its measurements."""
    groups: dict[tuple[str, str, str], list[Measurement]] = {}
    for each in run.measurements:
        groups.setdefault((each.test, each.caches, each.modify), []).append(each)
    return [_summary(*key, group) for key, group in groups.items()]


def _summary(test: str, caches: str, modify: str, group: Sequence[Measurement]) -> Summary:
    answers = [each.answer for each in group if each.answer]
    rates = [float(each["rate"]) for each in answers if each["rate"] is not None]
    rate = statistics.median(rates) if rates else None
    errors = [each.error for each in group if each.error]
    return Summary(
        test, caches, modify, answers[0]["unit"] if answers else "", len(answers), rate,
        min(rates, default=None), max(rates, default=None),
        (max(rates) - min(rates)) / rate if rate and len(rates) > 1 else None,
        {name: statistics.median(values) for name in LATENCIES
         if (values := [each["latency_ms"][name] for each in answers
                        if each["latency_ms"][name] is not None])},
        sum(each["conflicts"]["retried"] for each in answers),
        sum(each["conflicts"]["given_up"] for each in answers),
        _each_if_any(answers, "client_cache", "hits"),
        _each_if_any(answers, "client_cache", "misses"),
        _each(answers, "storage", "loads"), _each(answers, "storage", "stores"),
        _each(answers, "storage", "stored_bytes"), errors[-1] if errors else "")


def _each(answers: Sequence[Mapping[str, Any]], part: str, name: str) -> float:
    """A count, an operation, over all rounds."""
    operations = sum(each["operations"] for each in answers)
    return sum(each[part][name] for each in answers) / operations if operations else 0.0


def _each_if_any(answers: Sequence[Mapping[str, Any]], part: str, name: str) -> float | None:
    having = [each for each in answers if each[part] is not None]
    return _each(having, part, name) if having else None
