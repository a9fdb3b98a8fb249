"""What was promised to the writers and shown to the readers, against what is there: pure counting.

A record is a writer's name and a number. Times are seconds of the monotonic clock.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Mapping, Sequence

Record = tuple[str, int]
Ranges = Mapping[str, Sequence[Sequence[int]]]


@dataclasses.dataclass(frozen=True)
class Attempt:
    """A commit of a record; acknowledged when it returned."""

    record: Record
    acknowledged: bool
    began: float
    ended: float


@dataclasses.dataclass(frozen=True)
class Sight:
    """The records that a reader saw at once, as spans of numbers by writer."""

    seen: Ranges
    began: float
    ended: float


@dataclasses.dataclass(frozen=True)
class Account:
    """What became of what was acknowledged.

    Attributes:
        acknowledged: number of commits that returned.
        missing: those that the cluster does not hold now.
        exported: those of the missing that are in a lost tail.
        phantom: records that a reader saw, after the last failover, that the cluster lacks.
        write_gap, read_gap: the longest time without a success, in seconds.
    """

    acknowledged: int
    missing: frozenset[Record]
    exported: frozenset[Record]
    phantom: frozenset[Record]
    write_gap: float
    read_gap: float

    @property
    def unaccounted(self) -> frozenset[Record]:
        """The acknowledged records that vanished silently."""
        return self.missing - self.exported


def account(attempts: Iterable[Attempt], sights: Iterable[Sight], held: frozenset[Record],
            exported: frozenset[Record], settled: float) -> Account:
    """Compare what was told with what is there.

    Args:
        held: what the primary holds at the end.
        exported: what the lost tails hold.
        settled: when the last failover had ended; what is seen later has to stay.
    """
    told = [each for each in attempts if each.acknowledged]
    sights = list(sights)
    acknowledged = {each.record for each in told}
    missing = frozenset(acknowledged - held)
    seen = seen_in(each for each in sights if each.began >= settled)
    return Account(
        acknowledged=len(acknowledged), missing=missing, exported=missing & exported,
        phantom=seen - held,
        write_gap=longest_gap(each.ended for each in told),
        read_gap=longest_gap(each.ended for each in sights))


def seen_in(sights: Iterable[Sight]) -> frozenset[Record]:
    """All records that were seen; a reader sees nearly the same ones thousands of times."""
    spans = {(name, first, last) for sight in sights
             for name, found in sight.seen.items() for first, last in found}
    merged: dict[str, list[list[int]]] = {}
    for name, first, last in sorted(spans):
        found = merged.setdefault(name, [])
        if found and first <= found[-1][1] + 1:
            found[-1][1] = max(last, found[-1][1])
        else:
            found.append([first, last])
    return records(merged)


def longest_gap(moments: Iterable[float]) -> float:
    """The longest time between two neighbours, in seconds; 0 when there are none."""
    ordered = sorted(moments)
    return max((later - earlier for earlier, later in itertools.pairwise(ordered)), default=0.0)


def records(ranges: Ranges) -> frozenset[Record]:
    """What the 2.7 programs write as lists of [first, last] by writer."""
    return frozenset((name, number) for name, spans in ranges.items()
                     for first, last in spans for number in range(first, last + 1))
