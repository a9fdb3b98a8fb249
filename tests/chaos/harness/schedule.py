"""Which faults strike when: the same for the same seed.  No I/O."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterator, Sequence

PRIMARY, FIRST, SECOND = "primary", "first follower", "second follower"
FOLLOWERS = (FIRST, SECOND)
ANY = (PRIMARY, *FOLLOWERS)
NOBODY = ("",)
QUIET_SECONDS = 8.0
"""Before the first fault."""
BETWEEN = (4.0, 20.0)
"""Seconds between the end of a fault and the next one."""
TOGETHER = 0.25
"""How often the next fault begins while the one before lasts."""


@dataclasses.dataclass(frozen=True)
class Sort:
    """A sort of fault.

    Attributes:
        seconds: how long it lasts at least and at most; what ends by itself has no effect on that.
        targets: whom it may concern, by the role when it strikes.
    """

    name: str
    seconds: tuple[float, float]
    targets: tuple[str, ...] = ANY


@dataclasses.dataclass(frozen=True)
class Step:
    """A fault of a schedule.

    Attributes:
        at: seconds after the beginning of the run.
        target: whom it concerns; empty if nobody in particular.
        chance: seeds what else the fault chooses.
    """

    at: float
    fault: str
    target: str
    seconds: float
    chance: int

    @property
    def until(self) -> float:
        return self.at + self.seconds

    def __str__(self) -> str:
        of = f" of the {self.target}" if self.target else ""
        return f"{self.at:7.1f} s: {self.fault}{of} for {self.seconds:.1f} s"


def plan(seed: int, seconds: float, sorts: Sequence[Sort]) -> list[Step]:
    """Return the faults of a run, by time; the last one ends before the run.

    Each sort strikes once before any strikes again.

    Args:
        seed: any number.
        seconds: how long the run lasts, without the time to recover.
    """
    # The order of the sorts must not matter, or a new one would change more than it has to.
    chance = random.Random(seed)  # noqa: S311  # repeatable on purpose
    found: list[Step] = []
    at = QUIET_SECONDS
    for sort in _in_turn(chance, sorted(sorts, key=lambda each: each.name)):
        lasting = chance.uniform(*sort.seconds)
        step = Step(
            round(at, 1),
            sort.name,
            chance.choice(sort.targets),
            round(lasting, 1),
            chance.getrandbits(32),
        )
        if step.until > seconds:
            return found
        found.append(step)
        if chance.random() < TOGETHER:
            at += lasting * chance.random()
        else:
            at = max(each.until for each in found) + chance.uniform(*BETWEEN)
    return found


def plan_of(seeds: Sequence[int], seconds: float, sorts: Sequence[Sort]) -> list[Step]:
    """Return the faults of several schedules, one after the other; each has the same time."""
    part = seconds / len(seeds)
    return [
        dataclasses.replace(step, at=round(number * part + step.at, 1))
        for number, seed in enumerate(seeds)
        for step in plan(seed, part, sorts)
    ]


def _in_turn(chance: random.Random, sorts: Sequence[Sort]) -> Iterator[Sort]:
    while sorts:
        yield from chance.sample(sorts, len(sorts))
