"""Changing the role of a node, in place when its server runs."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from functools import partial

from ..backends import engine_of, require
from ..cluster import Cluster, Node, NodeState, Role
from ..cluster.commands import Commands
from ..cluster.installation import Installation
from ..errors import ExitCode, OperatorError
from . import admission, engine_roles, epochs, fencing, following, lineage, run, state
from .server_control import NoServerError, ServerControl, ServerRefusedError, ServerStatus
from .starts import CHANGE_SECONDS, STOP_SECONDS, restart_node, start_node, stop_node
from .supervised import Progress, ignore

ANSWER_SECONDS = 1.0


@dataclasses.dataclass(frozen=True)
class Changed:
    """How a node came into its new role.

    Attributes:
        in_place: its server did not have to be restarted.
        remarks: what an operator should know, one line each.
    """

    in_place: bool
    remarks: tuple[str, ...]


def promote(cluster: Cluster, installation: Installation, name: str, *,
            epoch: int, reason: str = "", proven: int | None = None, progress: Progress = ignore,
            seconds: float = CHANGE_SECONDS) -> Changed:
    """Make a node the primary of an epoch, in place when its server runs.

    First nobody may object: know a later epoch, another primary of this one, or take writes
    (a held primary doesn't).  Then the records are raised, running primaries of older epochs
    are told, and the node's own state is written; from then on the node is the primary even if
    everything is interrupted.

    Args:
        reason: for the records, one line.
        seconds: time limit for all of it, also where the server has to be restarted.
        proven: a transaction of the old primary that the node is known to have; when that one
            turns out to have a later one, once it takes no commits any more, this ends there.

    Raises:
        OperatorError: exit 8, somebody objects, or the node's data is not whole, or no record
            can be raised: nothing was changed; else the node is the primary by its state file,
            but its server doesn't serve as such: exit 7 or 1, as ``start_node``.
    """
    deadline = time.monotonic() + seconds
    require(cluster, "promote")
    node, engine = run.node_named(cluster, name), engine_of(cluster)
    present = run.prepare(cluster, node)
    claim = check_promotion(cluster, present, epoch)
    if engine is None:
        lineage.enter_primary(cluster, claim)
    raised = epochs.raise_everywhere(cluster, epoch, name, reason or "promoted")
    if not raised.written:
        raise OperatorError(f"node {name} can't be promoted", "no record of the epoch could be "
                            f"raised: {'; '.join(raised.failed.values())}",
                            exit_code=ExitCode.REFUSED)
    remarks = [f"{keeper} has no record of epoch {epoch}: {problem}"
               for keeper, problem in raised.failed.items()]
    remarks += (silence_others(cluster, name, epoch, proven) if engine is None
                else engine_roles.fence_others(cluster, name, epoch))
    state.write(node, claim)
    if engine is not None:
        if node.has_program:
            start_node(cluster, installation, name, progress=progress,
                       seconds=deadline - time.monotonic())
        remarks += engine.promote(cluster, installation, claim, deadline)
        return Changed(True, tuple(remarks))
    in_place = _changes(partial(ServerControl(node).promote, epoch, node.replication_address),
                        claim.role, remarks)
    if not in_place:
        restart_node(cluster, installation, name, progress=progress,
                     seconds=deadline - time.monotonic())
    return Changed(in_place, tuple(remarks))


def follow(cluster: Cluster, installation: Installation, name: str, *,
           upstream: str, epoch: int, role: Role | None = None, progress: Progress = ignore,
           seconds: float = CHANGE_SECONDS) -> Changed:
    """Let a node follow another one, in place when its server runs.

    Its history is compared with the upstream's first.  One that diverged is ended, and stays
    what it is by its state file: nobody should read from it.

    Args:
        role: SECONDARY or RELAY; None: what it is, and a primary becomes a secondary.
        seconds: time limit for all of it, also where the server has to be restarted.

    Raises:
        OperatorError: exit 2, no such node; exit 8, its history is not that of the upstream, or
            a later epoch is known, or it takes writes; exit 7 or 1, as ``start_node``.
    """
    deadline = time.monotonic() + seconds
    require(cluster, "follow")
    node, above = run.node_named(cluster, name), run.node_named(cluster, upstream)
    present = run.prepare(cluster, node)
    wanted = check_following(cluster, present, upstream, epoch, role)
    if engine_of(cluster) is not None:
        stop_node(cluster, name, progress=progress, seconds=min(seconds, STOP_SECONDS))
        state.write(node, wanted)
        start_node(cluster, installation, name, progress=progress,
                   seconds=deadline - time.monotonic())
        return Changed(False, ())
    try:
        remarks = following.admit_follower(cluster, installation, wanted)
    except OperatorError as error:
        if error.exit_code is ExitCode.REFUSED:
            stop_node(cluster, name, progress=progress)
        raise
    state.write(node, wanted)
    in_place = _changes(partial(ServerControl(node).follow, epoch, above.replication_address),
                        wanted.role, remarks)
    if not in_place:
        restart_node(cluster, installation, name, progress=progress,
                     seconds=deadline - time.monotonic())
    return Changed(in_place, tuple(remarks))


def check_promotion(cluster: Cluster, present: NodeState, epoch: int) -> NodeState:
    """What a node would be after a promotion; changes nothing.

    Raises OperatorError (exit 8) when somebody objects, or it has no data and others have.
    """
    refuse_older(cluster, present, epoch)
    admission.admit_promotion(cluster, present.node, epoch)
    claim = NodeState(cluster.name, present.node, Role.PRIMARY, None, epoch,
                      present.forced if present.epoch == epoch else None)
    admission.refuse_without_data(cluster, claim)
    return claim


def check_following(cluster: Cluster, present: NodeState, upstream: str, epoch: int,
                    role: Role | None = None) -> NodeState:
    """What a node would be below another one; changes nothing.

    Its history is not looked at.  Raises as ``follow``.
    """
    name, above = present.node, run.node_named(cluster, upstream)
    refuse_older(cluster, present, epoch)
    if role is None:
        role = Role.RELAY if present.role is Role.RELAY else Role.SECONDARY
    if role is Role.PRIMARY or name == upstream:
        raise OperatorError(f"node {name} can't follow node {upstream} as {role}",
                            exit_code=ExitCode.BAD_CONFIG)
    above_role = state.current(cluster, above).role
    if not above_role.has_followers:
        raise OperatorError(f"node {name} can't follow node {upstream}",
                            f"node {upstream} is a {above_role}; nodes follow a primary or a relay",
                            exit_code=ExitCode.BAD_CONFIG)
    if engine_of(cluster) is None:
        _refuse_writable(cluster, cluster.node(name))
    else:
        engine_roles.refuse_writable(cluster, cluster.node(name))
    return NodeState(cluster.name, name, role, upstream, epoch)


def refuse_older(cluster: Cluster, present: NodeState, epoch: int) -> None:
    """Raise OperatorError (exit 8) when a later epoch is known here."""
    record = admission.newest_record(cluster)
    newest = max(present.epoch, record.epoch if record else 1)
    if epoch < newest:
        raise OperatorError(f"epoch {epoch} is over", f"the cluster has seen epoch {newest}",
                            f"use --epoch {newest} or later", ExitCode.REFUSED)


def silence_others(cluster: Cluster, name: str, epoch: int,
                   proven: int | None = None) -> list[str]:
    """See to it that no other node takes commits, before one opens as the primary of an epoch.

    The records have to be raised already, so that none passes its guard any more.  Running
    primaries of older epochs are told.  One that can't be told, as it is frozen or is just
    starting, is fenced.

    Returns what an operator should know, one line each.  Raises OperatorError when a primary
    can be neither told nor fenced, or has a later transaction than ``proven``.
    """
    remarks, late = [], []
    for node in cluster.nodes:
        if node.name == name:
            continue
        control = ServerControl(node)
        try:
            status = control.status(ANSWER_SECONDS)
            if status.role == Role.PRIMARY:
                status = control.set_epoch(epoch)
                if proven is not None and status.last_tid > proven:
                    late.append(node.name)
        except OperatorError as error:
            if _may_be_primary(cluster, node):
                fenced = fencing.fence(cluster, node)
                if fenced.killed:
                    remarks.append(f"node {node.name} could not be told of epoch {epoch}, and was "
                                   f"fenced: killed {', '.join(map(str, fenced.killed))}")
            elif not isinstance(error, NoServerError):
                remarks.append(f"node {node.name} was not told of epoch {epoch}: {error.notice}: "
                               f"{error.detail}")
    if late:
        raise OperatorError(f"node {name} was not promoted", f"node {' and node '.join(late)} "
                            "committed after it was held; it takes no writes any more, so what "
                            "it has can be handed over now", exit_code=ExitCode.REFUSED)
    return remarks


def _changes(change: Callable[[], ServerStatus], role: Role, remarks: list[str]) -> bool:
    """Have a node's server take a role; False when it has to be restarted for that.

    Why it refused is added to ``remarks``.
    """
    try:
        return change().role == role
    except NoServerError:
        return False
    except ServerRefusedError as error:
        remarks.append(f"restarted, because it was not changed in place: {error.notice}: "
                       f"{error.detail}")
        return False


def _may_be_primary(cluster: Cluster, node: Node) -> bool:
    try:
        return state.current(cluster, node).role is Role.PRIMARY
    except OperatorError:
        return True


def _refuse_writable(cluster: Cluster, node: Node) -> None:
    """A primary that takes writes has to be held first, or what is acknowledged now is lost."""
    try:
        status = ServerControl(node).status()
    except NoServerError:
        return
    if status.role == Role.PRIMARY and status.held not in ("operator", "epoch"):
        command = Commands.here(cluster).zodbrepl
        raise OperatorError(f"node {node.name} is a primary that takes writes",
                            "it would lose what it acknowledges now",
                            f"{command('switchover')}, or first: "
                            f"{command('node', 'hold', node.name)}", ExitCode.REFUSED)
