"""What a fault cost the users of a cluster: pure counting."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Sequence
from itertools import pairwise
from typing import Any

from traffic import Commit, Outcome, Read


@dataclasses.dataclass(frozen=True)
class Verdict:
    """The result of one round.

    Attributes:
        acknowledged: number of commits that succeeded.
        missing: those of them that the cluster does not hold at the end.
        unaccounted: those of the missing that no recovery export holds.
        unknown_kept, unknown_gone: commits with an unknown outcome, by what became of them.
        refused_kept: refused commits that the cluster holds: always a defect.
        seen_and_gone: numbers that a reader saw and the cluster does not hold.
        by_no_leader: acknowledged by the former primary after its successor's first commit.
        first: seconds from the fault to the successor's first commit; None without one.
        pause: the longest time without a commit of the unaffected hosts, seconds.
        read_gap: the longest time that a reader of an unaffected host had to wait, seconds.
    """

    acknowledged: int
    missing: int
    unaccounted: int
    unknown_kept: int
    unknown_gone: int
    refused_kept: int
    seen_and_gone: int
    by_no_leader: int
    first: float | None
    pause: float
    read_gap: float

    def as_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


def judge(
    commits: Sequence[Commit],
    reads: Sequence[Read],
    held: Collection[int],
    exported: Collection[int],
    *,
    at: float,
    until: float,
    unaffected: Collection[str],
    former: str,
) -> Verdict:
    """Compare what was told with what is there.

    Args:
        commits, reads: by the time of their end.
        held: the numbers that the cluster has at the end.
        exported: those of recovery exports.
        at: when the fault began.
        until: when its repair began.
        unaffected: the hosts on which the fault left the programs as they were.
        former: ends the address of the server that was the primary when the fault began.
    """
    told: dict[Outcome, set[int]] = {outcome: set() for outcome in Outcome}
    for each in commits:
        told[each.outcome].add(each.number)
    missing = told[Outcome.ACKNOWLEDGED] - set(held)
    saved = [each for each in commits if each.outcome is Outcome.ACKNOWLEDGED]
    later = [each for each in saved if each.began > at and not each.server.endswith(former)]
    first = min((each.ended for each in later if each.number in held), default=None)
    by_no_leader = [
        each
        for each in saved
        if first is not None and each.number in missing and each.ended > first
    ]
    near = [each for each in saved if each.host in unaffected and each.ended <= until]
    read = [
        each for each in reads if each.host in unaffected and each.succeeded and each.ended <= until
    ]
    return Verdict(
        acknowledged=len(told[Outcome.ACKNOWLEDGED]),
        missing=len(missing),
        unaccounted=len(missing - set(exported)),
        unknown_kept=len(told[Outcome.UNKNOWN] & set(held)),
        unknown_gone=len(told[Outcome.UNKNOWN] - set(held)),
        refused_kept=len(told[Outcome.REFUSED] & set(held)),
        seen_and_gone=len({number for each in reads for number in each.seen} - set(held)),
        by_no_leader=len(by_no_leader),
        first=None if first is None else first - at,
        pause=longest([each.ended for each in near], at, until),
        read_gap=max(
            (
                longest([each.ended for each in read if each.host == host], at, until)
                for host in unaffected
            ),
            default=0.0,
        ),
    )


def longest(moments: Iterable[float], since: float, until: float) -> float:
    """Return the longest time between two neighbours that ended after a moment, seconds.

    A time that has not ended counts up to ``until``.
    """
    ordered = [*sorted(moments), until]
    return max((later - one for one, later in pairwise(ordered) if later > since), default=0.0)
