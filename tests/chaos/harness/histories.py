"""What clients did and what they were told: the history that the checkers judge.  No I/O.

All times are seconds of CLOCK_BOOTTIME, which all hosts of a lab share and nobody sets.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping
from enum import StrEnum

from traffic import Outcome

Lists = Mapping[str, tuple[int, ...]]
"""Lists of transaction numbers by their keys."""


class Kind(StrEnum):
    """What a history shows that must not happen."""

    LOST = "an acknowledged write is lost"
    KEPT = "a refused write is in the database"
    TWICE = "a write is in the database twice"
    PHANTOM = "a value that nobody wrote"
    PARTLY = "a part of a transaction is in the database"
    OVERWRITTEN = "a write replaced another one that it had not seen"
    ABORTED_READ = "a refused write was read"
    DIRTY_READ = "a write was read and is gone"
    WRONG_READ = "a read shows what the database never had"
    WENT_BACK = "a session went back in time"
    OWN_WRITE = "a session does not see its own write"
    CYCLE = "the transactions have no order that snapshot isolation allows"
    NOT_LINEARIZABLE = "the writes of an object have no order that fits their times"
    TWO_LEADERS = "more leaders acknowledged than there were"


@dataclasses.dataclass(frozen=True)
class Anomaly:
    """One violation.

    Attributes:
        text: what was found where.
        numbers: the transactions that show it, which the report prints.
    """

    kind: Kind
    text: str
    numbers: tuple[int, ...] = ()

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}"


@dataclasses.dataclass(frozen=True)
class Transaction:
    """A transaction that appends its own number to lists, and reads lists.

    Attributes:
        session: one connection of one client; its transactions do not overlap.
        number: unique in the history.
        outcome: what the client was told.
        began, ended: infinite if the client never learned the outcome.
        read: the lists as it saw them before it appended.
        appended: keys of the lists to which it appended.
        server: address of the client's server, if it was the same before and after; or empty.
        error: what the client was told otherwise.
    """

    session: str
    number: int
    outcome: Outcome
    began: float
    ended: float = math.inf
    read: Lists = dataclasses.field(default_factory=dict)
    appended: tuple[str, ...] = ()
    server: str = ""
    error: str = ""

    def __str__(self) -> str:
        read = ", ".join(f"{key} {_end_of(seen)}" for key, seen in sorted(self.read.items()))
        return (
            f"{self.number:>8} {self.session:<12} {self.began:.3f} to {self.ended:.3f} "
            f"{self.outcome:<12} read {read or 'nothing'}; "
            f"appended to {', '.join(self.appended) or 'nothing'}"
            + (f"; at {self.server}" if self.server else "")
            + (f"; {self.error}" if self.error else "")
        )


def _end_of(seen: tuple[int, ...]) -> str:
    return f"[{len(seen)}: ...{', '.join(map(str, seen[-2:]))}]" if seen else "[]"


def without(history: Iterable[Transaction], excused: frozenset[int]) -> list[Transaction]:
    """Return the history as if transactions had never been.

    A cluster without acknowledged commits may lose the last ones with its primary.  Those that a
    recovery export holds are told to the operator; what is left has to be right without them.

    Args:
        excused: their numbers.
    """
    if not excused:
        return list(history)
    return [
        dataclasses.replace(
            each,
            read={
                key: tuple(value for value in seen if value not in excused)
                for key, seen in each.read.items()
            },
        )
        for each in history
        if each.number not in excused
    ]
