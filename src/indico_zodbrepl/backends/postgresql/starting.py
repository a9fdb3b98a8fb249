"""What a node's data needs before its server starts in a role."""

from __future__ import annotations

from ...cluster import Cluster, Node, NodeState, Role
from ...cluster.files import sync_folder
from ...errors import ExitCode, OperatorError
from . import configuration, data, leftovers, names, rejoining


def prepare(cluster: Cluster, state: NodeState) -> list[str]:
    """See ``IBackend.prepare``; the guard has admitted the node.

    A primary without data gets a new database, a standby a copy of its upstream's.  A standby
    that is to be the primary ends its recovery in a timeline of its own.  What was a primary
    follows only if it has nothing that its upstream lacks.

    Raises:
        OperatorError: exit 8, it has; others as ``data`` and ``rejoining``.
    """
    node = cluster.node(state.node)
    leftovers.clear(node)
    try:
        remarks = _prepare(cluster, node, state)
        data.take_site_conf(node)
    except OSError as error:
        raise OperatorError(f"the data of node {node.name} can't be used",
                            f"{error.filename}: {error.strerror}",
                            exit_code=ExitCode.REFUSED) from error
    return remarks


def _prepare(cluster: Cluster, node: Node, state: NodeState) -> list[str]:
    if state.role is Role.PRIMARY:
        if not data.exists(node):
            data.make_new(cluster, node)
            return ["a new database was made"]
        return _end_recovery(node)
    upstream = cluster.node(state.upstream or "")
    if not data.exists(node):
        data.copy(cluster, node, upstream)
        return [f"the database of node {upstream.name} was copied"]
    if data.follows(node):
        return []
    return rejoining.rejoin(cluster, node, upstream)


def _end_recovery(node: Node) -> list[str]:
    """Have a standby that was stopped start as the primary, in a new timeline."""
    if not data.follows(node):
        return []
    folder = names.data_folder(node)
    (folder / configuration.STANDBY_SIGNAL).rename(folder / configuration.RECOVERY_SIGNAL)
    sync_folder(folder)
    return ["what was a standby becomes the primary"]
