"""The nodes that may take writes: refused, told of a later epoch, or fenced."""

from __future__ import annotations

import dataclasses
import time

from indico_zodbrepl.backends import backend_of
from indico_zodbrepl.cluster import Cluster, Node, Role
from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.cluster.layout import state_file
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host import fencing, state
from indico_zodbrepl.host.interface import HostAwayError, host_of
from indico_zodbrepl.host.server_control import NoServerError, ServerControl
from indico_zodbrepl.probing.answers import ServerRole
from indico_zodbrepl.probing.wire import ProbeError

ANSWER_SECONDS = 1.0


@dataclasses.dataclass(frozen=True)
class Silenced:
    """The result of ``silence``.

    Attributes:
        remark: what an operator should know, one line; may be empty.
        late: True if the node had a later transaction than was proven.
    """

    remark: str
    late: bool = False


def silence_others(cluster: Cluster, name: str, epoch: int, proven: int | None = None) -> list[str]:
    """Make sure that no other node accepts commits before one becomes an epoch's primary.

    The records must be raised already, so that no other node passes its start-up check.  The new
    epoch is reported to running primaries of older epochs.  One that does not answer, because it is
    frozen or just starting, is fenced.

    Returns what an operator should know, one line each.  Raises OperatorError when a primary
    can be neither told nor fenced, or has a later transaction than ``proven``.
    """
    remarks, late = [], []
    for node in cluster.nodes:
        if node.name == name:
            continue
        try:
            done = host_of(cluster).silence(node.name, epoch, proven)
        except HostAwayError as error:
            remarks.append(out_of_reach(node, epoch, error))
            continue
        if done.remark:
            remarks.append(done.remark)
        if done.late:
            late.append(node.name)
    if late:
        raise OperatorError(
            f"node {name} was not promoted",
            f"node {' and node '.join(late)} "
            "committed after it was held; it takes no writes any more, so what "
            "it has can be handed over now",
            exit_code=ExitCode.REFUSED,
        )
    return remarks


def silence(cluster: Cluster, name: str, epoch: int, proven: int | None = None) -> Silenced:
    """Make sure that one node accepts no commits in an epoch; as ``silence_others`` for all.

    A database server can't be told of an epoch, so one that may accept writes is fenced.

    Raises OperatorError: exit 8, a later epoch is known on this host, or it can't be fenced.
    """
    node = cluster.node(name)
    state.refuse_over(node, epoch)
    if backend_of(cluster).needs_guard:
        killed = _refuse_writes(cluster, node)
        return Silenced(f"node {name} was fenced in epoch {epoch}: {killed}" if killed else "")
    control = ServerControl(cluster, node)
    try:
        status = control.status(ANSWER_SECONDS)
        if status.role == Role.PRIMARY:
            status = control.set_epoch(epoch)
            return Silenced("", proven is not None and status.last_tid > proven)
    except OperatorError as error:
        if _may_be_primary(cluster, node):
            fenced = fencing.fence(cluster, node)
            if fenced.killed:
                return Silenced(
                    f"node {node.name} could not be told of epoch {epoch}, and was "
                    f"fenced: killed {', '.join(map(str, fenced.killed))}"
                )
        elif not isinstance(error, NoServerError):
            return Silenced(
                f"node {node.name} was not told of epoch {epoch}: {error.notice}: {error.detail}"
            )
    return Silenced("")


def out_of_reach(node: Node, epoch: int, error: OperatorError) -> str:
    """Return the remark about a node whose host does not answer during a promotion."""
    return (
        f"node {node.name} was not told of epoch {epoch}: {error.notice}; if its server still "
        "runs, clients that reach it can commit until its host is reachable or switched off"
    )


def _refuse_writes(cluster: Cluster, node: Node) -> str:
    """Fence a database server that may accept writes; return whom that killed, if anybody."""
    if not _may_write(cluster, node):
        return ""
    if not node.managed:
        raise OperatorError(
            f"node {node.name} can't be fenced",
            "it may take writes, and its server is somebody else's: managed is false",
            "end it where it runs, then try again",
            ExitCode.REFUSED,
        )
    fenced = fencing.fence(cluster, node)
    return f"killed {', '.join(map(str, fenced.killed))}" if fenced.killed else ""


def refuse_unpaused(cluster: Cluster, node: Node) -> None:
    """Raise OperatorError unless writes are paused: acknowledged commits would be lost."""
    try:
        status = ServerControl(cluster, node).status()
    except NoServerError:
        return
    if status.role == Role.PRIMARY and status.held not in ("operator", "epoch"):
        command = Commands.here(cluster).zodbrepl
        raise _takes_writes(
            node, f"{command('switchover')}, or first: {command('node', 'pause-writes', node.name)}"
        )


def refuse_writable(cluster: Cluster, node: Node) -> None:
    """Raise OperatorError (exit 8) if a node runs as a primary that accepts writes."""
    found = _role(cluster, node)
    if found is not None and found[0] is ServerRole.PRIMARY and not found[1]:
        stop = Commands.here(cluster).zodbrepl("node", "stop", node.name)
        raise _takes_writes(node, f"end it first: {stop}")


def _takes_writes(node: Node, hint: str) -> OperatorError:
    return OperatorError(
        f"node {node.name} is a primary that takes writes",
        "it would lose what it acknowledges now",
        hint,
        ExitCode.REFUSED,
    )


def _may_write(cluster: Cluster, node: Node) -> bool:
    """Return True if a node is a primary, by its server or, if that is silent, by its state."""
    found = _role(cluster, node)
    return _may_be_primary(cluster, node) if found is None else found[0] is ServerRole.PRIMARY


def _may_be_primary(cluster: Cluster, node: Node) -> bool:
    """Return True if a node may be a primary by its state file, or if the file is missing."""
    if node.managed and not state_file(node).exists():
        return True  # the record names the new primary by now
    try:
        return state.current(cluster, node).role is Role.PRIMARY
    except OperatorError:
        return True


def _role(cluster: Cluster, node: Node) -> tuple[ServerRole, bool] | None:
    """Return the role, and True if it is read-only; None if no server answers as this node."""
    try:
        found = (
            backend_of(cluster).ask(cluster, node, time.monotonic() + ANSWER_SECONDS).replication
        )
    except ProbeError:
        return None
    if found is None or (found.cluster, found.node) != (cluster.name, node.name):
        return None
    return found.role, found.read_only
