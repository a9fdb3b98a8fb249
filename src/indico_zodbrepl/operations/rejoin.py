"""Rejoin: a node follows the primary again; its divergent transactions are exported first.

The planner is pure; ``gather`` collects the facts.
"""

from __future__ import annotations

import dataclasses
import enum
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Self

from indico_zodbrepl.cluster import Node
from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.cluster.lookup import node_named
from indico_zodbrepl.cluster.model import Cluster, NodeState, Role
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host.datafs import Comparison, Relation, describe
from indico_zodbrepl.host.epochs import now
from indico_zodbrepl.host.history import Condition, Lineage
from indico_zodbrepl.host.interface import Host, host_of
from indico_zodbrepl.operations.candidates import transactions
from indico_zodbrepl.operations.checks import CatchUp
from indico_zodbrepl.operations.divergence import (
    compare,
    doubtful,
    find_fork,
    lineage,
    verified_against,
)
from indico_zodbrepl.operations.exports import contents, covers, export, exported_before
from indico_zodbrepl.operations.facts import replication_of, tail_folder
from indico_zodbrepl.operations.model import (
    Context,
    Figures,
    Finding,
    JsonValue,
    Loss,
    Plan,
    Refusal,
    Step,
    Verdict,
)
from indico_zodbrepl.operations.roles import Assign, Fence, Start
from indico_zodbrepl.probing.answers import ServerRole
from indico_zodbrepl.probing.wire import ProbeError

BYTES_PER_SECOND = 10e6
"""Bytes per second that the slowest disk reads; for time limits."""
INDEXED_PER_SECOND = 2e6
"""Bytes per second that the slowest server reads to build an index; for time limits."""
LEAST_SECONDS = 120.0


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
        damage: why its data file is unreadable; empty if it is readable or missing.
        verified: the tid up to which its history is verified, 16 hex digits.
        was_writable: True if it was a primary since.
        size: bytes of its data file and the primary's.
        exported: a folder that already has everything that would be removed; None if there is none.
        fork: the last transaction that the primary got from the node; None if unknown.
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
        return Judgement(Ending.JOINED, "it is empty; the primary sends everything")
    common = found.common.tid if found.common else None
    obstacle = _obstacle(facts, found)
    if obstacle is not None:
        return obstacle
    if found.relation.may_follow:
        return Judgement(Ending.JOINED, f"its history is {found.relation}; nothing has to be cut")
    own = (
        f"{transactions(found.private)} that the primary never had"
        if found.private
        else (f"missing in the middle: {transactions(found.holes)}")
    )
    return Judgement(Ending.JOINED, f"{own}; common up to {common}", common)


def _obstacle(facts: Facts, found: Comparison) -> Judgement | None:
    if found.conflicting:
        return Judgement(
            Ending.QUARANTINED,
            f"{transactions(found.conflicting)} with the primary's ids and another content",
        )
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
    """Gather the facts of a rejoin; compare the two data files from end to end.

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
        found, damage = compare(host, node, primary, verified, fork)
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
        size=max(size_of(host, name), size_of(host, primary.name)),
        exported=exported or None,
        fork=fork,
    )


def current_primary(cluster: Cluster) -> tuple[Node, int]:
    """Return the primary and its epoch by the records; raise OperatorError (exit 8)."""
    record = host_of(cluster).newest_record()
    if record is None:
        raise OperatorError(
            "it is not known who the primary is",
            "no record of the epoch can be read, or two name different ones",
            Commands.here(cluster).zodbrepl("status"),
            ExitCode.REFUSED,
        )
    return node_named(cluster, record.primary), record.epoch


def why_not_serving(cluster: Cluster, primary: Node, epoch: int) -> str:
    """Return why a node is not the running primary of an epoch; empty if it is."""
    try:
        found = replication_of(cluster, primary)
    except ProbeError as error:
        return error.detail
    if found is None:
        return f"another server answers on {primary.storage_address}"
    if found.role is not ServerRole.PRIMARY or found.epoch != epoch:
        return f"it runs as {found.role} of epoch {found.epoch}"
    return ""


def size_of(host: Host, name: str) -> int:
    """Return the bytes of a node's data file; 0 if there is none."""
    found = host.data_file(name)
    return 0 if found is None else found.bytes


def follows(cluster: Cluster, node: Node, primary: Node) -> bool:
    """Return True if a node's server runs and is connected to the primary."""
    try:
        found = replication_of(cluster, node)
    except ProbeError:
        return False
    return (
        found is not None
        and found.connected is True
        and found.upstream == str(primary.link_address)
    )


