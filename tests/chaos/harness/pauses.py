"""How long nothing was saved while faults struck.  Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from itertools import pairwise

from histories import Transaction
from registers import Access
from traffic import Outcome
from web_writes import WebWrite

LEAST_SECONDS = 10.0
"""Shorter pauses do not count: a failover takes some seconds."""


@dataclasses.dataclass(frozen=True)
class Pauses:
    """The times in which no write of any client was acknowledged.

    Attributes:
        longest: seconds; 0 without two writes.
        together: seconds of all that lasted at least ``LEAST_SECONDS``.
    """

    longest: float
    together: float


def measured(history: Iterable[Transaction | Access | WebWrite]) -> Pauses:
    """Return the pauses between the first acknowledged write of a run and the last."""
    ends = sorted(
        each.ended for each in history if each.outcome is Outcome.ACKNOWLEDGED and _writes(each)
    )
    gaps = [later - one for one, later in pairwise(ends)]
    return Pauses(
        round(max(gaps, default=0.0), 1),
        round(sum(gap for gap in gaps if gap >= LEAST_SECONDS), 1),
    )


def _writes(each: Transaction | Access | WebWrite) -> bool:
    if isinstance(each, Transaction):
        return bool(each.appended)
    return not isinstance(each, Access) or each.writes
