"""Plans a rejoin: a node that fell out follows the primary again, after what only it has was kept.

Pure.  ``rejoin_facts`` gathers what this looks at, ``rejoin_actions`` does the steps.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterator
from pathlib import Path

from ..cluster.commands import Commands
from ..cluster.model import Cluster, NodeState, Role
from ..node.datafs import Comparison, Relation
from .comparing import transactions
from .moves import Moves
from .situation import tail_folder
from .steps import Finding, Loss, Plan, Refusal, Step, Verdict

BYTES_PER_SECOND = 10e6
"""What the slowest disk reads; for time limits."""
INDEXED_PER_SECOND = 2e6
"""Bytes that the slowest server reads to make an index; for time limits."""
LEAST_SECONDS = 120.0
CATCH_UP_SECONDS = 3600.0


class Ending(enum.StrEnum):
    """What a node is after a rejoin; but for ``joined`` its lineage file says so."""

    JOINED = "joined"
    NEEDS_SEEDING = "needs-seeding"
    QUARANTINED = "quarantined"


@dataclasses.dataclass(frozen=True)
class Facts:
    """What is known before a node joins a primary.

    Attributes:
        now: seconds since 1970.
        state: what the node has been told to be.
        primary: the only node that takes writes in ``epoch``.
        primary_problem: why the primary does not serve; empty when it does.
        following: whether the node's server follows the primary right now.
        has_followers: whether other nodes are told to follow it.
        comparison: its data file held against the primary's; None when that can't be done.
        damage: why its data file can't be read; empty when it can, or there is none.
        verified: up to there its history was shown to be that of the cluster, 16 hex digits.
        was_writable: whether it ran as a primary since.
        size: bytes of its data file and the primary's.
        exported: a folder that has all that would be cut off already; None when there is none.
    """

    now: float
    node: str
    state: NodeState
    primary: str
    epoch: int
    primary_problem: str
    following: bool
    has_followers: bool
    comparison: Comparison | None
    damage: str
    verified: str | None
    was_writable: bool
    size: int
    exported: Path | None = None


@dataclasses.dataclass(frozen=True)
class Judgement:
    """How a rejoin will end.

    Attributes:
        why: one line; for ``joined`` what is to be done for it.
        cut_after: the last common transaction, when there is something after it to cut off.
    """

    ending: Ending
    why: str
    cut_after: str | None = None


def judge(facts: Facts) -> Judgement:
    """Decide how a node can join.

    Nothing is ever cut off unless the files prove, transaction by transaction, that all up to
    there is common and all after it is the node's own.
    """
    found = facts.comparison
    if found is None:
        return Judgement(Ending.NEEDS_SEEDING, f"its data file is damaged: {facts.damage}")
    if found.relation is Relation.EMPTY:
        return Judgement(Ending.JOINED, "it is empty; the primary sends everything")
    common = found.common.tid if found.common else None
    obstacle = _obstacle(facts, found)
    if obstacle is not None:
        return obstacle
    if found.relation.may_follow:
        return Judgement(Ending.JOINED, f"its history is {found.relation}; nothing has to be cut")
    own = f"{transactions(found.private)} that the primary never had" if found.private else (
        f"missing in the middle: {transactions(found.holes)}")
    return Judgement(Ending.JOINED, f"{own}; common up to {common}", common)


def _obstacle(facts: Facts, found: Comparison) -> Judgement | None:
    if found.conflicting:
        return Judgement(Ending.QUARANTINED,
                         f"{transactions(found.conflicting)} with the primary's ids and another "
                         "content")
    if found.relation is Relation.UNRELATED or found.common is None:
        return Judgement(Ending.NEEDS_SEEDING, "it has no transaction in common with the primary")
    away = found.packed_away_last
    if away is not None and facts.was_writable and away > (facts.verified or ""):
        return Judgement(Ending.NEEDS_SEEDING,
                         f"the primary was packed, so {transactions(found.packed_away)} up to "
                         f"{away} can't be shown to be common")
    return None


def plan_rejoin(cluster: Cluster, facts: Facts, reason: str, commands: Commands) -> Plan | Refusal:
    """A plan that ends with the node joined, or stopped and marked with the reason."""
    objection = _objection(facts, commands)
    if objection is not None:
        return objection
    judged = judge(facts)
    findings = (Finding(Verdict.FINE, facts.primary, "is the primary", f"epoch {facts.epoch}"),
                Finding(Verdict.FINE if judged.ending is Ending.JOINED else Verdict.WARNING,
                        facts.node, judged.why, _evidence(facts)))
    return Plan("rejoin", facts.node, facts.primary, reason, facts.epoch,
                tuple(_steps(cluster, facts, judged, commands)), _loss(facts, judged), findings)


def state_after(cluster: Cluster, facts: Facts) -> NodeState:
    """The node's state once it follows the primary."""
    role = Role.RELAY if facts.has_followers else Role.SECONDARY
    return NodeState(cluster.name, facts.node, role, facts.primary, facts.epoch)


