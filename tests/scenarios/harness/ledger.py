"""What was promised to the writers and shown to the readers, against what is there: pure counting.

A record is a writer's name and a number. Times are seconds of the monotonic clock.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterable, Mapping, Sequence

Record = tuple[str, int]
Ranges = Mapping[str, Sequence[Sequence[int]]]


@dataclasses.dataclass(frozen=True)
class Attempt:
    """A commit of a record; acknowledged when it returned.

    Attributes:
        client: who tried it; of Indico's users, the instance.
        tid: of its transaction, 16 hex digits; None when the client is not told.
    """

    record: Record
    acknowledged: bool
    began: float
    ended: float
    client: str
    tid: str | None = None


@dataclasses.dataclass(frozen=True)
class Sight:
    """The records that a reader saw at once, as spans of numbers by writer.

    Attributes:
        client: who read; empty for a look that was taken when all clients had ended.
        server: the address that the client was connected to; empty if it does not say.
        newest: of each writer, the transaction of the record with the highest number.
    """

    seen: Ranges
    began: float
    ended: float
    client: str = ""
    server: str = ""
    newest: Mapping[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Gap:
    """A time without a success of one client, who is empty when there was none."""

    seconds: float = 0.0
    began: float = 0.0
    client: str = ""


@dataclasses.dataclass(frozen=True)
class Declared:
    """A loss that the journal declares without an export: the data could not be read.

    Attributes:
        after: the last transaction that is certainly kept, 16 hex digits.
        until: when the failover had ended; what is saved later is no part of it.
    """

    after: str
    until: float = math.inf


@dataclasses.dataclass(frozen=True)
class Account:
    """What became of what was acknowledged.

    Attributes:
        acknowledged: number of commits that returned.
        missing: those that the cluster does not hold now.
        exported: those of the missing that are in a lost tail.
        told: those of the missing that are in none, but part of a loss that the journal declares.
        phantom: records that a reader saw, after the last failover, that the cluster lacks.
        write_gap, read_gap: the longest time for which one of the clients had no success, once
            something had happened.
    """

    acknowledged: int
    missing: frozenset[Record]
    exported: frozenset[Record]
    told: frozenset[Record]
    phantom: frozenset[Record]
    write_gap: Gap
    read_gap: Gap

    @property
    def unaccounted(self) -> frozenset[Record]:
        """The acknowledged records that vanished silently."""
        return self.missing - self.exported - self.told


def account(
    attempts: Iterable[Attempt],
    sights: Iterable[Sight],
    held: frozenset[Record],
    exported: frozenset[Record],
    *,
    settled: float,
    losses: Sequence[Declared] = (),
    disturbed: float = 0.0,
) -> Account:
    """Compare what was told with what is there.

    Args:
        held: what the primary holds at the end.
        exported: what the lost tails hold.
        settled: when the last failover had ended; what is seen later has to stay.
        losses: what the journal declares as lost and was not exported.
        disturbed: when something first happened; before, clients may still be starting.
    """
    saved = [each for each in attempts if each.acknowledged]
    sights = list(sights)
    acknowledged = {each.record for each in saved}
    missing = frozenset(acknowledged - held)
    told = frozenset(
        each.record
        for each in saved
        if each.tid is not None
        and any(each.tid > loss.after and each.ended <= loss.until for loss in losses)
    )
    seen = seen_in(each for each in sights if each.began >= settled)
    return Account(
        acknowledged=len(acknowledged),
        missing=missing,
        exported=missing & exported,
        told=(missing - exported) & told,
        phantom=seen - held,
        write_gap=worst_gap(saved, disturbed),
        read_gap=worst_gap(sights, disturbed),
    )


def worst_gap(successes: Iterable[Attempt | Sight], since: float) -> Gap:
    """The longest time that one of the clients, whoever it was, had to wait for a success."""
    ends: dict[str, list[float]] = {}
    for each in successes:
        if each.client:
            ends.setdefault(each.client, []).append(each.ended)
    return max(
        (
            Gap(later - earlier, earlier, client)
            for client, moments in ends.items()
            for earlier, later in itertools.pairwise(sorted(moments))
            if later >= since
        ),
        key=lambda gap: gap.seconds,
        default=Gap(),
    )


def seen_in(sights: Iterable[Sight]) -> frozenset[Record]:
    """All records that were seen; a reader sees nearly the same ones thousands of times."""
    spans = {
        (name, first, last)
        for sight in sights
        for name, found in sight.seen.items()
        for first, last in found
    }
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
    return frozenset(
        (name, number)
        for name, spans in ranges.items()
        for first, last in spans
        for number in range(first, last + 1)
    )
