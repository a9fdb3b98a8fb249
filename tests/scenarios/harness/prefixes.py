"""Judge whether each transaction of a reader saw a prefix of one history: pure counting.

A history is a sequence of records in the order of their transactions. The cluster has one now.
Each export is the end of a history that the cluster abandoned, and so is each loss that the journal
declares. A sight is a prefix of a history if it has all records up to its newest one and no others.

Not everything can be judged. The end of a declared loss is in no file. Its acknowledged records are
known from the writers, and others from readers, which log the transaction of each writer's newest
record. The loss may also include a commit that its writer logged as refused. Where the place of
such a record could decide, a sight is ``unjudged``, unless it contradicts what is known.

A pack does no harm: the writers never change a record, so it keeps its transaction.
"""

from __future__ import annotations

import bisect
import dataclasses
import itertools
from collections.abc import Iterable, Mapping, Sequence

from ledger import Attempt, Declared, Ranges, Record, Sight, records

SHOWN = 3  # records of a violation that its text names


@dataclasses.dataclass(frozen=True)
class Export:
    """An end of a history that the cluster abandoned.

    Attributes:
        after: the transaction before it, 16 hex digits.
        tids: its transactions.
        records: its records, each with its transaction.
    """

    after: str
    tids: frozenset[str]
    records: Mapping[Record, str]


@dataclasses.dataclass(frozen=True)
class Fit:
    """A comparison of a sight with a history.

    Attributes:
        newest: place of the newest record in the history; -1 if the sight has none of it.
        missing: number of records up to there that were not seen.
        foreign: number of records that were seen and can't be part of the history.
        sure: whether no unknown record of the history could make a difference.
    """

    newest: int
    missing: int
    foreign: int
    sure: bool = True

    @property
    def is_prefix(self) -> bool:
        return not self.missing and not self.foreign


class History:
    """Records in the order of their transactions.

    Args:
        name: for messages.
        tids: the transaction of each record.
        perhaps: commits that were not acknowledged, and may be part of it.
        ended: when the commit of a record ended, at the latest; only needed with ``perhaps``.
    """

    def __init__(
        self,
        name: str,
        tids: Mapping[Record, str],
        perhaps: Mapping[Record, Attempt] | None = None,
        ended: Mapping[Record, float] | None = None,
    ) -> None:
        self.name = name
        self.tids = tids
        self.order = sorted(tids, key=lambda record: tids[record])
        self._perhaps = perhaps or {}
        self._ended = ended or {}
        self._places: dict[str, tuple[list[int], list[int]]] = {}
        place = {record: number for number, record in enumerate(self.order)}
        for writer, number in sorted(tids):
            numbers, places = self._places.setdefault(writer, ([], []))
            numbers.append(number)
            places.append(place[writer, number])

    def until(self, tid: str) -> dict[Record, str]:
        """Return the records up to a transaction."""
        return {record: found for record, found in self.tids.items() if found <= tid}

    def fit(self, seen: Ranges) -> Fit:
        newest, known, total = -1, 0, 0
        for writer, spans in seen.items():
            numbers, places = self._places.get(writer, ([], []))
            for first, last in spans:
                start, end = bisect.bisect_left(numbers, first), bisect.bisect_right(numbers, last)
                newest = max(newest, *places[start:end], -1)
                known += end - start
                total += last - first + 1
        missing, foreign = newest + 1 - known, total - known
        if missing or not self._perhaps:
            return Fit(newest, missing, foreign)
        return self._fit_with_unknown(records(seen), newest, missing, foreign)

    def _fit_with_unknown(
        self, seen: frozenset[Record], newest: int, missing: int, foreign: int
    ) -> Fit:
        taken = self._perhaps.keys() & seen
        begun = max((self._perhaps[record].began for record in taken), default=0.0)
        missing += sum(  # committed before something that was seen, so they come first
            record not in seen and self._ended.get(record, begun) < begun
            for record in self.order[newest + 1 :]
        )
        last = self._ended.get(self.order[newest], 0.0) if newest >= 0 else 0.0
        sure = not taken and all(each.began > last for each in self._perhaps.values())
        return Fit(newest, missing, foreign - len(taken), sure)

    def missing(self, seen: frozenset[Record], newest: int) -> list[Record]:
        return [record for record in self.order[: newest + 1] if record not in seen]

    def foreign(self, seen: frozenset[Record]) -> list[Record]:
        return sorted(seen - self.tids.keys() - self._perhaps.keys())


