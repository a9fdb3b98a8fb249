"""Rejoin with native replication: PostgreSQL, MariaDB.

Only its own server can read a stopped node's data, so the plan is made before its transactions are
known.  The steps that export divergent transactions and put the data aside do nothing if there are
none.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar, Self

from indico_zodbrepl.backends import native_of
from indico_zodbrepl.cluster import Cluster, NodeState, Role
from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.cluster.lookup import node_with_program
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host.epochs import now
from indico_zodbrepl.host.history import Condition, Lineage
from indico_zodbrepl.host.interface import START_SECONDS, host_of
from indico_zodbrepl.host.sql_export import DiffersError, Divergent, UnreadableError
from indico_zodbrepl.operations.candidates import transactions
from indico_zodbrepl.operations.checks import CATCH_UP_SECONDS, CatchUp
from indico_zodbrepl.operations.exports import names
from indico_zodbrepl.operations.facts import (
    current_primary,
    follows,
    replication_of,
    tail_folder,
    why_not_serving,
)
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
from indico_zodbrepl.operations.roles import QUICK_SECONDS, Assign, Fence, Stop
from indico_zodbrepl.probing.wire import ProbeError

EXPORT_SECONDS = 600.0
RECOVER_SECONDS = 1200.0
"""A server that was killed recovers before it can be read, and is shut down cleanly afterwards."""
NO_HISTORY = (
    "the database keeps no history, so of what was changed several times only the last "
    "state is exported, without who changed it; and whether the primary had it can't be "
    "told of what was changed there since"
)


KEEP_TAIL = "rejoin-keep-tail"


@dataclasses.dataclass(frozen=True)
class NativeFacts:
    """The facts by which a rejoin with native replication is planned.

    Attributes:
        now: seconds since 1970.
        history: True if the database keeps history.
        data: folder of the node's data.
        own: the node's assigned state.
        primary_problem: why the primary of the records does not serve; empty when it does.
        runs: True if the node's server answers.
        following: True if its link with the primary is up.
    """

    now: float
    history: bool
    data: Path
    own: NodeState
    primary: str
    epoch: int
    primary_problem: str
    runs: bool
    following: bool


def gather(cluster: Cluster, name: str) -> NativeFacts:
    """Gather the facts.  Raises OperatorError: exit 2, no such node; exit 8, the primary is
    unknown, the state file can't be read, or the server is not managed here.
    """
    node = node_with_program(cluster, name)
    primary, epoch = current_primary(cluster)
    try:
        runs = replication_of(cluster, node) is not None
    except ProbeError:
        runs = False
    engine = native_of(cluster)
    return NativeFacts(
        time.time(),
        engine.keeps_history(cluster),
        engine.data_folder(node),
        host_of(cluster).state(name),
        primary.name,
        epoch,
        why_not_serving(cluster, primary, epoch),
        runs,
        follows(cluster, node, primary),
    )


def prepare(cluster: Cluster, installation: Installation, name: str, reason: str) -> Plan | Refusal:
    """Gather the facts and plan the rejoin of a node; change nothing.  Raises OperatorError."""
    commands = Commands(cluster, installation.home)
    return plan_native_rejoin(cluster, gather(cluster, name), reason, commands)


def plan_native_rejoin(
    cluster: Cluster, facts: NativeFacts, reason: str, commands: Commands
) -> Plan | Refusal:
    """Plan the steps by which a node follows the primary of the records."""
    name = facts.own.node
    wanted = NodeState(cluster.name, name, Role.SECONDARY, facts.primary, facts.epoch)
    against = _against(facts, wanted, commands)
    if against is not None:
        return against
    findings = [Finding(Verdict.FINE, facts.primary, "runs as the primary", f"epoch {facts.epoch}")]
    if not facts.history:
        findings.append(
            Finding(Verdict.WARNING, name, "not everything can be determined", NO_HISTORY)
        )
    lost = Loss(
        name,
        None,
        None,
        False,
        None,
        f"what only {name} has, if there is any, is out of the cluster afterwards; it is "
        f"found, exported and counted once {name} has ended, and its data are kept",
    )
    return Plan(
        "rejoin",
        name,
        facts.primary,
        reason,
        facts.epoch,
        tuple(_steps(cluster, facts, wanted, commands)),
        lost,
        tuple(findings),
    )


def _against(facts: NativeFacts, wanted: NodeState, commands: Commands) -> Refusal | None:
    name = wanted.node
    if name == facts.primary:
        return Refusal(
            f"node {name} is the primary",
            commands.zodbrepl("node", "start", name),
            (Finding(Verdict.AGAINST, name, "is the primary of the records"),),
        )
    if facts.following and facts.own == wanted:
        return Refusal(
            f"node {name} has joined already",
            "",
            (
                Finding(
                    Verdict.FINE,
                    name,
                    f"follows {facts.primary}",
                    f"epoch {facts.epoch}, the link stands",
                ),
            ),
        )
    if facts.primary_problem:
        return Refusal(
            f"node {name} can't join now",
            commands.zodbrepl("status"),
            (
                Finding(
                    Verdict.AGAINST,
                    facts.primary,
                    "does not serve as the primary",
                    facts.primary_problem,
                ),
            ),
        )
    return None


def _steps(
    cluster: Cluster, facts: NativeFacts, wanted: NodeState, commands: Commands
) -> Iterator[Step]:
    node, primary = wanted.node, facts.primary
    folder = tail_folder(cluster, node, facts.epoch, facts.now)
    aside = facts.data.with_name(f"{facts.data.name}.lost{folder.name.removeprefix(node)}")
    if facts.runs:
        yield Stop.of(commands, node, after_no_return=False)
    yield dataclasses.replace(
        Fence.of(commands, node, f"Make sure that no process of {node}'s server is left"),
    )
    yield KeepTail.of(node, primary, folder)
    yield PutAside.of(node, aside)
    yield Assign.of(commands, wanted, may_fail=False)
    yield Admit.of(commands, node, primary)
    yield StartAnew.of(commands, node, primary, aside)
    yield CatchUp.of(commands, node, primary)


class KeepTail(Step):
    """Find and export the divergent transactions of a stopped node.

    If that fails, the node is marked, and starts in no role until it has succeeded.
    """

    action = "rejoin-keep-tail"
    afterwards: ClassVar[bool] = False
    """True if the cluster already works again, and continues without this step if necessary."""

    @classmethod
    def of(cls, node: str, against: str, folder: Path) -> Self:
        return cls(
            node,
            {"against": against, "folder": str(folder)},
            title=f"Export the transactions that only {node} has, if any, to {folder}",
            checks=f"{node}'s data are opened by a server that nobody else reaches, and compared "
            f"with {against}'s, transaction by transaction",
            seconds=EXPORT_SECONDS + RECOVER_SECONDS,
            after_no_return=cls.afterwards,
            may_fail=cls.afterwards,
        )

    def check(self, context: Context) -> Figures | None:
        folder = Path(str(self.arguments["folder"]))
        kept = context.host.kept_export(self.subject, folder)
        if kept is None:
            return None
        if kept.transactions is None:
            raise OperatorError("the recovery export can't be read", str(folder))
        return {
            **_exported(context, self.subject, folder, kept.transactions),
            "aside": True,
            "common": None if int(kept.after, 16) == 0 else kept.after,
        }

    def do(self, context: Context) -> Figures:
        node = context.cluster.node(self.subject)
        found = self.check(context)  # an earlier attempt completed it
        if found is not None:
            return found
        if not context.host.has_data(node.name):
            context.say(f"{node.name} has no data")
            return {"lost_transactions": 0, "aside": False, "common": None}
        folder = Path(str(self.arguments["folder"]))
        try:
            tail = context.host.export_divergent(
                node.name, str(self.arguments["against"]), folder, seconds=self.seconds - 1.0
            )
        except (UnreadableError, DiffersError) as error:
            condition = (
                Condition.NEEDS_SEEDING
                if isinstance(error, UnreadableError)
                else Condition.QUARANTINED
            )
            context.host.mark(
                node.name, context.plan.epoch, condition, f"{error.notice}: {error.detail}"
            )
            raise OperatorError(
                f"node {node.name} could not join: {condition}",
                f"{error.notice}: {error.detail}",
                error.hint,
                ExitCode.REFUSED,
            ) from error
        return self._told(context, tail, folder)

    def _told(self, context: Context, tail: Divergent, folder: Path) -> Figures:
        told: Figures = {"lost_transactions": 0}
        if tail.transactions:
            earlier = context.host.same_export(self.subject, folder)
            if earlier != folder:
                context.say(f"the same was exported before, to {earlier}")
            folder = earlier
        if tail.needs_copy:
            context.say(f"it gets a new copy: {tail.needs_copy}")
        if tail.transactions:
            told = _exported(context, self.subject, folder, tail.transactions)
            context.say(f"{transactions(tail.transactions)} exported")
            for what in names(context.host, self.subject, folder):
                context.say(what)
        if tail.transactions and not tail.history:
            context.say(
                "without history only the last states of objects are there, and nobody "
                f"can tell who changed them; the primary may have had {tail.perhaps} of "
                f"the {transactions(tail.transactions)}"
            )
            told = {**told, "perhaps": tail.perhaps}
        return {**told, "aside": bool(tail.transactions or tail.needs_copy), "common": tail.common}


class KeepAfterwards(KeepTail):
    """The same after a failover: the exported node does not start before it rejoins.

    A follower that only seemed to be ahead, because it was asked later, is started again.
    """

    action = "failover-keep-tail"
    afterwards = True

    @classmethod
    def of_follower(cls, node: str, against: str, folder: Path) -> Self:
        """Make the step of a follower that seems to be ahead of the new primary."""
        made = cls.of(node, against, folder)
        return dataclasses.replace(
            made,
            arguments={**made.arguments, "follows": True},
            title=f"{made.title}; else start it",
        )

    def do(self, context: Context) -> Figures:
        # An interrupted attempt may have left its server running.
        context.host.fence(self.subject)
        told = super().do(context)
        if not told["lost_transactions"]:
            if self.arguments.get("follows") and not told["aside"]:
                context.host.start_node(self.subject, progress=context.say, seconds=START_SECONDS)
            return told
        context.host.mark(
            self.subject,
            context.plan.epoch,
            Condition.DIVERGED,
            f"{transactions(int(str(told['lost_transactions'])))} only on node "
            f"{self.subject}, exported to {told['exported_to']}",
        )
        return {**told, "diverged": [self.subject]}


class PutAside(Step):
    """Rename the node's data if they hold divergent transactions."""

    action = "rejoin-put-aside"

    @classmethod
    def of(cls, node: str, aside: Path) -> Self:
        return cls(
            node,
            {"folder": str(aside)},
            title=f"If there was any, keep {node}'s data in {aside}",
            checks=f"otherwise {node} goes on from its data",
            seconds=QUICK_SECONDS,
            after_no_return=True,
        )

    def do(self, context: Context) -> Figures:
        if not context.results[(KEEP_TAIL, self.subject)]["aside"]:
            context.say("there is no need: all that it has the primary has")
            return {}
        return _put_aside(context, self)


