"""The steps of a rejoin with native replication: PostgreSQL, MariaDB."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import ClassVar, Self

from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host.history import Condition, Lineage
from indico_zodbrepl.host.interface import START_SECONDS
from indico_zodbrepl.host.sql_export import DiffersError, Divergent, UnreadableError
from indico_zodbrepl.operations.candidates import transactions
from indico_zodbrepl.operations.checks import CATCH_UP_SECONDS
from indico_zodbrepl.operations.exports import complete, names
from indico_zodbrepl.operations.model import Context, Figures, Step
from indico_zodbrepl.operations.roles import QUICK_SECONDS
from indico_zodbrepl.probing.times import now

EXPORT_SECONDS = 600.0
RECOVER_SECONDS = 1200.0
"""A server that was killed recovers before it can be read, and is shut down cleanly afterwards."""
KEEP_TAIL = "rejoin-keep-tail"


class KeepTail(Step):
    """Find and export the divergent transactions of a stopped node.

    If its data prevent that, the node is marked, and starts in no role until it has succeeded.
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
        found = complete(context.host, self.subject, folder)
        if found is None:
            return None
        count, after = found
        return {
            **_exported(context, self.subject, folder, count),
            "aside": True,
            "common": None if int(after, 16) == 0 else after,
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
                node.name, str(self.arguments["against"]), folder, seconds=self.seconds_to_act
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
