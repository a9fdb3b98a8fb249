"""Choose the successor of a lost leader, and prove that no acknowledged commit is lost.  Pure.

With acknowledged commits, each commit is on K of the N other nodes.  Any N - K + 1 of these nodes
include one that has it.  So the newest of them has every acknowledged commit.  A node whose data
may lack what it has confirmed is none of these.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Collection, Iterable, Mapping

from indico_zodbrepl.automation.timing import YIELD_SECONDS
from indico_zodbrepl.etcd.keys import Member
from indico_zodbrepl.host.candidacy import Candidacy


def why_unfit(found: Candidacy, epoch: int) -> str:
    """Return why a node can't become the leader, one line; empty if it can.

    Args:
        epoch: the last one that has begun; see ``last_begun``.
    """
    role = f"its server runs as {found.role}" if found.role else found.problem
    reasons = {
        f"its data is marked {found.condition}": bool(found.condition),
        "its server does not run": not found.runs,
        role: found.role not in ("secondary", "relay"),
        "it was a primary, and its data have not been compared since": found.was_writable,
        f"its state is of epoch {found.state_epoch}, and epoch {epoch} has begun": (
            found.state_epoch != epoch
        ),
        found.doubt: bool(found.doubt),
        found.problem or "its server did not detach from its upstream": not found.detached,
    }
    return next((why for why, applies in reasons.items() if applies), "")


def counts(found: Candidacy, epoch: int) -> bool:
    """Return True if a node's last transaction proves what an epoch's acknowledged commits are.

    It is final, part of the history of that epoch, and none that the node confirmed is later.
    """
    return (
        not found.condition
        and not found.doubt
        and not found.was_writable
        and found.state_epoch == epoch
        and (found.detached or not found.runs)
    )


def last_begun(answers: Iterable[Candidacy], epoch: int) -> int:
    """Return the last epoch in which commits may have been acknowledged.

    A leader that failed before any node followed it leaves a key of an epoch that never began.

    Args:
        answers: of all nodes that answered.
        epoch: of the leader key.
    """
    known = [each.state_epoch for each in answers if each.state_epoch <= epoch]
    return max(known, default=epoch)


class Verdict(enum.StrEnum):
    """The next act of a candidate that has asked the others."""

    TAKE = "take"
    YIELD = "yield"
    CANNOT = "cannot"


@dataclasses.dataclass(frozen=True)
class Judgement:
    """The result of a comparison of all candidates.

    Attributes:
        why: one line for the log and the journal.
        proven: True if no acknowledged commit is lost.
        ahead: nodes with a newer transaction than the candidate's.
    """

    verdict: Verdict
    why: str
    proven: bool = False
    ahead: tuple[str, ...] = ()


def ranked(found: Iterable[Candidacy], epoch: int) -> list[Candidacy]:
    """Return the nodes that can lead, the best one first: the newest, then by name."""
    fit = [each for each in found if not why_unfit(each, epoch)]
    return sorted(fit, key=lambda each: (-each.last_tid, each.node))


def judge(
    own: str,
    answers: Mapping[str, Candidacy],
    nodes: Collection[str],
    *,
    count: int,
    epoch: int,
    waited: float,
) -> Judgement:
    """Decide if a node takes the role.

    Args:
        own: the node.
        answers: the nodes that have answered, itself included.
        nodes: all nodes, the lost leader included.
        count: K, the secondaries that confirmed each acknowledged commit; 0 if none had to.
        epoch: of the leader key.
        waited: seconds since this host first found the key free.
    """
    candidate = answers.get(own)
    if candidate is None:
        return Judgement(Verdict.CANNOT, f"node {own} does not answer")
    begun = last_begun(answers.values(), epoch)
    unfit = why_unfit(candidate, begun)
    if unfit:
        return Judgement(Verdict.CANNOT, f"node {own} can't take over: {unfit}")
    final = [each for each in answers.values() if counts(each, begun)]
    needed = len(nodes) - count
    if count and len(final) < needed:
        return Judgement(Verdict.CANNOT, _unproven(answers, nodes, begun, needed))
    ahead = tuple(sorted(each.node for each in final if each.last_tid > candidate.last_tid))
    order = ranked(answers.values(), begun)
    place = [each.node for each in order].index(own)
    if count and ahead and place == 0:
        return Judgement(
            Verdict.CANNOT,
            f"acknowledged commits may be on {_named(ahead)} only, which can't take over: "
            + "; ".join(why_unfit(answers[name], begun) for name in ahead),
            ahead=ahead,
        )
    if waited < place * YIELD_SECONDS or (count and ahead):
        why = f"node {order[0].node} takes precedence: {_order(order[0], candidate)}"
        return Judgement(Verdict.YIELD, why)
    why = f"it has the newest transaction of {len(final)} of {len(nodes) - 1} nodes"
    if count:
        why += ", so it has every acknowledged commit"
    if place:
        why = f"node {order[0].node} takes precedence, but has not taken the role"
    return Judgement(Verdict.TAKE, why, bool(count), ahead)


def with_data(members: Mapping[str, Member]) -> tuple[str, ...]:
    """Return the nodes that have reported a transaction, the lost leader included.

    Without acknowledged commits nothing else keeps an empty node from replacing one with data.
    """
    return tuple(sorted(name for name, each in members.items() if int(each.tid or "0", 16)))


def _unproven(
    answers: Mapping[str, Candidacy], nodes: Collection[str], epoch: int, needed: int
) -> str:
    final = [name for name, each in answers.items() if counts(each, epoch)]
    why = "; ".join(
        f"{name}: {_why_not_final(answers[name]) if name in answers else 'no answer'}"
        for name in nodes
        if name not in final
    )
    return (
        f"it is not proven that no acknowledged commit is lost: {len(final)} of the {needed} "
        f"nodes that are needed for that have answered ({why})"
    )


def _why_not_final(found: Candidacy) -> str:
    if found.condition:
        return f"marked {found.condition}"
    if found.was_writable:
        return "a former primary that has not been compared"
    if found.doubt:
        return found.doubt
    if found.problem:
        return found.problem
    return f"its state is of epoch {found.state_epoch}"


def _order(best: Candidacy, candidate: Candidacy) -> str:
    if best.last_tid > candidate.last_tid:
        return "it has a newer transaction"
    return "its name comes first"


def _named(names: Collection[str]) -> str:
    return f"node{'s' * (len(names) != 1)} {' and '.join(names)}"
