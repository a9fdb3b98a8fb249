"""Changing the role of a node whose engine replicates by itself: PostgreSQL, MariaDB.

Its server can't be held or told of an epoch as ours can, so whoever may take writes is fenced,
and a node that is to follow is started anew: the backend then brings its data in line first.
"""

from __future__ import annotations

import time

from ..backends import backend_of
from ..cluster import Cluster, Node, Role
from ..cluster.commands import Commands
from ..errors import ExitCode, OperatorError
from ..probing.answers import ServerRole
from ..probing.wire import ProbeError
from . import fencing, state

ANSWER_SECONDS = 1.0


def fence_others(cluster: Cluster, name: str, epoch: int) -> list[str]:
    """Fence every other node that may take writes, before one opens as the primary of an epoch.

    Returns what an operator should know, one line each.  Raises OperatorError when one can't be
    fenced.
    """
    remarks = []
    for node in cluster.nodes:
        if node.name == name or not _may_write(cluster, node):
            continue
        if not node.managed:
            raise OperatorError(
                f"node {node.name} can't be fenced",
                "it may take writes, and its server is somebody else's: managed is false",
                "end it where it runs, then try again", ExitCode.REFUSED)
        fenced = fencing.fence(cluster, node)
        if fenced.killed:
            remarks.append(f"node {node.name} was fenced before epoch {epoch} began: killed "
                           f"{', '.join(map(str, fenced.killed))}")
    return remarks


def refuse_writable(cluster: Cluster, node: Node) -> None:
    """Raise OperatorError (exit 8) when a node runs as a primary that takes writes."""
    found = _role(cluster, node)
    if found is not None and found[0] is ServerRole.PRIMARY and not found[1]:
        command = Commands.here(cluster).zodbrepl
        raise OperatorError(f"node {node.name} is a primary that takes writes",
                            "it would lose what it acknowledges now",
                            f"end it first: {command('node', 'stop', node.name)}",
                            ExitCode.REFUSED)


def _may_write(cluster: Cluster, node: Node) -> bool:
    """Whether a node is a primary by its server's word, or, where that is silent, its state's."""
    found = _role(cluster, node)
    if found is not None:
        return found[0] is ServerRole.PRIMARY
    try:
        return state.current(cluster, node).role is Role.PRIMARY
    except OperatorError:
        return True


def _role(cluster: Cluster, node: Node) -> tuple[ServerRole, bool] | None:
    """Role and whether it is read-only; None when nobody answers as this node."""
    try:
        found = backend_of(cluster).ask(cluster, node,
                                        time.monotonic() + ANSWER_SECONDS).replication
    except ProbeError:
        return None
    if found is None or (found.cluster, found.node) != (cluster.name, node.name):
        return None
    return found.role, found.read_only