class StartAnew(Step):
    """Start the node as a follower: from its data, or with a copy if they are unusable.

    If that fails, its divergent transactions have already been exported, and its data are kept.
    """

    action = "rejoin-start"

    @classmethod
    def of(cls, commands: Commands, node: str, primary: str, aside: Path) -> Self:
        checks = (
            f"if its data can't be used, they are kept in {aside.name} and it copies {primary}'s"
        )
        return cls(
            node,
            {"folder": str(aside)},
            title=f"Start {node}",
            checks=checks,
            command=commands.zodbrepl("node", "start", node),
            seconds=CATCH_UP_SECONDS,
            after_no_return=True,
        )

    def do(self, context: Context) -> Figures:
        try:
            self._start(context)
        except OperatorError as error:
            if error.exit_code is not ExitCode.REFUSED or context.host.has_aside(
                self.subject, Path(str(self.arguments["folder"]))
            ):
                raise
            context.say(f"{error.notice}: {error.detail}; it gets a new copy")
            context.host.fence(self.subject)
            kept = _put_aside(context, self)
            self._start(context)
            return kept
        return {}

    def _start(self, context: Context) -> None:
        context.host.start_node(
            self.subject,
            progress=context.say,
            seconds=self.seconds / 2 - 1.0,
        )


class Admit(Step):
    """Write into the history file that the node may start, and with which node it was compared."""

    action = "rejoin-admit"

    @classmethod
    def of(cls, commands: Commands, node: str, primary: str) -> Self:
        return cls(
            node,
            {"against": primary},
            title=f"Write into {node}'s history file: ok",
            command=commands.zodbrepl("status"),
            seconds=QUICK_SECONDS,
            after_no_return=True,
        )

    def do(self, context: Context) -> Figures:
        common = context.results[(KEEP_TAIL, self.subject)]["common"]
        context.host.write_history(
            self.subject,
            Lineage(
                None if common is None else str(common),
                None,
                str(self.arguments["against"]),
                context.plan.epoch,
                was_writable=False,
                condition=Condition.OK,
                detail="",
                at=now(),
            ),
        )
        return {"condition": str(Condition.OK)}


def _put_aside(context: Context, step: Step) -> Figures:
    target = Path(str(step.arguments["folder"]))
    context.host.put_aside(step.subject, target)
    return {"kept_in": str(target)}


def _exported(context: Context, node: str, folder: Path, count: int) -> Figures:
    return {
        "lost_transactions": count,
        "exported_to": str(folder),
        "exported_objects": [*names(context.host, node, folder)],
    }