@dataclasses.dataclass(frozen=True)
class Violation:
    """A sight that is a prefix of no history, compared with the most similar one.

    Attributes:
        moment: when the sight was complete.
        newest: the newest record of the history that was seen; None if it has none of them.
    """

    client: str
    moment: float
    history: str
    newest: Record | None
    missing: tuple[Record, ...]
    foreign: tuple[Record, ...]

    def __str__(self) -> str:
        newest = f"{self.newest[0]} {self.newest[1]}" if self.newest else "nothing"
        found = [
            f"{len(those)} {what} ({_some(those)})"
            for what, those in (("missing", self.missing), ("foreign", self.foreign))
            if those
        ]
        return (
            f"process {self.client} at {self.moment:.2f} saw up to {newest} of {self.history}, "
            f"with {' and '.join(found)}"
        )


@dataclasses.dataclass(frozen=True)
class Setback:
    """A time for which a process read less than it had read before.

    Attributes:
        servers: of the newest sight before it, and of its first one.
        sights: their number.
        seconds: from the newest sight before it until the process had read as much again, or until
            its last sight.
        same_history: False if the process had read records that the cluster abandoned.
    """

    client: str
    moment: float
    servers: tuple[str, str]
    sights: int
    seconds: float
    same_history: bool


@dataclasses.dataclass(frozen=True)
class Prefixes:
    """The judgement of some sights.

    Attributes:
        checked: the number of sights, those that could not be judged included.
    """

    checked: int = 0
    unjudged: int = 0
    violations: tuple[Violation, ...] = ()
    setbacks: tuple[Setback, ...] = ()

    @property
    def back(self) -> int:
        """The number of sights that were older than an earlier one, in the same history."""
        return sum(each.sights for each in self.setbacks if each.same_history)

    @property
    def back_after_change(self) -> int:
        """The same after a sight with records that the cluster abandoned."""
        return sum(each.sights for each in self.setbacks if not each.same_history)


def histories(
    present: Mapping[Record, str],
    exports: Sequence[Export],
    losses: Sequence[Declared],
    attempts: Iterable[Attempt],
    sights: Iterable[Sight],
) -> list[History]:
    """Return all histories that a reader may have seen, the present one first.

    Args:
        present: what the cluster has now, from a data file.
        losses: what the journal declares as lost.
        attempts: of all writers since the cluster began.
        sights: they name transactions of records that were not acknowledged.
    """
    now = History("the present history", present)
    branches: list[tuple[Export, History]] = []
    for export in sorted(exports, key=lambda each: each.after):
        tids = {**_base(export.after, now, branches), **export.records}
        branches.append((export, History(f"the history exported after {export.after}", tids)))
    kept = set(present).union(*(export.records for export in exports))
    known = {
        each.record: dataclasses.replace(each, tid=tid)
        for each, tid in _with_tids(attempts, sights)
        if each.record not in kept
    }
    lost = [_lost(loss, _base(loss.after, now, branches), known) for loss in losses]
    return [now, *(history for _, history in branches), *lost]


def _with_tids(
    attempts: Iterable[Attempt], sights: Iterable[Sight]
) -> Iterable[tuple[Attempt, str | None]]:
    read = {
        (writer, sight.seen[writer][-1][1]): tid
        for sight in sights
        for writer, tid in sight.newest.items()
    }
    return ((each, each.tid or read.get(each.record)) for each in attempts)