def _objection(facts: Facts, commands: Commands) -> Refusal | None:
    if facts.node == facts.primary:
        what = f"{facts.node} is the primary of epoch {facts.epoch}; the others follow it"
        return Refusal(f"node {facts.node} can't rejoin: it is the primary",
                       f"to give the role away: {commands.zodbrepl('switchover')}",
                       (Finding(Verdict.AGAINST, facts.node, what),))
    if facts.primary_problem:
        return Refusal(f"node {facts.node} can't rejoin: primary {facts.primary} does not serve",
                       f"start it, or promote another one: {commands.zodbrepl('status')}",
                       (Finding(Verdict.AGAINST, facts.primary, "does not serve",
                                facts.primary_problem),))
    if (facts.following and facts.comparison is not None and facts.comparison.relation.may_follow
            and judge(facts).ending is Ending.JOINED):
        return Refusal(f"node {facts.node} has joined already", "",
                       (Finding(Verdict.FINE, facts.node, f"follows {facts.primary}",
                                _evidence(facts)),))
    return None


def _evidence(facts: Facts) -> str:
    found = facts.comparison
    if found is None:
        return ""
    return (f"{found.relation}; {found.private} only there, {found.missing} missing; "
            f"{transactions(found.examined)} compared")


def _loss(facts: Facts, judged: Judgement) -> Loss | None:
    found = facts.comparison
    if found is None or judged.cut_after is None or not found.private:
        return None
    how = "exported before, now cut off" if facts.exported else "exported and cut off"
    return Loss(facts.node, found.private, None, True, judged.cut_after,
                f"{transactions(found.private)}, {how}")


def _steps(cluster: Cluster, facts: Facts, judged: Judgement, commands: Commands) -> Iterator[Step]:
    moves = Moves(cluster, commands)
    node, primary = facts.node, facts.primary
    seconds = max(LEAST_SECONDS, facts.size / BYTES_PER_SECOND)
    yield dataclasses.replace(moves.fence(node), title=f"End {node}'s server, if it runs")
    if judged.ending is not Ending.JOINED:
        yield mark(node, primary, judged.ending, judged.why, commands)
        return
    lineage = commands.zodbrepl("lineage", node, primary, "--full")
    yield Step("rejoin-compare", node, {"against": primary, "cut_after": judged.cut_after},
               f"Compare {node}'s data file with {primary}'s, from end to end",
               "nothing was added to it since it was looked at", "", lineage, seconds, False)
    if judged.cut_after is not None:
        folder = facts.exported or tail_folder(cluster, node, facts.epoch, facts.now)
        yield from _cutting(facts, judged.cut_after, folder, seconds, lineage)
    after = state_after(cluster, facts)
    yield dataclasses.replace(moves.assign(after), may_fail=False)
    yield mark(node, primary, Ending.JOINED, "", commands)
    yield start(moves, node, facts.size)
    yield catch_up(node, primary, commands)


def _cutting(facts: Facts, after: str, folder: Path, seconds: float,
             command: str) -> Iterator[Step]:
    node = facts.node
    private = facts.comparison.private if facts.comparison else 0
    reused = facts.exported is not None
    what = f"what {node} has after {after} ({private} of its own)"
    yield Step("rejoin-export", node,
               {"after": after, "folder": str(folder), "private": private, "reused": reused},
               f"Use the export of {what} that is in {folder}" if reused
               else f"Export {what} to {folder}",
               "the folder has the same transactions" if reused
               else "the exported folder is complete, or not there", "", command, seconds, False)
    yield Step("rejoin-cut", node, {"after": after, "folder": str(folder)},
               f"Cut {node}'s data file after {after}",
               "what is cut is kept in the same folder first", "", "", seconds, True)


def start(moves: Moves, node: str, size: int) -> Step:
    """Starts who joins; a server without an index reads its whole data file first."""
    return dataclasses.replace(moves.start(node), may_fail=False,
                               seconds=LEAST_SECONDS + size / INDEXED_PER_SECOND)


def catch_up(node: str, primary: str, commands: Commands) -> Step:
    """The last step of who joins."""
    return Step("rejoin-catch-up", node, {"primary": primary},
                f"See {node} follow {primary} and catch up",
                f"it has what {primary} had when this began", "", commands.zodbrepl("status"),
                CATCH_UP_SECONDS, True)


def mark(node: str, primary: str, ending: Ending, why: str, commands: Commands) -> Step:
    """Writes into the lineage file what the node is now."""
    said = "ok" if ending is Ending.JOINED else str(ending)
    return Step("rejoin-mark", node, {"against": primary, "condition": said, "detail": why},
                f"Write into {node}'s lineage file: {said}",
                "how far it was compared is written down too" if said == "ok" else "", "",
                commands.zodbrepl("lineage", node), LEAST_SECONDS, True)