def upstream_of(cluster: Cluster, node: Node) -> str | None:
    """Return the node's assigned upstream; None also if its state file is unusable."""
    try:
        return host_of(cluster).state(node.name).upstream
    except OperatorError:
        return None  # status reports an unusable state file


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
    if found is None or judged.cut_after is None or not found.private:
        return None
    how = "exported before, now cut off" if facts.exported else "exported and cut off"
    return Loss(
        facts.node,
        found.private,
        None,
        True,
        judged.cut_after,
        f"{transactions(found.private)}, {how}",
    )


def _steps(cluster: Cluster, facts: Facts, judged: Judgement, commands: Commands) -> Iterator[Step]:
    node, primary = facts.node, facts.primary
    seconds = max(LEAST_SECONDS, facts.size / BYTES_PER_SECOND)
    yield Fence.of(commands, node, f"Kill {node}'s server, if it runs")
    if judged.ending is not Ending.JOINED:
        yield Mark.of(commands, node, primary, str(judged.ending), judged.why)
        return
    yield Compare.of(commands, facts, judged.cut_after, seconds)
    after = judged.cut_after
    if after is not None:
        folder = facts.exported or tail_folder(cluster, node, facts.epoch, facts.now)
        private = facts.comparison.private if facts.comparison else 0
        reused = facts.exported is not None
        yield Export.of(
            commands,
            node,
            primary,
            after,
            folder=folder,
            seconds=seconds,
            private=private,
            reused=reused,
        )
        yield Cut.of(node, after, folder, seconds)
    yield Assign.of(commands, state_after(cluster, facts), may_fail=False)
    yield Mark.of(commands, node, primary)
    yield start(commands, node, facts.size)
    yield CatchUp.of(commands, node, primary)


def start(commands: Commands, node: str, size: int) -> Step:
    """Return the step that starts the node; without an index it reads the whole file."""
    seconds = LEAST_SECONDS + size / INDEXED_PER_SECOND
    return Start.of(commands, node, may_fail=False, seconds=seconds)


class Compare(Step):
    """Compare both files again after the node's server has stopped, to confirm the plan."""

    action = "rejoin-compare"

    @classmethod
    def of(cls, commands: Commands, facts: Facts, cut_after: str | None, seconds: float) -> Self:
        node, primary = facts.node, facts.primary
        return cls(
            node,
            {"against": primary, "cut_after": cut_after, "fork": facts.fork},
            title=f"Compare {node}'s data file with {primary}'s, from end to end",
            checks="nothing was added to it since the plan was made",
            command=commands.zodbrepl("history", node, primary, "--full"),
            seconds=seconds,
            after_no_return=False,
        )

    def do(self, context: Context) -> Figures:
        cluster = context.cluster
        node, other = cluster.node(self.subject), cluster.node(str(self.arguments["against"]))
        fork = _text(self.arguments.get("fork"))
        found = context.host.compare(node.name, other.name, seconds=self.seconds, fork=fork)
        common = found.common.tid if found.common else None
        planned = self.arguments["cut_after"]
        expected = found.relation.may_follow if planned is None else common == planned
        if found.conflicting or not expected:
            raise OperatorError(
                f"{node.name} changed since it was looked at",
                describe(found, node.name, other.name),
                _again(context, self),
                ExitCode.REFUSED,
            )
        return {
            "relation": str(found.relation),
            "private": found.private,
            "missing": found.missing,
            "common": common,
            "common_digest": found.common.digest if found.common else None,
        }


class _Quarantining(Step):
    """A step whose failure leaves a node that must not start before an operator has checked it."""

    def do(self, context: Context) -> Figures:
        try:
            return self._do(context)
        except OperatorError as error:
            context.host.mark(
                self.subject,
                context.plan.epoch,
                Condition.QUARANTINED,
                f"{self.title}: {error.notice}: {error.detail}",
            )
            raise

    def _do(self, context: Context) -> Figures:
        raise NotImplementedError


