"""Clone: a node gets a copy of another one's data and follows the primary."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Self

from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.cluster.model import Cluster, NodeState, Role
from indico_zodbrepl.operations.candidates import transactions
from indico_zodbrepl.operations.checks import CatchUp
from indico_zodbrepl.operations.clone_facts import CloneFacts, gather
from indico_zodbrepl.operations.facts import (
    size_of,
    tail_folder,
)
from indico_zodbrepl.operations.messages import Teller
from indico_zodbrepl.operations.model import (
    Context,
    Figures,
    Finding,
    Loss,
    Plan,
    Refusal,
    Step,
    Verdict,
)
from indico_zodbrepl.operations.rejoin_steps import Export, Mark, start
from indico_zodbrepl.operations.roles import Assign, Fence

SLOWEST_COPY = 1e6
"""Bytes per second; only for the time limit."""
LEAST_SECONDS = 600.0
SPARE = 64 * 1024 * 1024
"""Bytes that must stay free, for transactions committed meanwhile."""


def prepare(
    cluster: Cluster, installation: Installation, name: str, source: str | None, reason: str
) -> Plan | Refusal:
    """Gather the facts and plan the clone of a node; change nothing.  Raises OperatorError."""
    facts = gather(cluster, installation, name, source)
    return plan_clone(cluster, facts, reason, Commands(cluster, installation.home))


def plan_clone(
    cluster: Cluster, facts: CloneFacts, reason: str, commands: Commands
) -> Plan | Refusal:
    """Plan the steps; until the copy is complete nothing is changed."""
    findings = tuple(_findings(facts))
    if any(finding.verdict is Verdict.AGAINST for finding in findings):
        return Refusal(
            f"{facts.node} can't be cloned; nothing was changed", _hint(facts, commands), findings
        )
    return Plan(
        "clone",
        facts.node,
        facts.source,
        reason,
        facts.epoch,
        tuple(_steps(cluster, facts, commands)),
        _loss(facts),
        findings,
    )


def _hint(facts: CloneFacts, commands: Commands) -> str:
    if facts.node == facts.primary:
        return f"to give the role away first: {commands.zodbrepl('switchover')}"
    if _has_to_rejoin(facts):
        return f"this exports them, and may be all that is needed: {_rejoin(facts, commands)}"
    return f"repair what is named, then try again; see {commands.zodbrepl('status')}"


def _rejoin(facts: CloneFacts, commands: Commands) -> str:
    return commands.zodbrepl("rejoin", facts.node)


def _has_to_rejoin(facts: CloneFacts) -> bool:
    """Return True if a rejoin would export what a clone would only move aside."""
    return bool(facts.private) and facts.may_lose and not facts.given_up


def _loss(facts: CloneFacts) -> Loss | None:
    if not facts.may_lose:
        return None
    exact = facts.private is not None and not facts.doubtful
    kept = f"its old data is kept in {facts.aside}"
    return Loss(
        facts.node,
        facts.private if exact else None,
        None,
        exact,
        facts.after,
        f"{_at_stake(facts)}; {kept if facts.after is None else f'exported first, and {kept}'}",
    )


def _at_stake(facts: CloneFacts) -> str:
    if facts.private is None:
        return f"perhaps something that only {facts.node} has"
    if facts.doubtful:
        count = transactions(facts.private + facts.doubtful)
        return f"up to {count} of {facts.node} that can't be shown to be common"
    return f"{transactions(facts.private)} that only {facts.node} has"


def _findings(facts: CloneFacts) -> Iterator[Finding]:
    if facts.node == facts.primary:
        yield Finding(
            Verdict.AGAINST,
            facts.node,
            f"is the primary of epoch {facts.epoch}",
            "the others get their data from it",
        )
        return
    if facts.primary_problem:
        yield Finding(
            Verdict.AGAINST, facts.primary, "the primary does not serve", facts.primary_problem
        )
    else:
        yield Finding(Verdict.FINE, facts.primary, "is the primary", f"epoch {facts.epoch}")
    if facts.source_problem:
        yield Finding(
            Verdict.AGAINST, facts.source, "its data can't be copied", facts.source_problem
        )
    needed = facts.size - facts.copied + SPARE
    numbers = f"{_mib(facts.free)} MiB free, {_mib(needed)} MiB needed"
    yield Finding(
        Verdict.FINE if needed <= facts.free else Verdict.AGAINST,
        facts.node,
        "its disk has room" if needed <= facts.free else "its disk has too little room",
        numbers,
    )
    if facts.copied:
        yield Finding(
            Verdict.FINE,
            facts.node,
            "an interrupted clone continues",
            f"{_mib(facts.copied)} MiB of {_mib(facts.size)} MiB are there",
        )
    if facts.following:
        yield Finding(
            Verdict.WARNING,
            facts.node,
            f"follows {facts.primary} already",
            "it gets a new copy of everything nevertheless",
        )
    if _has_to_rejoin(facts):
        yield Finding(
            Verdict.AGAINST,
            facts.node,
            f"has {transactions(facts.private or 0)} that {facts.primary} lacks",
            "by comparison of the data files; nothing has exported them",
        )
    elif facts.may_lose:
        yield Finding(
            Verdict.WARNING,
            facts.node,
            "may have what nobody else has",
            f"only its old data, {facts.aside}, will have it"
            if facts.after is None
            else f"{_at_stake(facts)}; exported first",
        )
    elif facts.has_data:
        yield Finding(
            Verdict.FINE, facts.node, "has data of its own, which is kept", str(facts.aside)
        )


def _steps(cluster: Cluster, facts: CloneFacts, commands: Commands) -> Iterator[Step]:
    node = facts.node
    yield Fence.of(commands, node, f"Kill {node}'s server, if it runs")
    if facts.may_lose and facts.after is not None:
        yield Export.of(
            commands,
            node,
            facts.primary,
            facts.after,
            folder=tail_folder(cluster, node, facts.epoch, facts.now),
            seconds=LEAST_SECONDS + facts.size / SLOWEST_COPY,
            private=None if facts.doubtful else facts.private,
        )
    yield Copy.of(facts)
    yield Swap.of(facts)
    role = Role.RELAY if facts.has_followers else Role.SECONDARY
    after = NodeState(cluster.name, node, role, facts.primary, facts.epoch)
    yield Assign.of(commands, after, may_fail=False)
    yield Mark.of(commands, node, facts.source)
    yield start(commands, node, facts.size)
    yield CatchUp.of(commands, node, facts.primary)


def _mib(size: int) -> str:
    return f"{size / 2**20:.0f}"


class Copy(Step):
    """Copy the source's data into a folder of its own; an interrupted copy continues."""

    action = "clone-copy"

    def writes(self, context: Context) -> int:
        """Return what an interrupted copy still lacks, and the room for new transactions."""
        source, host = self.text("source"), context.host
        size = size_of(host, source) + host.blob_bytes(source)
        return max(0, size - host.staged_copy(self.subject).bytes) + SPARE

    @classmethod
    def of(cls, facts: CloneFacts) -> Self:
        return cls(
            facts.node,
            {"source": facts.source},
            title=f"Copy {facts.source}'s data to {facts.node} ({_mib(facts.size)} MiB)",
            checks=f"{facts.source}'s server goes on; the copy ends with a whole transaction",
            seconds=LEAST_SECONDS + facts.size / SLOWEST_COPY,
            after_no_return=False,
        )

    def do(self, context: Context) -> Figures:
        source = str(self.arguments["source"])
        context.host.prepare(self.subject)
        done = context.host.stage_copy(
            self.subject, source, Teller(context.say), seconds=self.seconds
        )
        rate = (done.bytes - done.resumed) / done.seconds if done.seconds else 0.0
        return {
            "copied_bytes": done.bytes + done.blob_bytes,
            "resumed_bytes": done.resumed,
            "seconds": done.seconds,
            "bytes_per_second": round(rate),
            "copied_to": done.tid,
        }


class Swap(Step):
    """Put the copy in its place; the old data are kept in a folder beside it."""

    action = "clone-swap"

    @classmethod
    def of(cls, facts: CloneFacts) -> Self:
        kept = f", keep the old one in {facts.aside}" if facts.has_data else ""
        return cls(
            facts.node,
            {"aside": str(facts.aside)},
            title=f"Put the copy in {facts.node}'s data directory{kept}",
            checks="the copy is complete",
            seconds=LEAST_SECONDS,
            after_no_return=True,
        )

    def do(self, context: Context) -> Figures:
        kept = Path(str(self.arguments["aside"]))
        return {"kept_in": str(kept) if context.host.swap_copy(self.subject, kept) else None}

    def is_untouched(self, context: Context) -> bool:
        """Return True if the folder for the old data, which is made first, is missing."""
        host, kept = context.host, Path(str(self.arguments["aside"]))
        return (
            host.data_file(self.subject) is not None
            and host.staged_copy(self.subject).complete
            and not host.has_aside(self.subject, kept)
        )
