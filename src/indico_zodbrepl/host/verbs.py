"""Changes of one node or one Indico instance: the steps that plans are made of.

Each may be repeated.  All raise OperatorError and take a limited time; none prompts the user.
``DRY_RUNS`` has the check part of each by its name, which changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from indico_zodbrepl.cluster import Cluster, NodeState, Role
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.cluster.lookup import node_named, node_with_program
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host import (
    acknowledging,
    confirmed_commits,
    fencing,
    forcing,
    lifecycle_dry_runs,
    roles,
    run,
    starts,
    state,
    stopping,
)
from indico_zodbrepl.host.fencing import Fenced
from indico_zodbrepl.host.forcing import Forcing, answers, force_start
from indico_zodbrepl.host.interface import DryRun
from indico_zodbrepl.host.role_changes import Changed
from indico_zodbrepl.host.roles import follow, promote, refuse_older
from indico_zodbrepl.host.server_control import ServerControl, ServerStatus
from indico_zodbrepl.host.starts import restart_instance, start_node, stop_node

__all__ = [
    "DRY_RUNS",
    "Changed",
    "Fenced",
    "Forcing",
    "assign",
    "fence",
    "follow",
    "force_start",
    "pause_writes",
    "promote",
    "restart_instance",
    "resume_writes",
    "start_node",
    "stop_node",
]

PAUSE_SECONDS = 20.0


def fence(cluster: Cluster, name: str) -> Fenced:
    """Kill a node's server at once and prove that it is gone; see ``fencing.fence``.

    OperatorError (exit 8) also for a node whose server is not managed here.
    """
    return fencing.fence(cluster, node_with_program(cluster, name))


def assign(
    cluster: Cluster, name: str, *, role: Role, upstream: str | None, epoch: int
) -> NodeState:
    """Write a node's state file: its role from the next start on.

    Returns what was written.

    Raises:
        OperatorError: exit 2, no such node or the role does not fit the upstream; exit 8,
            the node's server runs in another role, or its state or a record is of a later
            epoch; exit 1, the file can't be written.
    """
    node = node_named(cluster, name)
    present = state.current(cluster, node)
    assigned = check_assignment(cluster, present, role, upstream, epoch)
    run.prepare(cluster, node)
    confirmed_commits.distrust_late(cluster, present, assigned)
    state.write(node, assigned)
    return assigned


def check_assignment(
    cluster: Cluster, present: NodeState, role: Role, upstream: str | None, epoch: int
) -> NodeState:
    """Return the state that ``assign`` would write; change nothing.  Raises as ``assign``."""
    name, node = present.node, cluster.node(present.node)
    if (role is Role.PRIMARY) != (upstream is None) or upstream == name:
        raise OperatorError(
            f"node {name} can't be {role} with upstream {upstream}",
            "a primary has no upstream, the others have another node",
            exit_code=ExitCode.BAD_CONFIG,
        )
    if upstream is not None:
        node_named(cluster, upstream)
    refuse_older(cluster, present, epoch)
    if (present.role, present.upstream) != (role, upstream) and answers(cluster, node):
        raise OperatorError(
            f"node {name} is running as {present.role}",
            "an assignment counts from its next start on",
            "stop it first, or use 'node promote' or 'node follow'",
            ExitCode.REFUSED,
        )
    return NodeState(cluster.name, name, role, upstream, epoch)


def _check_assign(
    cluster: Cluster,
    _installation: Installation,
    name: str,
    role: str,
    upstream: str | None,
    epoch: int,
) -> DryRun:
    present = state.current(cluster, node_named(cluster, name))
    assigned = check_assignment(cluster, present, Role(role), upstream, epoch)
    return DryRun(
        (
            f"node {name} is to be {state.in_words(cluster, present)} until now",
            "no later epoch is known",
        ),
        (state.writing(cluster, assigned),),
    )


def pause_writes(cluster: Cluster, name: str, seconds: float = PAUSE_SECONDS) -> str:
    """Pause the writes of a primary, and wait until running commits have finished.

    Writes resume automatically after ``seconds``.

    Returns:
        The last transaction, 16 hex digits; it stays the last one while writes are paused.

    Raises:
        OperatorError: BAD_CONFIG, no such node; NOT_RUNNING, its server does not run; REFUSED, a
            client keeps a commit open or the node is no primary; TIMED_OUT, no answer.
    """
    status = ServerControl(cluster, node_named(cluster, name)).pause_writes(seconds)
    return f"{status.last_tid:016x}"


def resume_writes(cluster: Cluster, name: str) -> None:
    """Resume writes; no effect if they are not paused.  Raises as ``pause_writes``."""
    ServerControl(cluster, node_named(cluster, name)).resume_writes()


def _check_pause(
    cluster: Cluster, _installation: Installation, name: str, seconds: float
) -> DryRun:
    status = ServerControl(cluster, node_named(cluster, name)).status()
    if status.role != Role.PRIMARY:
        raise OperatorError(
            f"node {name} can't pause writes",
            f"it runs as {status.role}",
            exit_code=ExitCode.REFUSED,
        )
    return DryRun(
        (_runs_as(name, status),),
        (f"tell its server to begin no commit for {seconds:g} s", "wait for running commits"),
    )


def _check_resume(cluster: Cluster, _installation: Installation, name: str) -> DryRun:
    status = ServerControl(cluster, node_named(cluster, name)).status()
    if status.held != "operator":
        return DryRun((f"{_runs_as(name, status)}, and its writes are not paused",))
    return DryRun((_runs_as(name, status),), ("tell its server to begin commits again",))


def _runs_as(name: str, status: ServerStatus) -> str:
    return f"node {name} runs as {status.role} in epoch {status.epoch}"


DRY_RUNS: Mapping[str, Callable[..., DryRun]] = {
    "start_node": starts.check_start,
    "stop_node": starts.check_stop,
    "fence": fencing.check,
    "assign": _check_assign,
    "pause_writes": _check_pause,
    "resume_writes": _check_resume,
    "change_synchronous": acknowledging.check,
    "promote": roles.dry_run_promotion,
    "follow": roles.dry_run_following,
    "force_start": forcing.dry_run,
    "restart_node": starts.check_restart_node,
    "restart_instance": starts.check_restart_instance,
    "up": lifecycle_dry_runs.dry_run_up,
    "down": lifecycle_dry_runs.dry_run_down,
    "stop_stage": stopping.dry_run,
}
"""The checks of each verb by its name in the interface."""
