"""Judge transactions that read lists and append to them.  No I/O.

Each transaction appends its own number, so a list tells the order of its versions, and each read
tells whose writes it saw.  That idea, and the names of several anomalies, are from Kingsbury and
Alvaro, "Elle: inferring isolation anomalies from experimental observations", VLDB 2020.
`snapshots.py` judges what concerns several lists.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Iterator, Sequence

from histories import Anomaly, Kind, Lists, Transaction, without
from snapshots import cycle
from traffic import Outcome


@dataclasses.dataclass(frozen=True)
class Judgement:
    """The result for one history.

    Attributes:
        anomalies: all that were found, the most telling kinds first.
        acknowledged, unknown_kept, unknown_gone: numbers of appending transactions.
        excused: acknowledged ones that are in no list but in an export.
    """

    anomalies: tuple[Anomaly, ...]
    acknowledged: int
    unknown_kept: int
    unknown_gone: int
    excused: int


def judge(
    history: Sequence[Transaction], final: Lists, exported: frozenset[int] = frozenset()
) -> Judgement:
    """Compare what clients saw and were told with what the database holds at the end.

    Args:
        final: all lists; a missing key is an empty one.
        exported: numbers in recovery exports that may be missing: empty if the cluster promised
            that no acknowledged commit is lost.
    """
    held = {value for values in final.values() for value in values}
    excused = exported - held
    known = without(history, excused)
    writers = {each.number: each for each in known}
    lists = _Lists(final, writers)
    found = [*lists.wrong_elements(), *_lost(known, lists)]
    sights: dict[int, dict[str, int]] = {each.number: {} for each in known}
    for each in known:
        for key, seen in each.read.items():
            anomaly = lists.wrong_read(each, key, seen)
            if anomaly is None:
                sights[each.number][key] = len(seen)
            else:
                found.append(anomaly)
    found += _overwritten(known, lists, sights)
    found += _went_back(known, lists, sights)
    found += _outlived(history, held, excused)
    if not found:
        # What is wrong with a single list is in most cases a cycle too, which says less.
        found += cycle(known, final, sights)
    order = list(Kind)
    appending = [each for each in history if each.appended]
    told = {
        outcome: {each.number for each in appending if each.outcome is outcome}
        for outcome in Outcome
    }
    return Judgement(
        tuple(sorted(set(found), key=lambda each: (order.index(each.kind), each.numbers))),
        len(told[Outcome.ACKNOWLEDGED]),
        len(told[Outcome.UNKNOWN] & held),
        len(told[Outcome.UNKNOWN] - held),
        len(told[Outcome.ACKNOWLEDGED] & excused),
    )


class _Lists:
    """The lists at the end, and who wrote their elements.

    Attributes:
        positions: of each element, by key.
    """

    def __init__(self, final: Lists, writers: dict[int, Transaction]) -> None:
        self.final = final
        self._writers = writers
        self.positions = {
            key: {value: position for position, value in enumerate(values)}
            for key, values in final.items()
        }

    def position(self, key: str, number: int) -> int | None:
        return self.positions.get(key, {}).get(number)

    def _has_written(self, number: int, key: str) -> bool:
        writer = self._writers.get(number)
        return writer is not None and key in writer.appended

    def wrong_elements(self) -> Iterator[Anomaly]:
        for key, values in self.final.items():
            if len(self.positions[key]) < len(values):
                double = sorted({each for each in values if values.count(each) > 1})
                yield Anomaly(Kind.TWICE, f"{double} in {key}", tuple(double))
            for number in self.positions[key]:
                if not self._has_written(number, key):
                    yield Anomaly(Kind.PHANTOM, f"{number} is in {key}", (number,))
                elif self._writers[number].outcome is Outcome.REFUSED:
                    yield Anomaly(Kind.KEPT, f"{number} is in {key}", (number,))

    def wrong_read(self, reader: Transaction, key: str, seen: Sequence[int]) -> Anomaly | None:
        """Return what is wrong with a read that is no earlier state of the list."""
        final = self.final.get(key, ())
        if tuple(seen) == final[: len(seen)]:
            return None
        place, number = next(
            (place, number)
            for place, number in enumerate(seen)
            if place >= len(final) or final[place] != number
        )
        numbers = number, reader.number
        said = f"{reader.number} saw {number} at place {place} of {key}"
        if not self._has_written(number, key):
            return Anomaly(Kind.PHANTOM, said, numbers)
        if self._writers[number].outcome is Outcome.REFUSED:
            return Anomaly(Kind.ABORTED_READ, said, numbers)
        if self.position(key, number) is None:
            return Anomaly(Kind.DIRTY_READ, said, numbers)
        there = final[place] if place < len(final) else None
        return Anomaly(
            Kind.WRONG_READ,
            f"{said}, where {there} is",
            numbers if there is None else (*numbers, there),
        )


def _lost(history: Iterable[Transaction], lists: _Lists) -> Iterator[Anomaly]:
    for each in history:
        missing = [key for key in each.appended if lists.position(key, each.number) is None]
        if not missing:
            continue
        said = f"{each.number} is not in {', '.join(missing)}"
        if len(missing) < len(each.appended):
            yield Anomaly(Kind.PARTLY, said, (each.number,))
        elif each.outcome is Outcome.ACKNOWLEDGED:
            yield Anomaly(Kind.LOST, said, (each.number,))


def _overwritten(
    history: Iterable[Transaction], lists: _Lists, sights: dict[int, dict[str, int]]
) -> Iterator[Anomaly]:
    """Find appends to another state than the writer had read."""
    for each in history:
        for key in each.appended:
            position, length = lists.position(key, each.number), sights[each.number].get(key)
            if position is not None and length is not None and position != length:
                other = lists.final[key][min(position, length)]
                yield Anomaly(
                    Kind.OVERWRITTEN,
                    f"{each.number} saw {length} elements of {key} and is at place {position}",
                    (each.number, other),
                )


def _went_back(
    history: Iterable[Transaction], lists: _Lists, sights: dict[int, dict[str, int]]
) -> Iterator[Anomaly]:
    """Find sessions that see less of a list than before, or less than they have written."""
    # For each session and key: how much it has seen, and by which transaction.
    read: dict[tuple[str, str], tuple[int, int]] = {}
    written: dict[tuple[str, str], tuple[int, int]] = {}
    for each in sorted(history, key=lambda each: each.began):
        for key, length in sights[each.number].items():
            place = each.session, key
            for kind, (least, by) in (
                (Kind.OWN_WRITE, written.get(place, (0, 0))),
                (Kind.WENT_BACK, read.get(place, (0, 0))),
            ):
                if length < least:
                    said = f"{each.number} saw {length} elements of {key}, after {by} with {least}"
                    yield Anomaly(kind, said, (by, each.number))
                    break
            read[place] = max(read.get(place, (0, 0)), (length, each.number))
        if each.outcome is Outcome.ACKNOWLEDGED:
            for key in each.appended:
                position = lists.position(key, each.number)
                if position is not None:
                    place = each.session, key
                    written[place] = max(written.get(place, (0, 0)), (position + 1, each.number))


def _outlived(
    history: Iterable[Transaction], held: set[int], excused: frozenset[int]
) -> Iterator[Anomaly]:
    """Find sessions that saw a lost transaction, and afterwards what replaced it.

    What is lost is the end of one server's history.  So a transaction that is held, and began after
    a lost one was acknowledged, was committed at another server, which never had the lost one.  A
    client that turns to that server has to begin another session.
    """
    writers = {each.number: each for each in history if each.appended}
    lost = {
        number
        for number in excused & writers.keys()
        if writers[number].outcome is Outcome.ACKNOWLEDGED
    }
    if not lost:
        return
    # For each session, the lost one that it saw and that ended first.
    first_seen: dict[str, tuple[float, int]] = {}
    for each in sorted(history, key=lambda each: each.began):
        seen = {number for values in each.read.values() for number in values} & writers.keys()
        if each.outcome is Outcome.ACKNOWLEDGED and each.appended:
            seen.add(each.number)
        since, witness = first_seen.get(each.session, (math.inf, 0))
        newer = sorted(number for number in seen & held if writers[number].began > since)
        if newer:
            said = f"{each.number} saw {newer[0]}, after {witness} was seen, which is lost"
            yield Anomaly(Kind.WENT_BACK, said, (witness, newer[0], each.number))
            del first_seen[each.session]  # once is enough
        for number in sorted(seen & lost):
            candidate = (writers[number].ended, number)
            first_seen[each.session] = min(first_seen.get(each.session, candidate), candidate)
