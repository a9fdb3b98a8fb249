"""Count the leaders that acknowledged commits.  No I/O."""

from __future__ import annotations

from collections.abc import Iterable

from histories import Anomaly, Kind, Transaction
from traffic import Outcome


def alternation(history: Iterable[Transaction]) -> list[Transaction]:
    """Return acknowledged transactions, each at another server than the one before it.

    Each was acknowledged before the next one began, so that at least as many terms of a leader
    followed each other.
    """
    acknowledged = sorted(
        (each for each in history if each.outcome is Outcome.ACKNOWLEDGED and each.server),
        key=lambda each: each.ended,
    )
    found: list[Transaction] = []
    for each in acknowledged:
        if not found or (each.server != found[-1].server and each.began > found[-1].ended):
            found.append(each)
    return found


def judge(history: Iterable[Transaction], terms: int) -> list[Anomaly]:
    """Find commits of more leaders than there were.

    Args:
        terms: how many times a node became the leader, the first time included.
    """
    found = alternation(each for each in history if each.appended)
    if len(found) <= terms:
        return []
    said = ", ".join(f"{each.number} at {each.server}" for each in found)
    return [
        Anomaly(
            Kind.TWO_LEADERS,
            f"{terms} terms, but these follow each other: {said}",
            tuple(each.number for each in found),
        )
    ]
