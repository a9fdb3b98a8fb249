"""When each step of an operation was at work, for a bar beside it.  Pure."""

from __future__ import annotations

import dataclasses

from indico_zodbrepl.failover.operation import Operation, StepRecord

NARROWEST = 0.6
"""Percent; what is narrower can't be seen."""


@dataclasses.dataclass(frozen=True)
class Bar:
    """A step's part of the whole time.

    Attributes:
        left, width: in percent of the time from the first step's begin to the last one's end.
        seconds: how long it took; so far, while it is at work.
    """

    left: float
    width: float
    seconds: float


def bars(entry: Operation, now: float) -> list[Bar | None]:
    """A bar for each step; None for one that has not begun.

    Args:
        now: in seconds since 1970; the end of what is at work.
    """
    spans = [_span(record, now) for record in entry.records]
    begun = [span for span in spans if span is not None]
    if not begun:
        return [None for _ in spans]
    first = min(began for began, _ in begun)
    whole = max(max(ended for _, ended in begun) - first, 1e-9)
    return [None if span is None else _bar(span[0] - first, span[1] - span[0], whole)
            for span in spans]


def _bar(after: float, seconds: float, whole: float) -> Bar:
    width = max(NARROWEST, 100 * seconds / whole)
    return Bar(round(min(100 * after / whole, 100 - width), 3), round(width, 3), seconds)


def _span(record: StepRecord, now: float) -> tuple[float, float] | None:
    if record.began is None:
        return None
    ended = now if record.ended is None else record.ended
    return record.began, max(record.began, ended)
