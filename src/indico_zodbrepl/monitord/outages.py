"""Detection of outages: from the last save before one to the first save after it.  Pure.

A transaction id holds the time of its commit, so the ids of the last transaction before an outage
and of the first one after it say how long nobody has saved.  The probes say for how long that was
impossible.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from indico_zodbrepl.monitor.snapshot import Snapshot, State
from indico_zodbrepl.monitord.events import SETTLED_AFTER, Event, Kind, Weight
from indico_zodbrepl.monitord.memory import Memory, Ongoing
from indico_zodbrepl.operations.outages import Outage, span
from indico_zodbrepl.probing import tid

WITHOUT_A_SAVE = 60.0
"""Seconds after which nobody seems to have waited: a save that waits succeeds at once."""
BLIND = 5.0
"""Seconds between two snapshots after which the time between them counts as not observed."""
MOST_ASKED = 100
"""Transactions that are asked for to find the outage among them."""

Later = Callable[[int], int | None]
"""Returns the primary's first transaction after an id; None if that is unknown."""


def can_save(snapshot: Snapshot) -> bool:
    """Return True if a user can save: a primary takes commits, and an instance writes to it."""
    if snapshot.primary is None:
        return False
    primary = snapshot.node(snapshot.primary)
    if primary.held is not None or primary.write_failure is not None:
        return False
    return not snapshot.indico or any(
        each.writable and each.serves and not each.waits for each in snapshot.indico
    )


def outages(
    memory: Memory, snapshot: Snapshot, later: Later, epoch_began: float | None = None
) -> Iterator[Event]:
    """Yield an event when an outage has ended and its length is known; update ``memory``.

    Args:
        later: asks the primary of the snapshot.
        epoch_began: when its epoch was first recorded, seconds since 1970; None if unknown.
    """
    if snapshot.rivals or snapshot.state is State.UNKNOWN:
        return  # saves have no single order, or nothing is known: the next snapshot counts as late
    now, able, leads = snapshot.taken_at, can_save(snapshot), _leads(snapshot)
    outage = memory.outage = memory.outage or _begun(memory, now, leads, able=able)
    memory.watched = now
    if outage is None:
        if able:
            memory.saved, memory.leads = _last(snapshot), leads
        return
    if not able:
        _go_on(outage, snapshot)
        return
    if outage.ended is None:
        outage.ended = now
    last = _last(snapshot)
    if last <= outage.last and now - outage.ended < WITHOUT_A_SAVE:
        return
    memory.outage, memory.saved, memory.leads = None, last, leads
    missed_probe = leads == outage.leads and _impossible(outage) < SETTLED_AFTER
    if missed_probe and not outage.blind:
        return
    found = _measured(outage, last, later)
    unseen = outage.blind and outage.seen is None
    if unseen and not (found.exact and _holds(found, epoch_began)):
        return  # the monitor did not run, and too many transactions are newer
    former = "" if outage.leads is None else outage.leads[0]
    yield _event(now, snapshot.primary or "", former, found)


def _begun(
    memory: Memory, now: float, leads: tuple[str, int | None] | None, *, able: bool
) -> Ongoing | None:
    """Return an outage if one has begun since the last snapshot; a new primary is one, too."""
    before = memory.watched
    if memory.saved is None or before is None or (able and leads == memory.leads):
        return None
    blind = now - before > BLIND
    if able:
        return Ongoing(before, None, now, memory.saved, memory.leads, blind)
    return Ongoing(before, now, None, memory.saved, memory.leads, blind)


def _go_on(outage: Ongoing, snapshot: Snapshot) -> None:
    outage.ended = None
    if outage.seen is None:
        outage.seen = snapshot.taken_at
    if snapshot.primary is None:
        outage.last = max(outage.last, *(node.newest or 0 for node in snapshot.nodes))


def _event(now: float, primary: str, former: str, found: Outage) -> Event:
    text = (
        f"saving works again after {found.short} without a save"
        if found.was_noticed
        else f"saving works again; no user waited for more than {span(found.longest)}"
    )
    detail = f"users could not save: {found.text}"
    return Event(now, Kind.OUTAGE, Weight.GOOD, primary, text, detail, outage=found, former=former)


def _measured(outage: Ongoing, newest: int, later: Later) -> Outage:
    last, first, exact = outage.last, None, True
    if newest > outage.last:
        last, first, exact = widest(later, outage.last, newest)
    ended = outage.ended or outage.since
    last_save = tid.committed_at(last)
    first_save = None if first is None else tid.committed_at(first)
    return Outage(
        max(outage.since, last_save or 0.0),
        ended if first_save is None else max(first_save, outage.since),
        last_save,
        first_save,
        None if outage.blind else _impossible(outage),
        exact,
    )


def _impossible(outage: Ongoing) -> float:
    """Return for how many seconds nobody could save, as the monitor saw it."""
    if outage.seen is None:
        return 0.0
    return max(0.0, (outage.ended or outage.since) - outage.seen)


def widest(later: Later, low: int, high: int) -> tuple[int, int, bool]:
    """Return two neighbouring transactions with the longest time between them.

    Args:
        low, high: ids of transactions; those between them are asked for, up to MOST_ASKED.

    Returns them, and True; or ``low`` and ``high`` and False if the primary does not report them,
    or if there are more.
    """
    best, longest, at = (low, high), -1, low
    for _ in range(MOST_ASKED):
        following = later(at)
        if following is None or following <= at:
            return low, high, False
        if following - at > longest:
            best, longest = (at, following), following - at
        if high - following <= longest:  # no later one can be longer
            return *best, True
        at = following
    return low, high, False


def _holds(found: Outage, epoch_began: float | None) -> bool:
    """Return True if an epoch began in an outage; the clocks may differ by a few seconds."""
    if epoch_began is None or found.last_save is None:
        return False
    end = found.ended if found.first_save is None else found.first_save
    return found.last_save - BLIND <= epoch_began <= end + BLIND


def _last(snapshot: Snapshot) -> int:
    return 0 if snapshot.primary is None else snapshot.node(snapshot.primary).last_tid or 0


def _leads(snapshot: Snapshot) -> tuple[str, int | None] | None:
    """Return the primary and its epoch."""
    if snapshot.primary is None:
        return None
    return snapshot.primary, snapshot.node(snapshot.primary).epoch
