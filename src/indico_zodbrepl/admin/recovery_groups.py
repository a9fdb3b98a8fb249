"""A compared recovery export for the page: grouped by event, and cut into pages.  Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

from markupsafe import escape

from indico_zodbrepl.operations.recover import (
    APPLIES,
    CONFLICTS,
    HAS_IT,
    LostObject,
    LostTransaction,
    Recovery,
)

MOST_SHOWN = 200
"""Transactions on one page."""
BUDGET = 165_000
"""Bytes of HTML for the transactions of one page, as ``_pieces`` estimates them."""
PAGE = 150_000
"""The same for a transaction, with room for the titles of its group."""
MOST_NAMES, MOST_DIFFERENCES, MOST_EVENTS = 12, 40, 3
OUTCOMES = (APPLIES, CONFLICTS, HAS_IT)
EVENT = "Conference "
KINDS = ("events", "first", "others")
GROUP, TRANSACTION, OBJECT, DIFFERENCE, PROTECTED, NAME = 450, 750, 400, 100, 330, 40
"""Bytes of HTML for each of them, without the texts from data."""


@dataclasses.dataclass(frozen=True)
class Part:
    """A transaction, or as much of it as fits on a page.

    Attributes:
        new: number of new objects of the transaction.
        names: of new objects that Indico's users know, at most MOST_NAMES.
        events: new events that can be recovered under a new number.
        first: changed objects that Indico's users know.
        others: other changed objects: indexes, counters and the like.
        continued: True if it has begun on an earlier page.
        continues: True if it goes on on the next page.
    """

    transaction: LostTransaction
    new: int
    names: tuple[str, ...]
    events: tuple[LostObject, ...]
    first: tuple[LostObject, ...]
    others: tuple[LostObject, ...]
    continued: bool = False
    continues: bool = False


@dataclasses.dataclass(frozen=True)
class Group:
    """The transactions that changed the same events, those of them that are on a page.

    Attributes:
        names: of the events, at most MOST_EVENTS; empty for changes without an event.
        events: number of events.
        counts: transactions on all pages, by outcome.
        continued: True if it has begun on an earlier page.
    """

    names: tuple[str, ...]
    events: int
    counts: dict[str, int]
    parts: tuple[Part, ...]
    continued: bool = False


@dataclasses.dataclass(frozen=True)
class Page:
    """One page of transactions.

    Attributes:
        number, pages: from 1, of so many.
        first, last: numbers of its transactions among all, from 1.
    """

    number: int
    pages: int
    groups: tuple[Group, ...]
    first: int
    last: int


@dataclasses.dataclass(frozen=True)
class Compared:
    """A comparison or dry run, and its pages."""

    recovery: Recovery
    pages: Sequence[Page]


def compared(recovery: Recovery) -> Compared:
    """Return a comparison with its pages; 10,000 transactions take half a second."""
    return Compared(recovery, pages_of(recovery.transactions))


def pages_of(transactions: Sequence[LostTransaction]) -> list[Page]:
    """Return all pages, at least one; groups with recoverable transactions come first."""
    cut: list[list[tuple[Group, int, Part]]] = [[]]
    used = number = 0
    for group in _groups(transactions):
        title = GROUP + sum(map(_size, group.names))
        used += title
        for part in group.parts:
            number += 1
            for piece, cost in _pieces(part, BUDGET - used):
                full = len(cut[-1]) >= MOST_SHOWN or used + cost > BUDGET
                if cut[-1] and (piece.continued or full):
                    cut.append([])
                    used = title
                cut[-1].append((group, number, piece))
                used += cost
    return [_page(each, index, cut) for index, each in enumerate(cut)]


def _page(
    rows: list[tuple[Group, int, Part]], index: int, cut: list[list[tuple[Group, int, Part]]]
) -> Page:
    before = cut[index - 1][-1][0] if index and cut[index - 1] else None
    groups: list[Group] = []
    for group, _, part in rows:
        if groups and groups[-1].counts is group.counts:
            groups[-1] = dataclasses.replace(groups[-1], parts=(*groups[-1].parts, part))
        else:
            groups.append(
                dataclasses.replace(group, parts=(part,), continued=group is before and not groups)
            )
    numbers = [number for _, number, _ in rows] or [0]
    return Page(index + 1, len(cut), tuple(groups), numbers[0], numbers[-1])


def _groups(transactions: Sequence[LostTransaction]) -> list[Group]:
    """Return the transactions by event; recoverable ones first, then by their order."""
    held: dict[tuple[str, ...], list[LostTransaction]] = {}
    titles: dict[str, str] = {}
    for each in transactions:
        events = {lost.oid: lost.what for lost in each.objects if lost.what.startswith(EVENT)}
        titles.update(events)
        held.setdefault(tuple(sorted(events)), []).append(each)
    made = []
    for oids, own in held.items():
        own.sort(key=lambda each: OUTCOMES.index(each.outcome))
        counts = {outcome: sum(each.outcome == outcome for each in own) for outcome in OUTCOMES}
        names = tuple(titles[oid] for oid in oids[:MOST_EVENTS])
        made.append(Group(names, len(oids), counts, tuple(part_of(each) for each in own)))
    return sorted(made, key=_rank)


def _rank(group: Group) -> tuple[int, bool]:
    """Return the place of a group; a new event can be recovered although its transaction can't."""
    if any(part.events for part in group.parts):
        return 0, not group.events
    best = next((index for index, each in enumerate(OUTCOMES) if group.counts[each]), 0)
    return best, not group.events


