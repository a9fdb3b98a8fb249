"""Rejoin: a node follows the primary again; its divergent transactions are exported first.

``gather`` collects the facts; ``plan_rejoin`` is pure.  The steps are in ``rejoin_steps``.
"""

from __future__ import annotations

import dataclasses
import enum
import time
from collections.abc import Iterator
from pathlib import Path

from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.cluster.lookup import node_named
from indico_zodbrepl.cluster.model import Cluster, NodeState, Role
from indico_zodbrepl.host.datafs_answers import Comparison, Relation, describe
from indico_zodbrepl.host.interface import host_of
from indico_zodbrepl.host.promise import Fate, fate
from indico_zodbrepl.operations.candidates import transactions
from indico_zodbrepl.operations.checks import CatchUp
from indico_zodbrepl.operations.divergence import (
    compare,
    doubtful,
    find_fork,
    lineage,
    verified_against,
)
from indico_zodbrepl.operations.exports import exported_before
from indico_zodbrepl.operations.facts import (
    current_primary,
    follows,
    size_of,
    tail_folder,
    upstream_of,
    why_not_serving,
)
from indico_zodbrepl.operations.model import (
    Finding,
    Loss,
    Plan,
    Refusal,
    Step,
    Verdict,
)
from indico_zodbrepl.operations.rejoin_steps import LEAST_SECONDS, Compare, Cut, Export, Mark, start
from indico_zodbrepl.operations.roles import Assign, Fence

BYTES_PER_SECOND = 10e6
"""Bytes per second that the slowest disk reads; for time limits."""


class Ending(enum.StrEnum):
    """The result of a rejoin; all but ``joined`` are written into the node's history file."""

    JOINED = "joined"
    NEEDS_SEEDING = "needs-seeding"
    QUARANTINED = "quarantined"


@dataclasses.dataclass(frozen=True)
class Facts:
    """The state of a node and the primary before a rejoin.

    Attributes:
        now: seconds since 1970.
        state: the node's assigned state.
        primary: the only node that accepts writes in ``epoch``.
        primary_problem: why the primary does not serve; empty when it does.
        following: True if the node's server follows the primary now.
        has_followers: True if other nodes are assigned to follow it.
        comparison: of its data file with the primary's; None if that is impossible.
        damage: why its data file can't be compared; empty if it can, or is missing.
        verified: the tid up to which its history is verified, 16 hex digits.
        was_writable: True if it was a primary since.
        size: bytes of its data file and its blobs, or of the primary's if they have more.
        exported: a folder that already has everything that would be removed; None if there is none.
        fork: the last transaction that the primary got from the node; None if unknown.
        fate: what clients were told of the transactions that only the node has.
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
    fork: str | None = None
    fate: Fate = Fate.UNKNOWN

    @property
    def doubtful(self) -> int:
        """Return how many transactions are proven neither to be common nor to be the node's own."""
        return doubtful(self.comparison, self.verified, self.fork) if self.was_writable else 0


@dataclasses.dataclass(frozen=True)
class Judgement:
    """The expected result of a rejoin.

    Attributes:
        why: one line; for ``joined`` what must be done for it.
        cut_after: the last common transaction, if later ones must be removed.
    """

    ending: Ending
    why: str
    cut_after: str | None = None


def judge(facts: Facts) -> Judgement:
    """Decide how a node can join.

    Nothing is ever removed unless the files prove, transaction by transaction, that everything up
    to that point is common and everything after it is the node's own.
    """
    found = facts.comparison
    if found is None:
        return Judgement(Ending.NEEDS_SEEDING, f"its data file is damaged: {facts.damage}")
    if found.relation is Relation.EMPTY:
        return (
            Judgement(Ending.NEEDS_SEEDING, "no transaction of its data file can be read")
            if found.unreadable
            else Judgement(Ending.JOINED, "it is empty; the primary sends everything")
        )
    common = found.common.tid if found.common else None
    obstacle = _obstacle(facts, found)
    if obstacle is not None:
        return obstacle
    if found.relation.may_follow and found.unreadable:
        why = f"{_unreadable(found)}; common up to {common}"
        return Judgement(Ending.JOINED, why, common)
    if found.relation.may_follow:
        return Judgement(Ending.JOINED, f"its history is {found.relation}; nothing has to be cut")
    own = (
        f"{transactions(found.private)} that the primary never had"
        if found.private
        else (f"missing in the middle: {transactions(found.holes)}")
    )
    own += f"; {_unreadable(found)}" if found.unreadable else ""
    return Judgement(Ending.JOINED, f"{own}; common up to {common}", common)


