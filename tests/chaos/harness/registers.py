"""Judge the writes and reads of single objects.  No I/O.

A write replaces the value of an object and tells the one that it replaced; a read tells the present
one.  Both are transactions that ZODB refuses if the object has changed since they began, so they
have to be linearizable: each takes effect at one moment between its call and its answer.

The search is that of Wing and Gong, "Testing and verifying concurrent objects", Journal of Parallel
and Distributed Computing 17, 1993, with the memory of visited states by Lowe, "Testing for
linearizability", Concurrency and Computation 29, 2017.  Each object is judged by itself, which is
allowed because linearizability is local (Herlihy and Wing, TOPLAS 12, 1990).
"""

from __future__ import annotations

import dataclasses
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from histories import Anomaly, Kind
from traffic import Outcome


@dataclasses.dataclass(frozen=True)
class Access:
    """A write or a read of an object.

    Attributes:
        number: unique in the history; the value that a write leaves.
        key: of the object.
        writes: False if it only reads.
        saw: the value before; 0 of an object that was never written.
        began, ended: infinite if the client never learned the outcome.
    """

    number: int
    key: str
    writes: bool
    saw: int
    outcome: Outcome
    began: float
    ended: float = math.inf
    session: str = ""
    error: str = ""

    @property
    def left(self) -> int:
        """The value after it."""
        return self.number if self.writes else self.saw

    def __str__(self) -> str:
        done = f"replaced {self.saw} by {self.number}" if self.writes else f"read {self.saw}"
        return (
            f"{self.number:>8} {self.session:<12} {self.began:.3f} to {self.ended:.3f} "
            f"{self.outcome:<12} {done} in {self.key}" + (f"; {self.error}" if self.error else "")
        )


def judge(
    accesses: Iterable[Access],
    final: dict[str, int],
    end: float,
    exported: frozenset[int] = frozenset(),
) -> list[Anomaly]:
    """Find objects whose accesses are not linearizable.

    Args:
        final: the values at the end, read at the time ``end``, after all accesses.
        exported: numbers in recovery exports that may be missing.
    """
    by_key: dict[str, list[Access]] = defaultdict(list)
    for each in accesses:
        by_key[each.key].append(each)
    return [
        anomaly
        for key, mine in sorted(by_key.items())
        for anomaly in _judge_object(key, mine, final.get(key, 0), end, exported)
    ]


def _judge_object(
    key: str, accesses: Sequence[Access], last: int, end: float, exported: frozenset[int]
) -> Iterator[Anomaly]:
    written = {each.number: each for each in accesses if each.writes}
    numbers = (each.saw for each in accesses if each.outcome is not Outcome.REFUSED)
    for number in sorted({*numbers, last} - written.keys() - {0}):
        yield Anomaly(Kind.PHANTOM, f"{number} was in {key}", (number,))
        return
    # What an export holds may be lost. A write that saw it needs an export too.
    kept = _chain(written, last)
    lost = (exported & written.keys()) - kept
    known = [
        each
        for each in accesses
        if each.outcome is not Outcome.REFUSED
        and (each.number if each.writes else each.saw) not in lost
        # A read without an answer says nothing.
        and (each.writes or each.outcome is Outcome.ACKNOWLEDGED)
    ]
    known.append(Access(0, key, False, last, Outcome.ACKNOWLEDGED, end, end))
    stuck = unordered(known)
    if stuck:
        names = ", ".join(str(each.number) if each.number else "the end" for each in stuck)
        yield Anomaly(
            Kind.NOT_LINEARIZABLE,
            f"in {key}, these are left without an order: {names}",
            tuple(each.number for each in stuck if each.number),
        )


def _chain(written: dict[int, Access], last: int) -> set[int]:
    """Return the writes that led to a value."""
    found: set[int] = set()
    while last in written and last not in found:
        found.add(last)
        last = written[last].saw
    return found


def unordered(accesses: Sequence[Access]) -> list[Access]:
    """Return nothing if accesses of one object are linearizable; otherwise those that are stuck.

    Writes with an unknown outcome may have taken effect at any time after they began, or never.
    Stuck are the accesses that could come next, in their times, when the search got furthest.
    """
    ordered = sorted(accesses, key=lambda each: each.began)
    certain = 0
    for place, each in enumerate(ordered):
        if each.outcome is Outcome.ACKNOWLEDGED:
            certain |= 1 << place
    furthest, stuck = -1, list[Access]()
    visited: set[tuple[int, int]] = set()
    todo = [(0, 0)]  # which accesses have taken effect, as a bit each; the value they left
    while todo:
        state = todo.pop()
        if state in visited:
            continue
        visited.add(state)
        done, value = state
        if done & certain == certain:
            return []
        possible = list(_next(ordered, done))
        count = (done & certain).bit_count()
        if count > furthest:
            furthest, stuck = count, [ordered[place] for place in possible]
        todo += [
            (done | 1 << place, ordered[place].left)
            for place in reversed(possible)
            if ordered[place].saw == value
        ]
    return stuck


def _next(ordered: Sequence[Access], done: int) -> Iterator[int]:
    """Yield the places of accesses that began before each other one that is left had its answer."""
    first_answer = math.inf
    for place in range(_lowest_left(done), len(ordered)):
        each = ordered[place]
        if each.began > first_answer:
            return
        if done >> place & 1:
            continue
        if each.outcome is Outcome.ACKNOWLEDGED:
            first_answer = min(first_answer, each.ended)
        yield place


def _lowest_left(done: int) -> int:
    """Return the place of the lowest bit that is 0."""
    return (~done & (done + 1)).bit_length() - 1
