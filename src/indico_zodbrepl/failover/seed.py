"""Plans a seed: a node gets a copy of another one's data and follows the primary.  Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

from ..cluster.commands import Commands
from ..cluster.model import Cluster, NodeState, Role
from .comparing import transactions
from .moves import Moves
from .rejoin import Ending, catch_up, mark, start
from .steps import Finding, Loss, Plan, Refusal, Step, Verdict

SLOWEST_COPY = 1e6
"""Bytes a second; for the time limit alone."""
LEAST_SECONDS = 600.0
SPARE = 64 * 1024 * 1024
"""Bytes that have to stay free, for what is committed meanwhile."""


@dataclasses.dataclass(frozen=True)
class SeedFacts:
    """What is known before a node is seeded.

    Attributes:
        now: seconds since 1970.
        primary: the only node that takes writes in ``epoch``.
        primary_problem: why it does not serve; empty when it does.
        source: the node whose data is copied.
        source_problem: why its data can't be copied; empty when it can.
        has_followers: whether other nodes are told to follow the node.
        following: whether the node's server follows the primary right now.
        aside: where the node's old data will be kept, a folder.
        size: bytes to be copied: the source's data file and blobs.
        copied: bytes of it that an interrupted seed has left.
        free: bytes free where the node's data is.
        has_data: whether the node has data of its own, which is kept.
        private: how many transactions only the node has, and not the primary; None when that
            can't be told, as its file is damaged or another database's.
        exported: a folder that has all of these already; None when there is none.
        given_up: whether its lineage says that it can't rejoin, so that a seed is its only way.
    """

    now: float
    node: str
    primary: str
    epoch: int
    primary_problem: str
    source: str
    source_problem: str
    has_followers: bool
    following: bool
    aside: Path
    size: int
    copied: int
    free: int
    has_data: bool
    private: int | None = 0
    exported: Path | None = None
    given_up: bool = False

    @property
    def may_lose(self) -> bool:
        """Whether the node may hold what is nowhere else, and nobody has exported it."""
        return self.private != 0 and self.exported is None


def plan_seed(cluster: Cluster, facts: SeedFacts, reason: str,
              commands: Commands) -> Plan | Refusal:
    """A plan that ends with the node following; until the copy is complete nothing is changed."""
    findings = tuple(_findings(facts))
    if any(finding.verdict is Verdict.AGAINST for finding in findings):
        return Refusal(f"{facts.node} can't be seeded; nothing was changed",
                       _hint(facts, commands), findings)
    return Plan("seed", facts.node, facts.source, reason, facts.epoch,
                tuple(_steps(cluster, facts, commands)), _loss(facts), findings)


def _hint(facts: SeedFacts, commands: Commands) -> str:
    if facts.node == facts.primary:
        return f"to give the role away first: {commands.zodbrepl('switchover')}"
    if _has_to_rejoin(facts):
        return f"this exports them, and may be all that is needed: {_rejoin(facts, commands)}"
    return f"repair what is named, then try again; see {commands.zodbrepl('status')}"


def _rejoin(facts: SeedFacts, commands: Commands) -> str:
    return commands.zodbrepl("rejoin", facts.node)


def _has_to_rejoin(facts: SeedFacts) -> bool:
    """Whether a rejoin would export what only the node has; a seed would put it out of sight."""
    return bool(facts.private) and facts.may_lose and not facts.given_up


def _loss(facts: SeedFacts) -> Loss | None:
    if not facts.may_lose:
        return None
    what = "perhaps something" if facts.private is None else transactions(facts.private)
    return Loss(facts.node, facts.private, None, facts.private is not None, None,
                f"{what} that only {facts.node} has; its old data is kept in {facts.aside}")


def _findings(facts: SeedFacts) -> Iterator[Finding]:
    if facts.node == facts.primary:
        yield Finding(Verdict.AGAINST, facts.node, f"is the primary of epoch {facts.epoch}",
                      "the others get their data from it")
        return
    if facts.primary_problem:
        yield Finding(Verdict.AGAINST, facts.primary, "the primary does not serve",
                      facts.primary_problem)
    else:
        yield Finding(Verdict.FINE, facts.primary, "is the primary", f"epoch {facts.epoch}")
    if facts.source_problem:
        yield Finding(Verdict.AGAINST, facts.source, "its data can't be copied",
                      facts.source_problem)
    needed = facts.size - facts.copied + SPARE
    numbers = f"{_mib(facts.free)} MiB free, {_mib(needed)} MiB needed"
    yield Finding(Verdict.FINE if needed <= facts.free else Verdict.AGAINST, facts.node,
                  "its disk has room" if needed <= facts.free else "its disk has too little room",
                  numbers)
    if facts.copied:
        yield Finding(Verdict.FINE, facts.node, "an interrupted seed goes on",
                      f"{_mib(facts.copied)} MiB of {_mib(facts.size)} MiB are there")
    if facts.following:
        yield Finding(Verdict.WARNING, facts.node, f"follows {facts.primary} already",
                      "it gets a new copy of everything nevertheless")
    if _has_to_rejoin(facts):
        yield Finding(Verdict.AGAINST, facts.node,
                      f"has {transactions(facts.private or 0)} that {facts.primary} lacks",
                      "by comparison of the data files; nothing has exported them")
    elif facts.may_lose:
        yield Finding(Verdict.WARNING, facts.node, "may have what nobody else has",
                      f"only its old data, {facts.aside}, will have it")
    elif facts.has_data:
        yield Finding(Verdict.FINE, facts.node, "has data of its own, which is kept",
                      str(facts.aside))


def _steps(cluster: Cluster, facts: SeedFacts, commands: Commands) -> Iterator[Step]:
    moves = Moves(cluster, commands)
    node = facts.node
    yield dataclasses.replace(moves.fence(node), title=f"End {node}'s server, if it runs")
    yield Step("seed-copy", node, {"source": facts.source},
               f"Copy {facts.source}'s data to {node} ({_mib(facts.size)} MiB)",
               f"{facts.source}'s server goes on; what is copied ends with a whole transaction",
               "", "", LEAST_SECONDS + facts.size / SLOWEST_COPY, False)
    kept = f", keep the old one in {facts.aside}" if facts.has_data else ""
    yield Step("seed-swap", node, {"aside": str(facts.aside)},
               f"Put the copy in {node}'s data directory{kept}", "the copy is complete", "", "",
               LEAST_SECONDS, True)
    role = Role.RELAY if facts.has_followers else Role.SECONDARY
    after = NodeState(cluster.name, node, role, facts.primary, facts.epoch)
    yield dataclasses.replace(moves.assign(after), may_fail=False)
    yield mark(node, facts.source, Ending.JOINED, "", commands)
    yield start(moves, node, facts.size)
    yield catch_up(node, facts.primary, commands)


def _mib(size: int) -> str:
    return f"{size / 2**20:.0f}"