def _unreadable(found: Comparison) -> str:
    return f"the last {found.unreadable} bytes of its data file can't be read"


def _obstacle(facts: Facts, found: Comparison) -> Judgement | None:
    if found.conflicting:
        return Judgement(
            Ending.QUARANTINED,
            f"{transactions(found.conflicting)} with the primary's ids and another content",
        )
    if found.blobs_differing:
        return Judgement(Ending.NEEDS_SEEDING, describe(found, facts.node, facts.primary))
    if found.relation is Relation.UNRELATED or found.common is None:
        return Judgement(Ending.NEEDS_SEEDING, "it has no transaction in common with the primary")
    if facts.doubtful:
        return Judgement(
            Ending.NEEDS_SEEDING,
            f"the primary was packed, so {transactions(facts.doubtful)} up to "
            f"{found.packed_away_last} can't be shown to be common",
        )
    return None


def gather(cluster: Cluster, installation: Installation, name: str) -> Facts:
    """Gather the facts of a rejoin; compare the two data files.

    Raises:
        OperatorError: exit 2, no such node; exit 8, it is not known who the primary is, or a
            state file or the primary's data can't be read.
    """
    installation.check()
    host = host_of(cluster, installation)
    node = node_named(cluster, name)
    primary, epoch = current_primary(cluster)
    own = host.state(name)
    remembered = lineage(host, name)
    problem = why_not_serving(cluster, primary, epoch)
    found, damage, verified, fork = None, "", None, None
    if node != primary and not problem:
        fork = find_fork(cluster, name, remembered, epoch)
        verified = verified_against(host, name, primary.name)
        found, damage = compare(host, node, primary, verified, fork, damaged=True)
    common = found.common.tid if found is not None and found.common is not None else None
    exported = common and exported_before(cluster, installation, node, common)
    return Facts(
        now=time.time(),
        node=name,
        state=own,
        primary=primary.name,
        epoch=epoch,
        primary_problem=problem,
        following=follows(cluster, node, primary),
        has_followers=any(upstream_of(cluster, other) == name for other in cluster.nodes),
        comparison=found,
        damage=damage,
        verified=verified,
        was_writable=remembered is None or remembered.was_writable,
        size=max(size_of(host, each) + host.blob_bytes(each) for each in (name, primary.name)),
        exported=exported or None,
        fork=fork,
        fate=fate(host.promise(name), remembered.epoch if remembered is not None else own.epoch),
    )


def prepare(cluster: Cluster, installation: Installation, name: str, reason: str) -> Plan | Refusal:
    """Gather the facts and plan the rejoin of a node; change nothing.  Raises OperatorError."""
    commands = Commands(cluster, installation.home)
    return plan_rejoin(cluster, gather(cluster, installation, name), reason, commands)


def plan_rejoin(cluster: Cluster, facts: Facts, reason: str, commands: Commands) -> Plan | Refusal:
    """Plan the steps that let the node join, or stop it and mark it with the reason."""
    objection = _objection(facts, commands)
    if objection is not None:
        return objection
    judged = judge(facts)
    findings = (
        Finding(Verdict.FINE, facts.primary, "is the primary", f"epoch {facts.epoch}"),
        Finding(
            Verdict.FINE if judged.ending is Ending.JOINED else Verdict.WARNING,
            facts.node,
            judged.why,
            _evidence(facts),
        ),
    )
    return Plan(
        "rejoin",
        facts.node,
        facts.primary,
        reason,
        facts.epoch,
        tuple(_steps(cluster, facts, judged, commands)),
        _loss(facts, judged),
        findings,
    )


