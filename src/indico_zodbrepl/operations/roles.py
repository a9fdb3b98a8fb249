"""Steps that change the roles of nodes: promote, demote, fence, follow, assign."""

from __future__ import annotations

import time
from typing import Self

from indico_zodbrepl.backends import can
from indico_zodbrepl.cluster import NodeState, Role
from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.etcd import leadership
from indico_zodbrepl.host.interface import CHANGE_SECONDS
from indico_zodbrepl.host.server_control import NoServerError, ServerRefusedError
from indico_zodbrepl.operations.checks import STARTS_LATER, gap
from indico_zodbrepl.operations.facts import ask, replication
from indico_zodbrepl.operations.model import Context, Figures, Step
from indico_zodbrepl.probing import tid
from indico_zodbrepl.probing.answers import ServerRole
from indico_zodbrepl.probing.wire import ProbeError

QUICK_SECONDS = 15.0
FENCE_SECONDS = 20.0
PROMOTED_AFTER = "promoted_after"
"""Figure of a promotion: the last transaction that the node got while it followed."""


class Promote(Step):
    """The point of no return: a node becomes the primary of a new epoch."""

    action = "promote"

    @classmethod
    def of(cls, commands: Commands, node: str, epoch: int, reason: str) -> Self:
        why = ["--reason", reason] if reason else []
        return cls(
            node,
            {"epoch": epoch, "reason": reason},
            title=f"Promote {node} to primary of epoch {epoch}",
            checks="no other node takes writes; the epoch records are raised first",
            command=commands.zodbrepl("node", "promote", node, "--epoch", str(epoch), *why),
            seconds=CHANGE_SECONDS,
            after_no_return=True,
        )

    def check(self, context: Context) -> Figures | None:
        found = replication(context.cluster, self.subject)
        if (
            found is None
            or found.role is not ServerRole.PRIMARY
            or found.read_only
            or found.epoch != self.arguments["epoch"]
        ):
            return None
        return gap(context)

    def do(self, context: Context) -> Figures:
        before = _last_before(context, self.subject)
        if context.cluster.automatic:
            lead(context, self.subject, _epoch(self))
        paused = context.results.get(("hold", context.plan.source), {}).get("last_tid")
        changed = context.host.promote(
            self.subject,
            epoch=_epoch(self),
            reason=self.text("reason"),
            progress=context.say,
            seconds=self.seconds_to_act,
            proven=None if paused is None else tid.parse(str(paused)),
        )
        for remark in changed.remarks:
            context.say(remark)
        return {"promoted_in_place": changed.in_place, **before, **gap(context)}

    def is_untouched(self, context: Context) -> bool:
        """Return True while no record is raised: until then no program knows the epoch."""
        epoch = _epoch(self)
        own = context.host.state(self.subject)
        return (
            own.epoch < epoch
            and context.host.highest_recorded() < epoch
            and leadership.epoch(context.cluster) < epoch
        )


class Fence(Step):
    """A node's server is killed, and supervisor does not restart it."""

    action = "fence"

    @classmethod
    def of(cls, commands: Commands, node: str, title: str = "") -> Self:
        return cls(
            node,
            {},
            title=title or f"Fence {node}: kill it and prevent restarts",
            checks="afterwards its process is gone and its ports are closed",
            undoes=f"let supervisor start {node} again, if it ran",
            command=commands.zodbrepl("node", "fence", node),
            seconds=FENCE_SECONDS,
            after_no_return=False,
        )

    def check(self, context: Context) -> Figures | None:
        """Return None: always repeated.  OperatorError (exit 8) when the old primary is back."""
        if context.plan.operation != "failover" or self.subject != context.plan.source:
            return None
        found = replication(context.cluster, self.subject)
        if found is not None and found.role is ServerRole.PRIMARY and not found.read_only:
            raise OperatorError(
                f"{self.subject} takes writes again",
                "a failover would lose the transactions that only it has",
                f"move its role: {Commands.here(context.cluster).zodbrepl('switchover')}",
                ExitCode.REFUSED,
            )
        return None

    def do(self, context: Context) -> Figures:
        ran_before = context.results.get((self.action, self.subject), {}).get("ran", False)
        fenced = context.host.fence(self.subject)
        if fenced.remark:
            context.note(fenced.remark)
        return {"killed": list(fenced.killed), "ran": fenced.was_wanted or ran_before}

    def undo(self, context: Context) -> None:
        if context.results.get((self.action, self.subject), {}).get("ran", True):
            context.host.start_program(context.cluster.node(self.subject).program)


class _NewState(Step):
    """A step that gives a node a new state: its role, upstream and epoch."""

    def wanted(self, context: Context) -> NodeState:
        upstream = self.arguments["upstream"]
        return NodeState(
            context.cluster.name,
            self.subject,
            Role(self.text("role")),
            None if upstream is None else str(upstream),
            _epoch(self),
        )


