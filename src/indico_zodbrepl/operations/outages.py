"""Times in which nobody could save, as users saw them.  Pure.

The monitor measures them and writes each one into the journal as an entry of its own, because an
outage may have no operation, and usually begins before one and ends after it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping

from indico_zodbrepl.operations.model import JsonValue
from indico_zodbrepl.operations.operation import Operation
from indico_zodbrepl.probing import times

OUTAGE = "outage"
"""The kind of the journal's entry."""
ENDING = frozenset({"failover", "switchover", "restart", "restore"})
"""Operations that interrupt or restore saving."""
SLACK = 2.0
"""Seconds: the monitor checks once a second, and clocks of hosts differ."""
FEW_SECONDS = 5.0
SHARE = 0.1
"""Saves this close to the outage, in seconds or as a share of it, show that somebody waited."""
LATEST = 1e11


@dataclasses.dataclass(frozen=True)
class Outage:
    """A time in which nobody could save.  Moments are seconds since 1970, to the millisecond.

    The journal keeps so much: what follows from them has to be the same before and after.

    Attributes:
        began: when saving was last seen to be possible.
        ended: the first save after it; without one, when saving was possible again.
        last_save, first_save: the transactions before and after it; None if there was none.
        impossible: seconds for which the monitor saw that nobody could save, 0 if that was shorter
            than the time between two checks; None if the monitor did not run all the time.
        exact: True if the primary listed its transactions; otherwise they were seen once a second.
    """

    began: float
    ended: float
    last_save: float | None
    first_save: float | None
    impossible: float | None
    exact: bool

    def __post_init__(self) -> None:
        for name in ("began", "ended", "last_save", "first_save", "impossible"):
            object.__setattr__(self, name, _rounded(getattr(self, name)))

    @property
    def between(self) -> float | None:
        """Return the seconds from the last save to the first one; None without one of them."""
        if self.last_save is None or self.first_save is None:
            return None
        return max(0.0, self.first_save - self.last_save)

    @property
    def longest(self) -> float:
        """Return for how many seconds a user can have waited at most."""
        seen = self.impossible or 0.0
        # A program may have saved while no user could.
        limits = [] if self.between is None or self.between < seen else [self.between]
        if seen:
            limits.append(seen + SLACK)
        return min(limits, default=max(0.0, self.ended - self.began))

    @property
    def was_noticed(self) -> bool:
        """Return True if saves right before and after it show how long users waited."""
        if self.between is None or self.impossible is None:
            return False
        allowed = max(FEW_SECONDS, SHARE * self.impossible)
        return abs(self.between - self.impossible) <= allowed

    @property
    def short(self) -> str:
        """Return its length: ``198 s``, or ``at most 198 s``."""
        if self.was_noticed and self.between is not None:
            return span(self.between)
        return f"at most {span(self.longest)}"

    @property
    def text(self) -> str:
        """Return its length and how it is known, one line."""
        if self.was_noticed and self.last_save is not None and self.first_save is not None:
            rough = "" if self.exact else "; known to about a second"
            before, after = times.moment(self.last_save), times.moment(self.first_save)
            return (
                f"{self.short}, from the last save ({before}) to the first one after it "
                f"({after}){rough}"
            )
        if self.impossible is None:
            seen = "the monitor did not run all the time"
        elif self.impossible:
            seen = f"saving was impossible for {span(self.impossible)}"
        else:
            seen = "shorter than the monitor's checks, which are a second apart"
        after = (
            "none followed within a minute"
            if self.first_save is None
            else f"the next one was at {times.moment(self.first_save)}"
        )
        before = f"the last save was at {times.moment(self.last_save)}, " if self.last_save else ""
        return f"{self.short}: {seen}. No save is known to have waited: {before}{after}"

    def figures(self) -> dict[str, JsonValue]:
        """Return it for the journal; ``from_figures`` reads it."""
        return {
            "no_save_seconds": _rounded(self.between),
            "last_save_at": self.last_save,
            "first_save_at": self.first_save,
            "impossible_seconds": self.impossible,
            "exact": self.exact,
        }

    def to_json(self) -> dict[str, JsonValue]:
        """Return it for programs, with its length in words."""
        return {
            "began": self.began,
            "ended": self.ended,
            **self.figures(),
            "longest_seconds": _rounded(self.longest),
            "noticed": self.was_noticed,
            "text": self.text,
        }


def of_entry(entry: Operation) -> Outage | None:
    """Return the outage of a journal's entry of that kind; None for others and for damaged ones."""
    if entry.plan.operation != OUTAGE or entry.ended is None:
        return None
    return from_figures(entry.began, entry.ended, entry.told)


def from_figures(began: float, ended: float, told: Mapping[str, JsonValue]) -> Outage | None:
    """Return the outage that ``Outage.figures`` describes; None if a value is unusable."""
    last, first = told.get("last_save_at"), told.get("first_save_at")
    impossible, exact = told.get("impossible_seconds"), told.get("exact")
    if not (_is_number(last) and _is_number(first) and _is_number(impossible)):
        return None
    return Outage(began, ended, _number(last), _number(first), _number(impossible), exact is True)


def by_operation(entries: Iterable[Operation]) -> dict[str, Outage]:
    """Return the outage of each entry that has one: its own, or the one during which it ran.

    The key is the entry's id.  If several outages touch an operation, the longest one counts.
    """
    entries = tuple(entries)
    own = {each.identifier: found for each in entries if (found := of_entry(each)) is not None}
    outages = sorted(own.values(), key=lambda each: each.longest)
    result = dict(own)
    for entry in entries:
        if entry.plan.operation not in ENDING or entry.ended is None:
            continue
        for outage in outages:
            if outage.began - SLACK <= entry.ended and entry.began <= outage.ended + SLACK:
                result[entry.identifier] = outage
    return result


def span(seconds: float) -> str:
    """Return a length of time: ``0.65 s``, ``198 s``, ``12 min`` or ``6.1 h``."""
    if seconds < 10:
        return f"{seconds:.2f} s"
    if seconds < 600:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)


def _is_number(value: JsonValue) -> bool:
    """Return True for None and for a number that can be shown."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return value is None or (number and 0 <= float(str(value)) < LATEST)


def _number(value: JsonValue) -> float | None:
    return float(value) if isinstance(value, int | float) else None
