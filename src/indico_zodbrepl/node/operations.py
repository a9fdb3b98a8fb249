"""What is done to one node or one Indico instance: the steps that plans are made of.

Each may be repeated.  All raise OperatorError and take a limited time; none asks anybody.
"""

from __future__ import annotations

from ..cluster import Cluster, NodeState, Role
from ..errors import ExitCode, OperatorError
from . import fencing, run, state
from .changes import Changed, follow, promote, refuse_older
from .fencing import Fenced
from .forcing import Forcing, answers, force_start
from .server_control import ServerControl
from .starts import restart_instance, start_node, stop_node

__all__ = ["Changed", "Fenced", "Forcing", "assign", "fence", "follow", "force_start", "hold",
           "promote", "release", "restart_instance", "start_node", "stop_node"]

HOLD_SECONDS = 20.0


def fence(cluster: Cluster, name: str) -> Fenced:
    """Kill a node's server at once and prove that it is gone; see ``fencing.fence``.

    OperatorError (exit 8) as well for a node whose server isn't ours.
    """
    return fencing.fence(cluster, run.node_with_program(cluster, name))


def assign(cluster: Cluster, name: str, *, role: Role, upstream: str | None,
           epoch: int) -> NodeState:
    """Write a node's state file: what it is to be when it starts the next time.

    Returns what was written.

    Raises:
        OperatorError: exit 2, no such node or the role doesn't go with the upstream; exit 8,
            the node's server runs in another role, or its state or a record is of a later
            epoch; exit 1, the file can't be written.
    """
    node = run.node_named(cluster, name)
    assigned = check_assignment(cluster, run.foreseen(cluster, node), role, upstream, epoch)
    run.prepare(cluster, node)
    state.write(node, assigned)
    return assigned


def check_assignment(cluster: Cluster, present: NodeState, role: Role, upstream: str | None,
                     epoch: int) -> NodeState:
    """What ``assign`` would write; changes nothing, and raises as it does."""
    name, node = present.node, cluster.node(present.node)
    if (role is Role.PRIMARY) != (upstream is None) or upstream == name:
        raise OperatorError(f"node {name} can't be {role} with upstream {upstream}",
                            "a primary has no upstream, the others have another node",
                            exit_code=ExitCode.BAD_CONFIG)
    if upstream is not None:
        run.node_named(cluster, upstream)
    refuse_older(cluster, present, epoch)
    if (present.role, present.upstream) != (role, upstream) and answers(cluster, node):
        raise OperatorError(f"node {name} is running as {present.role}",
                            "an assignment counts from its next start on",
                            "stop it first, or use 'node promote' or 'node follow'",
                            ExitCode.REFUSED)
    return NodeState(cluster.name, name, role, upstream, epoch)


def hold(cluster: Cluster, name: str, seconds: float = HOLD_SECONDS) -> str:
    """Let no commit begin on a primary; the running ones have ended when this returns.

    The hold ends by itself after ``seconds``.

    Returns:
        Its last transaction, 16 hex digits; it stays that while the hold lasts.

    Raises:
        OperatorError: exit 2, no such node; exit 6, its server doesn't run; exit 8, it refused:
            a client keeps a commit open, or it is no primary; exit 7, no answer.
    """
    status = ServerControl(run.node_named(cluster, name)).hold(seconds)
    return f"{status.last_tid:016x}"


def release(cluster: Cluster, name: str) -> None:
    """End a hold; nothing happens without one.  Raises as ``hold``."""
    ServerControl(run.node_named(cluster, name)).release()
