"""Transaction ids: 64-bit numbers that hold the time of their commit.

The upper 32 bits count minutes since 1900 in mixed radix (twelve months of 31
days each), the lower 32 bits are a fraction of that minute: the format of
``persistent.TimeStamp``, which this control plane has no other use for.
"""

from __future__ import annotations

import calendar
import datetime

from indico_zodbrepl.probing import times

EMPTY = 0
CLOCK_SLACK = 5.0
"""Seconds by which clocks may differ unnoticed."""


def parse(text: str) -> int:
    """Return the number behind 1 to 16 hex digits, with or without ``0x``.

    Raises:
        ValueError: the text is invalid.
    """
    digits = text[2:] if text[:2] in ("0x", "0X") else text
    if not 1 <= len(digits) <= 16 or not all(d in "0123456789abcdefABCDEF" for d in digits):
        raise ValueError(f"not a transaction id: {text[:40]!r}")
    return int(digits, 16)


def render(tid: int) -> str:
    """Return a tid as operators and ZODB's own tools write it: ``0x`` and 16 hex digits."""
    return f"0x{tid:016x}"


def committed_at(tid: int) -> float | None:
    """Return the commit time, in seconds since 1970 (UTC).

    None for the tid of an empty storage and for numbers that are no valid time, such as a 31
    February.
    """
    if tid == EMPTY:
        return None
    minutes, fraction = divmod(tid, 1 << 32)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    months, day = divmod(days, 31)
    years, month = divmod(months, 12)
    try:
        date = datetime.datetime(1900 + years, month + 1, day + 1, hour, minute)
    except ValueError:
        return None
    return calendar.timegm(date.timetuple()) + fraction * 60 / (1 << 32)


def clock_lag(tid: int | None, now: float) -> float:
    """Return how many seconds a clock is behind a transaction; 0 if it is right.

    Args:
        now: the clock's time, seconds since 1970.

    New transactions count on from the last one until the clock has caught up, so that their ids
    increase.
    """
    at = None if tid is None else committed_at(tid)
    lag = 0.0 if at is None else at - now
    return lag if lag > CLOCK_SLACK else 0.0


def moment(tid: int) -> str:
    """Return the commit time, such as ``2026-11-22 19:57:31 UTC``; empty if it has none."""
    at = committed_at(tid)
    return "" if at is None else times.moment(at)