def state_after(cluster: Cluster, facts: Facts) -> NodeState:
    """Return the node's state once it follows the primary."""
    role = Role.RELAY if facts.has_followers else Role.SECONDARY
    return NodeState(cluster.name, facts.node, role, facts.primary, facts.epoch)


def _objection(facts: Facts, commands: Commands) -> Refusal | None:
    if facts.node == facts.primary:
        what = f"{facts.node} is the primary of epoch {facts.epoch}; the others follow it"
        return Refusal(
            f"node {facts.node} can't rejoin: it is the primary",
            f"to give the role away: {commands.zodbrepl('switchover')}",
            (Finding(Verdict.AGAINST, facts.node, what),),
        )
    if facts.primary_problem:
        return Refusal(
            f"node {facts.node} can't rejoin: primary {facts.primary} does not serve",
            f"start it, or promote another one: {commands.zodbrepl('status')}",
            (Finding(Verdict.AGAINST, facts.primary, "does not serve", facts.primary_problem),),
        )
    if (
        facts.following
        and not facts.was_writable  # else it can't take over before a rejoin records the comparison
        and facts.comparison is not None
        and facts.comparison.relation.may_follow
        and judge(facts).ending is Ending.JOINED
    ):
        return Refusal(
            f"node {facts.node} has joined already",
            "",
            (Finding(Verdict.FINE, facts.node, f"follows {facts.primary}", _evidence(facts)),),
        )
    return None


def _evidence(facts: Facts) -> str:
    found = facts.comparison
    if found is None:
        return ""
    return (
        f"{found.relation}; {found.private} only there, {found.missing} missing; "
        f"{transactions(found.examined)} compared"
    )


def _loss(facts: Facts, judged: Judgement) -> Loss | None:
    found = facts.comparison
    if found is not None and judged.ending is Ending.NEEDS_SEEDING and facts.doubtful:
        return Loss(
            facts.node,
            None,
            None,
            False,
            found.packed_away_after,
            f"up to {transactions(found.private + facts.doubtful)} of {facts.node} that can't be "
            "shown to be common; a clone exports them first",
        )
    if found is None or judged.cut_after is None:
        return None
    if found.unreadable and facts.was_writable:
        own = f"{transactions(found.private)} and what " if found.private else "what "
        return Loss(
            facts.node,
            None,
            None,
            False,
            judged.cut_after,
            f"{own}can't be read at the end of {facts.node}'s data file; kept, then cut off",
        )
    if not found.private:
        return None
    how = "exported before, now cut off" if facts.exported else "exported and cut off"
    return Loss(
        facts.node,
        found.private,
        None,
        True,
        judged.cut_after,
        f"{transactions(found.private)}, {how}; {facts.fate}",
    )


def _steps(cluster: Cluster, facts: Facts, judged: Judgement, commands: Commands) -> Iterator[Step]:
    node, primary = facts.node, facts.primary
    seconds = max(LEAST_SECONDS, facts.size / BYTES_PER_SECOND)
    yield Fence.of(commands, node, f"Kill {node}'s server, if it runs")
    found = facts.comparison
    if judged.ending is not Ending.JOINED or found is None:
        yield Mark.of(commands, node, primary, str(judged.ending), judged.why)
        return
    damaged = found.unreadable > 0
    yield Compare.of(
        commands,
        node,
        primary,
        cut_after=judged.cut_after,
        verified=facts.verified,
        fork=facts.fork,
        seconds=seconds,
        damaged=damaged,
    )
    after = judged.cut_after
    if after is not None:
        folder = facts.exported or tail_folder(cluster, node, facts.epoch, facts.now)
        reused = facts.exported is not None
        if not found.relation.may_follow:
            yield Export.of(
                commands,
                node,
                primary,
                after,
                folder=folder,
                seconds=seconds,
                private=found.private,
                reused=reused,
                damaged=damaged,
            )
        yield Cut.of(node, after, folder, seconds)
    yield Assign.of(commands, state_after(cluster, facts), may_fail=False)
    yield Mark.of(commands, node, primary)
    yield start(commands, node, facts.size)
    yield CatchUp.of(commands, node, primary)
