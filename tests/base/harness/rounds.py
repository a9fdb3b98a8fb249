"""What a disturbance in a round cost, and how long the rounds still take; pure."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Disturbance:
    """What a disturbance cost those who write.

    Attributes:
        gap: the longest time without a committed write, in seconds.
        told: how many commits were acknowledged around it.
        missing: how many of these the database lacks afterwards.
        exported: how many of the missing ones are in a lost tail.
        diverged: whether the old primary had transactions that the new one lacks, acknowledged or
            not.
    """

    gap: float
    told: int
    missing: int
    exported: int
    diverged: bool = False


def time_left(done: float, total: float, elapsed: float) -> float | None:
    """Seconds until all is done, from the pace so far; None before anything is done."""
    return elapsed * (total - done) / done if done else None