def part_of(lost: LostTransaction) -> Part:
    """Return a whole transaction.

    Of new objects, and of those that the database has, only conflicting ones are listed.
    """
    new = [each for each in lost.objects if each.relation == "new"]
    shown = [each for each in lost.objects if each.relation not in ("new", "there") or each.why]
    return Part(
        lost,
        len(new),
        tuple(_in_words(new)[:MOST_NAMES]),
        tuple(each for each in new if each.what.startswith(EVENT))
        if lost.outcome == CONFLICTS
        else (),
        tuple(each for each in shown if _is_known(each)),
        tuple(each for each in shown if not _is_known(each)),
    )


def _is_known(lost: LostObject) -> bool:
    """Return True if Indico's users know an object; others have only the name of a class."""
    return " " in lost.what


def _in_words(objects: Sequence[LostObject]) -> list[str]:
    """Return the names of objects that Indico's users know, those with a title first."""
    names = dict.fromkeys(each.what for each in objects if _is_known(each))
    return sorted(names, key=lambda name: '"' not in name)


def _pieces(part: Part, room: int) -> Iterator[tuple[Part, int]]:
    """Yield a transaction in pieces with their costs.

    The first is for this room if that is large; others are for a whole page.
    """
    costs = [(kind, each, object_cost(each)) for kind in KINDS for each in getattr(part, kind)]
    head = _head_cost(part)
    whole = head + sum(cost for _, _, cost in costs)
    if whole <= PAGE:
        yield part, whole
        return
    limit = room if room > PAGE // 2 else PAGE
    held: dict[str, list[LostObject]] = {}
    used, continued = head, False
    for kind, each, cost in costs:
        if held and used + cost > limit:
            yield _piece(part, held, continued=continued, continues=True), used
            held, used, continued, limit = {}, TRANSACTION, True, PAGE
        held.setdefault(kind, []).append(each)
        used += cost
    yield _piece(part, held, continued=continued, continues=False), used


def _piece(
    part: Part, held: dict[str, list[LostObject]], *, continued: bool, continues: bool
) -> Part:
    return dataclasses.replace(
        part,
        events=tuple(held.get("events", ())),
        first=tuple(held.get("first", ())),
        others=tuple(held.get("others", ())),
        continued=continued,
        continues=continues,
    )


def _head_cost(part: Part) -> int:
    lost = part.transaction
    names = sum(NAME + _size(name) for name in part.names)
    return TRANSACTION + names + _size(lost.user) + _size(lost.description)


def object_cost(lost: LostObject) -> int:
    """Return about how many bytes of HTML an object takes."""
    shown = lost.differences[:MOST_DIFFERENCES]
    return (
        OBJECT
        + _size(lost.what)
        + _size(lost.why)
        + (PROTECTED if any(each.protected for each in shown) else 0)
        + sum(
            DIFFERENCE + _size(each.field) + _size(each.old or "") + _size(each.new or "")
            for each in shown
        )
    )


def _size(text: str) -> int:
    return len(escape(text).encode())
