"""Events of the monitor and operations of the journal on the time axis of the charts."""

from __future__ import annotations

import collections
import dataclasses
import threading
from collections.abc import Iterable
from pathlib import Path

from indico_zodbrepl.admin.journal_view import name_of
from indico_zodbrepl.monitord.events import Event, Kind, Weight
from indico_zodbrepl.monitord.files import Tail
from indico_zodbrepl.operations.losses import DECIDED
from indico_zodbrepl.operations.operation import Operation
from indico_zodbrepl.operations.recover import DOWNLOADED, VALUES_SHOWN
from indico_zodbrepl.operations.silences import END, SILENCE

SHOWN = (Kind.STATE, Kind.PRIMARY, Kind.LAG, Kind.CAUGHT_UP, Kind.LINEAGE, Kind.WATCH)
"""Other events have the same cause as one of these, or change nothing that a chart shows."""
UNMARKED = (DECIDED, VALUES_SHOWN, DOWNLOADED, SILENCE, END)
"""Entries of the journal that change nothing in the cluster, besides those of accounts."""
MOST_EVENTS = 2000
"""Events in memory."""
MOST = 100
"""Marks of a range, the newest ones."""


@dataclasses.dataclass(frozen=True)
class HistoryMark:
    """A mark on the time axis.

    Attributes:
        at: seconds since 1970.
        until: end of an operation; null for an event, and while it has not ended.
        weight: critical, warning, notice or good, of an event; empty for an operation.
        text: what happened, in one line.
        operation: id of the operation in the journal; null for an event.
    """

    at: float
    until: float | None
    weight: str
    text: str
    operation: str | None


class Events:
    """The events of the monitor process, which reads only new ones.

    Args:
        path: the monitor's file of events; it need not exist.

    Threads: any.
    """

    def __init__(self, path: Path) -> None:
        self._tail = Tail(path)
        self._lock = threading.Lock()
        self._found: collections.deque[HistoryMark] = collections.deque(maxlen=MOST_EVENTS)

    def marks(self) -> list[HistoryMark]:
        """Return the marks of the newest events, oldest first.

        Raises OSError if the file exists but is unreadable.
        """
        with self._lock:
            self._found.extend(filter(None, map(_of_event, self._tail.new())))
            return list(self._found)


def event_of(line: object) -> Event | None:
    """Return the event of a line of the file; None if it is of another release."""
    try:
        event = Event(**line)  # type: ignore[arg-type]
        return dataclasses.replace(
            event,
            at=float(event.at),
            kind=Kind(event.kind),
            weight=Weight(event.weight),
            subject=str(event.subject),
            text=str(event.text),
            detail=str(event.detail),
        )
    except (TypeError, ValueError):
        return None


def _of_event(line: object) -> HistoryMark | None:
    """Return the mark of a line of the file; None if it has none, or is of another release."""
    event = event_of(line)
    if event is None or event.kind not in SHOWN:
        return None
    return HistoryMark(event.at, None, event.weight.value, event.text, None)


def of_operations(entries: Iterable[Operation]) -> list[HistoryMark]:
    """Return the marks of operations that change the cluster."""
    return [
        HistoryMark(each.began, each.ended, "", name_of(each), each.identifier)
        for each in entries
        if each.plan.operation not in UNMARKED and not each.plan.operation.startswith("admin-")
    ]


def between(marks: Iterable[HistoryMark], begins: float, ends: float) -> list[HistoryMark]:
    """Return the newest marks that touch a period, oldest first."""
    found = [
        each
        for each in marks
        if each.at < ends and (each.at if each.operation is None else each.until or ends) >= begins
    ]
    return sorted(found, key=lambda each: each.at)[-MOST:]