class Demote(_NewState):
    """The old primary, whose writes are paused for good, becomes a secondary of the new one.

    Its history is compared as a whole later, when writes are back: see ``SeeFollowing``.
    """

    action = "turn"

    @classmethod
    def of(cls, commands: Commands, wanted: NodeState) -> Self:
        upstream = wanted.upstream or ""
        return cls(
            wanted.node,
            {"upstream": upstream, "epoch": wanted.epoch, "role": str(wanted.role)},
            title=f"Demote {wanted.node} to a {wanted.role} of {upstream}; "
            f"its clients reconnect to {upstream}",
            checks="it takes no writes any more and has no divergent transactions",
            command=_follow_command(commands, wanted),
            seconds=CHANGE_SECONDS,
            after_no_return=True,
        )

    def check(self, context: Context) -> Figures | None:
        found = replication(context.cluster, self.subject)
        if (
            found is None
            or found.role is ServerRole.PRIMARY
            or found.epoch != _epoch(self)
            or context.host.state(self.subject) != self.wanted(context)
        ):
            return None
        return {}

    def do(self, context: Context) -> Figures:
        # Its clients wait until its server disconnects them, so that comes first on a full disk.
        # Its old state file is harmless meanwhile: the epoch records name another primary.
        deadline = time.monotonic() + self.seconds_to_act
        wanted = self.wanted(context)
        problem: OperatorError | None = None
        try:
            context.host.write_state(wanted)
        except OperatorError as error:
            problem = error
        try:
            context.host.redirect(self.subject, wanted)
        except (NoServerError, ServerRefusedError) as error:
            if problem is not None:
                raise problem from error
            context.say(f"{error.notice}: {error.detail}; restarting it instead")
            context.host.restart_node(
                self.subject,
                seconds=deadline - time.monotonic(),
            )
            return {"turned_in_place": False, **gap(context)}
        if problem is not None:
            raise problem
        return {"turned_in_place": True, **gap(context)}


class Follow(_NewState):
    """A node follows the new primary, or stays below a node that does, in the new epoch."""

    action = "follow"

    @classmethod
    def of(cls, commands: Commands, wanted: NodeState) -> Self:
        upstream = wanted.upstream or ""
        return cls(
            wanted.node,
            {"upstream": upstream, "epoch": wanted.epoch, "role": str(wanted.role)},
            title=f"Make {wanted.node} follow {upstream} in epoch {wanted.epoch}",
            checks="its server keeps serving reads",
            command=_follow_command(commands, wanted),
            seconds=CHANGE_SECONDS,
            after_no_return=True,
            may_fail=True,
        )

    def do(self, context: Context) -> Figures:
        wanted = self.wanted(context)
        if replication(context.cluster, self.subject) is None and self._is_assigned(context):
            context.say(f"{self.subject} does not run; it will follow when it starts")
            return {STARTS_LATER: [self.subject]}
        changed = context.host.follow(
            self.subject,
            upstream=str(wanted.upstream),
            epoch=wanted.epoch,
            role=wanted.role,
            progress=context.say,
            seconds=self.seconds_to_act,
        )
        for remark in changed.remarks:
            context.say(remark)
        return {}

    def _is_assigned(self, context: Context) -> bool:
        """Write the state for the next start; return False if the server only answered late."""
        try:
            _assign(context, self.wanted(context))
        except OperatorError:
            if replication(context.cluster, self.subject) is None:
                raise
            return False
        return True


class Assign(_NewState):
    """The state file of a node that does not run gets a new role."""

    action = "assign"

    @classmethod
    def of(cls, commands: Commands, wanted: NodeState, *, may_fail: bool = True) -> Self:
        upstream = ["--upstream", wanted.upstream] if wanted.upstream else []
        return cls(
            wanted.node,
            {"role": str(wanted.role), "upstream": wanted.upstream, "epoch": wanted.epoch},
            title=f"Write the state file of {wanted.node}: {wanted.role} of {wanted.upstream}",
            checks="its server does not run",
            command=commands.zodbrepl(
                "node",
                "assign",
                wanted.node,
                "--role",
                str(wanted.role),
                *upstream,
                "--epoch",
                str(wanted.epoch),
            ),
            seconds=QUICK_SECONDS,
            after_no_return=True,
            may_fail=may_fail,
        )

    def do(self, context: Context) -> Figures:
        _assign(context, self.wanted(context))
        return {}


def lead(context: Context, node: str, epoch: int) -> None:
    """Make a node the leader in etcd; return when the former one can't commit any more.

    A former leader that was paused or fenced before can't; the lease of another one has to end.
    Raises OperatorError (exit 8) if the automation was faster.
    """
    why = f"{context.plan.name}: {context.plan.reason}".rstrip(": ")
    began = leadership.boottime()
    former = leadership.claim(context.cluster, node, epoch, why).former
    context.say(f"{node} leads in epoch {epoch} by its key in etcd")
    if former is None or former.released or former.node == node:
        return
    silenced = {(action, former.node) for action in ("hold", "seal", "fence", "end")}
    if not silenced & set(context.results):
        context.say(f"{former.node} may commit until its lease ends: waiting for that")
        leadership.wait_for_end(context.cluster, began)


def _last_before(context: Context, name: str) -> Figures:
    """Return the last transaction of a node that still follows; nothing if unknown."""
    if not can(context.cluster, "lineage"):
        return {}
    try:
        found = ask(context.cluster, context.cluster.node(name))
    except ProbeError:
        return {}
    if found.replication is None or found.replication.role is ServerRole.PRIMARY:
        return {}
    return {PROMOTED_AFTER: f"{found.last_tid:016x}"}


def _assign(context: Context, wanted: NodeState) -> None:
    context.host.assign(
        wanted.node,
        role=wanted.role,
        upstream=wanted.upstream,
        epoch=wanted.epoch,
    )


def _follow_command(commands: Commands, wanted: NodeState) -> str:
    return commands.zodbrepl(
        "node",
        "follow",
        wanted.node,
        "--upstream",
        wanted.upstream or "",
        "--epoch",
        str(wanted.epoch),
    )


def _epoch(step: Step) -> int:
    return int(step.number("epoch"))