def _base(
    after: str, now: History, branches: Iterable[tuple[Export, History]]
) -> dict[Record, str]:
    """Return the records up to a transaction, of the exported history that has it or of now's."""
    return next((found for export, found in branches if after in export.tids), now).until(after)


def _lost(loss: Declared, base: Mapping[Record, str], known: Mapping[Record, Attempt]) -> History:
    highest: dict[str, int] = {}
    for writer, number in base:
        highest[writer] = max(number, highest.get(writer, 0))
    recent = {
        record: each
        for record, each in known.items()
        if each.began <= loss.until and record[1] > highest.get(record[0], 0)
    }
    lost = {
        record: each.tid for record, each in recent.items() if each.tid and each.tid > loss.after
    }
    perhaps = {record: each for record, each in recent.items() if each.tid is None}
    ended = {record: recent[record].ended for record in lost}
    return History(f"what was lost after {loss.after}", {**base, **lost}, perhaps, ended)


def judge(sights: Iterable[Sight], those: Sequence[History]) -> Prefixes:
    """Compare each sight with each history.

    Args:
        those: the result of ``histories``.
    """
    ordered = sorted(sights, key=lambda each: each.began)
    fits = [[history.fit(sight.seen) for history in those] for sight in ordered]
    violations, unjudged = [], 0
    for sight, found in zip(ordered, fits, strict=True):
        prefixes = [fit for fit in found if fit.is_prefix]
        if not prefixes:
            violations.append(_violation(sight, found, those))
        elif not any(fit.sure for fit in prefixes):
            unjudged += 1
    by_client: dict[str, list[tuple[Sight, str, bool]]] = {}
    for sight, found in zip(ordered, fits, strict=True):
        newest = max(_tid(fit, history) for fit, history in zip(found, those, strict=True))
        by_client.setdefault(sight.client, []).append((sight, newest, found[0].is_prefix))
    setbacks = [each for found in by_client.values() for each in _setbacks(found)]
    return Prefixes(len(ordered), unjudged, tuple(violations), tuple(setbacks))


def _tid(fit: Fit, history: History) -> str:
    return history.tids[history.order[fit.newest]] if fit.newest >= 0 else ""


def _violation(sight: Sight, found: Sequence[Fit], those: Sequence[History]) -> Violation:
    fit, history = min(
        zip(found, those, strict=True),
        key=lambda pair: (pair[0].missing + pair[0].foreign, pair[0].foreign),
    )
    seen = records(sight.seen)
    return Violation(
        sight.client,
        sight.ended,
        history.name,
        history.order[fit.newest] if fit.newest >= 0 else None,
        tuple(history.missing(seen, fit.newest)),
        tuple(history.foreign(seen)),
    )


def _setbacks(those: Iterable[tuple[Sight, str, bool]]) -> Iterable[Setback]:
    """Yield the setbacks of a process.

    Args:
        those: its sights in their order, each with its newest transaction, and whether it is a
            prefix of the present history.
    """
    found = list(those)
    highest = itertools.accumulate((newest for _, newest, _ in found), max)
    is_back = [newest < most for (_, newest, _), most in zip(found, highest, strict=True)]
    before = 0
    for back, group in itertools.groupby(range(len(found)), key=is_back.__getitem__):
        places = list(group)
        first, last = places[0], places[-1]
        if back:
            (best, _, kept), (sight, _, fits) = found[before], found[first]
            yield Setback(
                sight.client,
                sight.ended,
                (best.server, sight.server),
                last - first + 1,
                found[min(last + 1, len(found) - 1)][0].ended - best.ended,
                kept and fits,
            )
        before = last


def _some(found: Sequence[Record]) -> str:
    shown = ", ".join(f"{writer} {number}" for writer, number in found[:SHOWN])
    return f"{shown}{' ...' if len(found) > SHOWN else ''}"
