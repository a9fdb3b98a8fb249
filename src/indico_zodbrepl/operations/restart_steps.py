"""The steps of a restart."""

from __future__ import annotations

from typing import Self

from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.operations.checks import (
    CATCH_UP_POLL_SECONDS,
    FOLLOW_SECONDS,
    INDICO_SECONDS,
    Following,
    gap,
    indico_lacks,
    wait,
)
from indico_zodbrepl.operations.facts import replication_of
from indico_zodbrepl.operations.model import Context, Figures, Step


class Instance(Step):
    """Restart an Indico instance; a running one gets a new worker first."""

    action = "restart-instance"

    @classmethod
    def of(cls, commands: Commands, name: str, *, in_turn: bool) -> Self:
        """Make the step; ``in_turn``: a new worker can take over from a running one."""
        return cls(
            name,
            {},
            title=f"Replace the worker of Indico instance {name} by a new one"
            if in_turn
            else f"Restart Indico instance {name}",
            checks="its cached objects are dropped",
            command=commands.zodbrepl("node", "restart-client", name),
            seconds=INDICO_SECONDS,
            after_no_return=True,
            may_fail=True,
        )

    def do(self, context: Context) -> Figures:
        context.host.restart_instance(
            self.subject, progress=context.say, seconds=self.seconds_to_act
        )
        return {}


class SeeNode(Step):
    """Wait until a node accepts writes, or follows and has what its upstream had at the start."""

    action = "see-node"

    @classmethod
    def of(cls, commands: Commands, name: str, upstream: str | None) -> Self:
        return cls(
            name,
            {"upstream": upstream},
            title=f"Wait until {name} follows {upstream}"
            if upstream
            else f"Wait until {name} takes writes",
            checks=f"connected, and it has what {upstream} had when this began"
            if upstream
            else "it runs as it is assigned",
            command=commands.zodbrepl("status"),
            seconds=FOLLOW_SECONDS,
            after_no_return=True,
            may_fail=True,
        )

    def do(self, context: Context) -> Figures:
        _refuse_not_begun(context, self)
        cluster, upstream = context.cluster, self.arguments["upstream"]
        node = cluster.node(self.subject)
        if upstream is not None:
            above = cluster.node(str(upstream))
            wait(context, self, Following(cluster, node, above, above), CATCH_UP_POLL_SECONDS)
            return {}

        def missing() -> str | None:
            found = replication_of(cluster, node)
            if found is None:
                return "another server answers at its address"
            return "it is read-only" if found.read_only else None

        wait(context, self, missing)
        return gap(context) if ("end", self.subject) in context.results else {}


class SeeInstance(Step):
    """Wait until an Indico instance has its storage, and can write if it should."""

    action = "see-instance"

    @classmethod
    def of(cls, commands: Commands, name: str, *, writable: bool) -> Self:
        what = "can write" if writable else "shows pages"
        return cls(
            name,
            {"writable": writable},
            title=f"Wait until Indico instance {name} {what}",
            checks="it reconnects automatically",
            command=commands.zodbrepl("status"),
            seconds=INDICO_SECONDS,
            after_no_return=True,
            may_fail=True,
        )

    def do(self, context: Context) -> Figures:
        _refuse_not_begun(context, self)
        instance = next(each for each in context.cluster.indico if each.name == self.subject)
        writable = bool(self.arguments["writable"])
        wait(context, self, lambda: indico_lacks(instance.address, writable=writable))
        return {}


def _refuse_not_begun(context: Context, step: Step) -> None:
    """Raise OperatorError if the restart itself failed, as there is nothing to wait for."""
    target = context.plan.target
    if not {("start", target), ("restart-instance", target)} & set(context.results):
        raise OperatorError(
            f"{step.subject} was not waited for",
            f"{target} did not start",
            exit_code=ExitCode.NOT_RUNNING,
        )
