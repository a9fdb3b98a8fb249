"""Decide whether a rate meets a latency limit and which rate to try next.  Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

ACHIEVED_PART = 0.99
"""Percentage of requests that must be answered in time."""

PRECISION = 0.1
"""The search ends when a failing rate exceeds a successful one by at most this factor."""

LEAST_RATE = 0.5
"""Requests per second; a server that fails at this rate is broken."""


@dataclasses.dataclass(frozen=True)
class Load:
    """The load generator's report about one job.

    Attributes:
        rate: requested requests per second.
        seconds: duration.
        scheduled: number of requests: answered, failed and dropped.
        failures: number of failures by reason.
        latency_ms: of answered requests: mean, p50, p90, p95, p99, max; {} without any.
        late_ms: the same for the delay of sending; it is part of the latency.
        change_latency_ms: as ``latency_ms``, of the changes among them.
        last_answer_seconds: from the start to the end of the last answer.
    """

    rate: float
    seconds: float
    scheduled: int
    answered: int
    dropped: int
    failures: Mapping[str, int]
    latency_ms: Mapping[str, float]
    late_ms: Mapping[str, float]
    last_answer_seconds: float
    generator_cpu_seconds: float
    change_latency_ms: Mapping[str, float] = dataclasses.field(default_factory=dict)

    @property
    def achieved(self) -> float:
        """Return answered requests per second, including the time of the last answers."""
        return self.answered / max(self.seconds, self.last_answer_seconds)


@dataclasses.dataclass(frozen=True)
class Limit:
    """The limit of a rate: this percentage of answers within ``ms``."""

    ms: float
    percentile: int

    def broken_by(self, load: Load) -> str:
        """Return why a rate misses the limit; '' if it meets it."""
        if load.failures:
            return "failed: " + ", ".join(
                f"{count} {why}" for why, count in sorted(load.failures.items())
            )
        if load.dropped:
            return f"dropped: {load.dropped}, too many were in flight"
        found = load.latency_ms[f"p{self.percentile}"]
        if found > self.ms:
            return f"p{self.percentile} {found:.0f} ms, more than {self.ms:g} ms"
        in_time = max(load.seconds, load.last_answer_seconds - self.ms / 1000)
        part = load.answered / in_time / (load.scheduled / load.seconds)
        if part < ACHIEVED_PART:
            return f"only {100 * part:.0f} % of the offered rate was achieved"
        return ""


@dataclasses.dataclass(frozen=True)
class Tried:
    """The rate of a trial, and whether it met the limit."""

    rate: float
    held: bool


def bounds(tried: Sequence[Tried]) -> tuple[float | None, float | None]:
    """Return the highest rate that met the limit below all failures, and the lowest failure.

    A rate with several trials failed if it failed more often than it succeeded.
    """
    balance: dict[float, int] = {}
    for each in tried:
        balance[each.rate] = balance.get(each.rate, 0) + (1 if each.held else -1)
    failed = min((rate for rate, more in balance.items() if more < 0), default=None)
    held = max(
        (rate for rate, more in balance.items() if more >= 0 and (failed is None or rate < failed)),
        default=None,
    )
    return held, failed


def next_rate(tried: Sequence[Tried], first: float, most: int) -> float | None:
    """Return the rate of the next trial; None when the search is over.

    The rate doubles until one fails (or halves until one succeeds), then the interval is bisected.
    The highest success is repeated at the end.  A first failure is repeated at once, because other
    load on the machine may have caused it.

    Args:
        first: the rate of the first trial.
        most: maximum number of trials; the last one is a repetition.
    """
    if not tried:
        return first
    held, _ = bounds(tried)
    if held is not None and len(tried) == most - 1:
        return None if is_confirmed(tried, held) else held
    if len(tried) < most and not tried[-1].held and tried.count(tried[-1]) == 1:
        return tried[-1].rate
    return _further(tried) if len(tried) < most else None


def _further(tried: Sequence[Tried]) -> float | None:
    held, failed = bounds(tried)
    if held is None:
        lower = min(each.rate for each in tried) / 2
        return lower if lower >= LEAST_RATE else None
    if failed is None:
        return 2 * held
    if failed > held * (1 + PRECISION):
        return (held + failed) / 2
    return None if is_confirmed(tried, held) else held


def is_confirmed(tried: Sequence[Tried], rate: float) -> bool:
    """Return True if a rate succeeded twice, and more often than it failed."""
    found = [each.held for each in tried if each.rate == rate]
    return sum(found) > max(1, len(found) - sum(found))
