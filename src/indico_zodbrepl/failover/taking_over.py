"""Actions that change who is what: promote, turn, fence, follow, assign, start, stop."""

from __future__ import annotations

import dataclasses
import time

from ..cluster import NodeState, Role
from ..cluster.commands import Commands
from ..errors import ExitCode, OperatorError
from ..node import epochs, operations, starts, state
from ..node.server_control import NoServerError, ServerControl, ServerRefusedError
from ..node.supervisor import Supervisor
from ..probing import tid
from ..probing.answers import Replication, ServerRole
from ..probing.wire import ProbeError
from .actions import Context, Repeatable
from .asking import replication_of
from .seeing import gap, wait_writable
from .steps import Figures, Step

RESTART_SHARE = 0.75
"""Of the time of a restart of Indico; the rest is for it to find the primary."""


class Promote(Repeatable):
    """The point of no return: a node becomes the primary of a new epoch."""

    def check(self, context: Context, step: Step) -> Figures | None:
        """It counts as done once the server runs as primary in this epoch."""
        found = replication(context, step.subject)
        if (found is None or found.role is not ServerRole.PRIMARY or found.read_only
                or found.epoch != step.arguments["epoch"]):
            return None
        return gap(context)

    def do(self, context: Context, step: Step) -> Figures:
        held = context.results.get(("hold", context.plan.source), {}).get("last_tid")
        changed = operations.promote(
            context.cluster, context.installation, step.subject, epoch=_epoch(step),
            reason=str(step.arguments["reason"]), progress=context.say, seconds=_limit(step),
            proven=None if held is None else tid.parse(str(held)))
        for remark in changed.remarks:
            context.say(remark)
        return {"promoted_in_place": changed.in_place, **gap(context)}

    def is_untouched(self, context: Context, step: Step) -> bool:
        """The records are raised first: until one is, nobody was told of the epoch."""
        cluster, epoch = context.cluster, _epoch(step)
        known = [epochs.read(cluster, path) for path in epochs.paths(cluster).values()]
        own = state.current(cluster, cluster.node(step.subject))
        return own.epoch < epoch and all(
            record is None or record.epoch < epoch for record in known)


class Turn(Repeatable):
    """An old primary, sealed and shown to have nothing of its own, becomes a secondary.

    Its history is compared as a whole later, when writes are back: see ``SeeFollowing``.
    """

    def check(self, context: Context, step: Step) -> Figures | None:
        found = replication(context, step.subject)
        if found is None or found.role is ServerRole.PRIMARY or found.epoch != _epoch(step):
            return None
        return {}

    def do(self, context: Context, step: Step) -> Figures:
        deadline = time.monotonic() + _limit(step)
        node, wanted = context.cluster.node(step.subject), _wanted(context, step)
        upstream = context.cluster.node(str(wanted.upstream))
        state.write(node, wanted)
        try:
            ServerControl(node).follow(wanted.epoch, upstream.replication_address)
        except (NoServerError, ServerRefusedError) as error:
            context.say(f"{error.notice}: {error.detail}; it is restarted instead")
            starts.restart_node(context.cluster, context.installation, step.subject,
                                seconds=deadline - time.monotonic())
            return {"turned_in_place": False, **gap(context)}
        return {"turned_in_place": True, **gap(context)}


class Fence(Repeatable):
    """A node's server is killed, and supervisor told to leave it so."""

    def check(self, context: Context, step: Step) -> Figures | None:
        """Always done again; OperatorError (exit 8) when a failover's primary has come back."""
        if context.plan.operation != "failover" or step.subject != context.plan.source:
            return None
        found = replication(context, step.subject)
        if found is not None and found.role is ServerRole.PRIMARY and not found.read_only:
            command = Commands.here(context.cluster).zodbrepl
            raise OperatorError(f"{step.subject} takes writes again",
                                "what nobody else has yet would be lost",
                                f"to give its role away: {command('switchover')}",
                                ExitCode.REFUSED)
        return None

    def do(self, context: Context, step: Step) -> Figures:
        ran_before = context.results.get((step.action, step.subject), {}).get("ran", False)
        fenced = operations.fence(context.cluster, step.subject)
        if fenced.remark:
            context.say(fenced.remark)
        return {"killed": list(fenced.killed), "ran": fenced.was_wanted or ran_before}

    def undo(self, context: Context, step: Step) -> None:
        if context.results.get((step.action, step.subject), {}).get("ran", True):
            Supervisor(context.cluster).start(context.cluster.node(step.subject).program)


class Follow(Repeatable):
    """A node follows the new primary, or stays below a node that does, in the new epoch."""

    def do(self, context: Context, step: Step) -> Figures:
        wanted = _wanted(context, step)
        if replication(context, step.subject) is None:
            operations.assign(context.cluster, step.subject, role=wanted.role,
                              upstream=wanted.upstream, epoch=wanted.epoch)
            context.say(f"{step.subject} does not run; it will follow when it starts")
            return {}
        changed = operations.follow(
            context.cluster, context.installation, step.subject, upstream=str(wanted.upstream),
            epoch=wanted.epoch, role=wanted.role, progress=context.say, seconds=_limit(step))
        for remark in changed.remarks:
            context.say(remark)
        return {}


class Assign(Repeatable):
    """The state file of a node that does not run."""

    def do(self, context: Context, step: Step) -> Figures:
        wanted = _wanted(context, step)
        operations.assign(context.cluster, step.subject, role=wanted.role,
                          upstream=wanted.upstream, epoch=wanted.epoch)
        return {}


class Start(Repeatable):
    """A node is started as what its state file says."""

    def do(self, context: Context, step: Step) -> Figures:
        operations.start_node(context.cluster, context.installation, step.subject,
                              progress=context.say, seconds=_limit(step))
        return {}


class Stop(Repeatable):
    """A node ends in order; its clients go elsewhere."""

    def do(self, context: Context, step: Step) -> Figures:
        operations.stop_node(context.cluster, step.subject, seconds=_limit(step))
        return {}


class RestartClient(Repeatable):
    """An Indico instance forgets all that it has cached; the next one waits until it saves."""

    def do(self, context: Context, step: Step) -> Figures:
        deadline = time.monotonic() + step.seconds
        operations.restart_instance(context.cluster, step.subject,
                                    seconds=step.seconds * RESTART_SHARE)
        wait_writable(context, dataclasses.replace(step, seconds=deadline - time.monotonic()),
                      context.plan.target)
        return {}


def replication(context: Context, node: str) -> Replication | None:
    """What a node's running server says of itself; None when it does not answer as that."""
    try:
        return replication_of(context.cluster, context.cluster.node(node))
    except ProbeError:
        return None


def _wanted(context: Context, step: Step) -> NodeState:
    upstream = step.arguments["upstream"]
    return NodeState(context.cluster.name, step.subject, Role(str(step.arguments["role"])),
                     None if upstream is None else str(upstream), _epoch(step))


def _limit(step: Step) -> float:
    """Seconds for what a step does, so that it ends before its time has run out."""
    return step.seconds - 1.0


def _epoch(step: Step) -> int:
    epoch = step.arguments["epoch"]
    if not isinstance(epoch, int):
        raise TypeError(f"epoch is {epoch!r}")
    return epoch


PROMOTE, TURN, FENCE, FOLLOW = Promote(), Turn(), Fence(), Follow()
ASSIGN, START, STOP, RESTART_CLIENT = Assign(), Start(), Stop(), RestartClient()
