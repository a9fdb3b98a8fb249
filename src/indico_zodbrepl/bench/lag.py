"""How long after its acknowledgement each transaction was at a follower; no I/O.

Writers tell (tid, acknowledged at), followers' observers (tid, arrived at), all by one clock,
seconds since 1970.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Sequence

Moments = Sequence[tuple[int, float]]
"""Pairs of a tid and the seconds since 1970 at which it was there."""


class Missing(Exception):
    """A follower was never seen with what had been acknowledged; its text says what it lacks."""


def lags(acknowledged: Moments, arrivals: Moments) -> list[float]:
    """Seconds from each acknowledgement until a follower had the transaction.

    A follower has a transaction once it has that one or a later one, as several can arrive at
    once.  What arrived before the acknowledgement counts as 0.

    Args:
        acknowledged: in any order.
        arrivals: in the order in which they were seen.

    Raises:
        Missing: something acknowledged never arrived.
    """
    tids: list[int] = []
    moments: list[float] = []
    for tid, at in arrivals:
        if not tids or tid > tids[-1]:
            tids.append(tid)
            moments.append(at)
    last = max((tid for tid, _ in acknowledged), default=0)
    if last > (tids[-1] if tids else 0):
        lacking = sum(tid > (tids[-1] if tids else 0) for tid, _ in acknowledged)
        raise Missing(f"{lacking} of {len(acknowledged)} transactions never arrived, "
                      f"the last of them {last:016x}")
    return [max(0.0, moments[bisect.bisect_left(tids, tid)] - at) for tid, at in acknowledged]


def slowest(found: Iterable[Sequence[float]]) -> list[float]:
    """Of each transaction the longest of its lags, one list for each follower."""
    return [max(each) for each in zip(*found, strict=True)]