class Export(_Quarantining):
    """Export the transactions after the common one to a folder that appears when complete.

    A failover's export is used as it is, if it still has all of them.
    """

    action = "rejoin-export"

    @classmethod
    def of(
        cls,
        commands: Commands,
        node: str,
        primary: str,
        after: str,
        *,
        folder: Path,
        seconds: float,
        private: int | None,
        reused: bool = False,
    ) -> Self:
        """Make the step; ``private``: the node's own transactions, None when that is uncertain."""
        what = f"what {node} has after {after}"
        what += "" if private is None else f" ({private} of its own)"
        return cls(
            node,
            {"after": after, "folder": str(folder), "private": private, "reused": reused},
            title=f"Use the export of {what} that is in {folder}"
            if reused
            else f"Export {what} to {folder}",
            checks="the folder has the same transactions"
            if reused
            else "the exported folder is complete, or not there",
            command=commands.zodbrepl("history", node, primary, "--full"),
            seconds=seconds,
            after_no_return=False,
        )

    def do(self, context: Context) -> Figures:
        node, folder = context.cluster.node(self.subject), Path(str(self.arguments["folder"]))
        if self.arguments.get("reused") and not covers(
            context.host, node, folder, str(self.arguments["after"])
        ):
            raise OperatorError(
                f"{folder} has not what {node.name} would lose now",
                f"after {self.arguments['after']}",
                _again(context, self),
                ExitCode.REFUSED,
            )
        return super().do(context)

    def _do(self, context: Context) -> Figures:
        folder = Path(str(self.arguments["folder"]))
        if self.arguments.get("reused"):  # the loss was counted when it was exported
            return _exported(context, folder)
        private = self.arguments["private"]
        lost: Figures = {} if private is None else {"lost_transactions": private}
        if folder.is_dir():  # an earlier attempt completed it
            return {**_exported(context, folder), **lost}
        done, lacking = export(
            context.host,
            context.cluster.node(self.subject),
            str(self.arguments["after"]),
            folder,
            context.say,
        )
        context.say(f"{transactions(done.transactions)} exported")
        return {**_exported(context, folder), "exported": done.transactions, **lost, **lacking}


class Cut(_Quarantining):
    """Truncate the data file after the common transaction; the rest is in the exported folder."""

    action = "rejoin-cut"

    @classmethod
    def of(cls, node: str, after: str, folder: Path, seconds: float) -> Self:
        return cls(
            node,
            {"after": after, "folder": str(folder)},
            title=f"Truncate {node}'s data file after {after}",
            checks="what is removed is kept in the same folder first",
            seconds=seconds,
            after_no_return=True,
        )

    def _do(self, context: Context) -> Figures:
        done = context.host.truncate(
            self.subject,
            str(self.arguments["after"]),
            Path(str(self.arguments["folder"])),
        )
        return {"cut_transactions": done.transactions, "cut_bytes": done.bytes}

    def is_untouched(self, _context: Context) -> bool:
        """Return True if nothing was truncated: what is removed is noted first."""
        return not (Path(str(self.arguments["folder"])) / "cut.json").exists()


class Mark(Step):
    """Write the node's condition and its last verified transaction into the history file."""

    action = "rejoin-mark"

    @classmethod
    def of(
        cls,
        commands: Commands,
        node: str,
        primary: str,
        condition: str = str(Condition.OK),
        why: str = "",
    ) -> Self:
        fine = condition == str(Condition.OK)
        return cls(
            node,
            {"against": primary, "condition": condition, "detail": why},
            title=f"Write into {node}'s history file: {condition}",
            checks="its last verified transaction is written too" if fine else "",
            command=commands.zodbrepl("history", node),
            seconds=LEAST_SECONDS,
            after_no_return=True,
        )

    def do(self, context: Context) -> Figures:
        node = context.cluster.node(self.subject)
        epoch, condition = context.plan.epoch, Condition(str(self.arguments["condition"]))
        detail = str(self.arguments["detail"])
        if condition is not Condition.OK:
            context.host.mark(node.name, epoch, condition, detail)
            return {"condition": str(condition)}
        compared = context.results.get(("rejoin-compare", node.name))
        if compared is None:  # the file is a copy of the other one's
            last = context.host.last_transaction(node.name).tid
            digest = context.host.digest(node.name, last) if last else None
        else:
            last, digest = _text(compared["common"]), _text(compared["common_digest"])
        context.host.write_history(
            node.name,
            Lineage(
                last,
                digest,
                str(self.arguments["against"]),
                epoch,
                was_writable=False,
                condition=condition,
                detail="",
                at=now(),
            ),
        )
        return {"condition": str(condition), "verified_tid": last}


def _again(context: Context, step: Step) -> str:
    return Commands.here(context.cluster).zodbrepl("rejoin", step.subject)


def _exported(context: Context, folder: Path) -> dict[str, JsonValue]:
    """Return the figures of a folder, and print what is in it."""
    found = contents(folder)
    for what in found:
        context.say(what)
    return {"exported_to": str(folder), "exported_objects": [*found]}


def _text(value: object) -> str | None:
    return None if value is None else str(value)
