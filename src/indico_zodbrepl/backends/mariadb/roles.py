"""Changing what a node's running server is, and showing that it has all that another one had."""

from __future__ import annotations

import time

from ...cluster import Cluster, Node, NodeState
from ...errors import ExitCode, OperatorError
from ..relstorage import turn_clients
from . import data, links, names, seeding, server_files
from .positions import last_positions
from .sessions import administration

ANSWER_SECONDS = 10.0
POLL_SECONDS = 0.1


def settle(cluster: Cluster, state: NodeState) -> None:
    """See ``IBackend.settle``: a follower is filled if it has to be, and has joined its upstream.

    Raises:
        OperatorError: exit 8, it has what its upstream lacks, or lacks what that has no more.
    """
    node = cluster.node(state.node)
    if state.upstream is None:
        return
    upstream = cluster.node(state.upstream)
    if not data.is_filled(node):
        seeding.seed(cluster, node, upstream)
    links.settle(cluster, node, upstream)


def promote(cluster: Cluster, state: NodeState, deadline: float) -> list[str]:
    """See ``IBackend.promote``; what the server has received is applied first.

    Raises:
        OperatorError: exit 8, what it received was not applied in time; exit 7 or 1, it can't be
            reached.
    """
    node = cluster.node(state.node)
    with administration(node, deadline) as server:
        status = server.rows("SHOW SLAVE STATUS")
        received = status[0]["Gtid_IO_Pos"] if status else ""
        if received and status[0]["Slave_SQL_Running"] != "Yes":
            server.rows("START SLAVE SQL_THREAD")
        server.rows("STOP SLAVE IO_THREAD")
        if received:
            _wait_for(server.row("SHOW SLAVE STATUS")["Gtid_IO_Pos"], node, deadline)
        for statement in ("STOP SLAVE", "SET SESSION sql_log_bin = 0",
                          *server_files.own_statements(state),
                          f"ALTER USER '{names.settings(cluster).user}'@'%' ACCOUNT UNLOCK"):
            server.rows(statement)
        data.remember_primary(node)
        for statement in server_files.leading_statements():
            server.rows(statement)
    turn_clients(cluster, node, names.replica_conf(cluster))
    return []


def prove(node: Node, primary: Node, deadline: float) -> str:
    """See ``IBackend.prove``: by the position that the primary wrote down when it ended."""
    path = names.data_folder(primary) / "binlog.state"
    try:
        written = last_positions(path.read_text("ascii"))
    except (OSError, UnicodeDecodeError) as error:
        raise OperatorError(f"where node {primary.name} ended can't be read", f"{path}: {error}",
                            exit_code=ExitCode.REFUSED) from error
    _wait_for(written, node, deadline)
    return f"node {node.name} has applied {written or 'nothing'}, where node {primary.name} ended"


def _wait_for(position: str, node: Node, deadline: float) -> None:
    """Until a follower has applied a position, or lacks it for good (exit 8, 7)."""
    if not position:
        return
    seconds = max(0.0, deadline - time.monotonic())
    with administration(node, deadline + ANSWER_SECONDS) as server:
        done = server.row("SELECT MASTER_GTID_WAIT(%s, %s) AS missing", position, seconds)
        if done["missing"] == 0:
            return
        has = server.row("SELECT @@GLOBAL.gtid_current_pos AS gtid")["gtid"]
    raise OperatorError(f"node {node.name} lacks transactions",
                        f"it has applied {has or 'nothing'}, not {position}",
                        exit_code=ExitCode.REFUSED)
