"""Changes of role: promotion of a replica, rejoin of a former primary."""

from __future__ import annotations

import time

from indico_zodbrepl.backends.mariadb import config, received
from indico_zodbrepl.backends.mariadb import server as servers
from indico_zodbrepl.backends.mariadb.comparing import (
    lacks,
    last_positions,
    last_sequence_number,
    log_of,
)
from indico_zodbrepl.backends.mariadb.copying import follow, seed
from indico_zodbrepl.backends.mariadb.sql import (
    Row,
    Session,
    administration,
)
from indico_zodbrepl.backends.mariadb.status import (
    LOGS_DO_NOT_MATCH,
    YES,
    keep_and_copy,
    upstream_of,
)
from indico_zodbrepl.backends.relstorage import turn_clients
from indico_zodbrepl.cluster import Cluster, Node, NodeState
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.probing.waiting import wait_while

ANSWER_SECONDS = 10.0
POLL_SECONDS = 0.1
LINK_SECONDS = 5.0
JOIN_POLL_SECONDS = 0.2
# Seconds until both threads of a follower that has just started must run.
JOIN_SECONDS = 20.0


def settle(cluster: Cluster, state: NodeState) -> None:
    """Fill a follower if needed, and wait until it has joined; see ``IBackend.settle``.

    Raises:
        OperatorError: exit 8, it has transactions that its upstream lacks, or lacks some that the
            upstream no longer has.
    """
    node = cluster.node(state.node)
    if state.upstream is None:
        return
    upstream = cluster.node(state.upstream)
    if not servers.is_filled(node):
        seed(cluster, node, upstream)
    settle_links(cluster, node, upstream)


def promote(cluster: Cluster, state: NodeState, deadline: float) -> list[str]:
    """Apply what the server has received, then promote it.

    Raises:
        OperatorError: exit 8, received transactions were not applied in time; exit 7 or 1, it
            cannot be reached.
    """
    node = cluster.node(state.node)
    with administration(node, deadline) as server:
        status = server.rows("SHOW SLAVE STATUS")
        end = status[0]["Gtid_IO_Pos"] if status else ""
        if end and status[0]["Slave_SQL_Running"] != "Yes":
            server.rows("START SLAVE SQL_THREAD")
        server.rows("STOP SLAVE IO_THREAD")
        if end:
            # Nothing is left of it if another process has just promoted the server.
            status = server.rows("SHOW SLAVE STATUS") or status
            _wait_for(status[0]["Gtid_IO_Pos"], node, deadline)
        for statement in (
            "STOP SLAVE",
            "SET SESSION sql_log_bin = 0",
            *config.own_statements(state),
            f"ALTER USER '{config.settings_of(cluster).user}'@'%' ACCOUNT UNLOCK",
        ):
            server.rows(statement)
        servers.remember_primary(node)
        # Before the first commit: the server's options are those of the replica that it was.
        for statement in (config.wait_for_followers(cluster), *config.leading_statements()):
            server.rows(statement)
    turn_clients(cluster, node)
    return []


def detach(node: Node, deadline: float) -> int:
    """Let a replica leave its upstream; see ``NativeReplication.detach``.

    Refused while it may lack commits that it has confirmed; see ``received``.

    The position is the sequence number of the last transaction that it has received; MariaDB counts
    them on through all servers of a cluster.
    """
    with administration(node, deadline) as server:
        found = server.rows("SHOW SLAVE STATUS")
        if not found:
            raise _no_replica(node)
        _refuse_doubt(node, server, found[0]["Gtid_IO_Pos"])
        server.rows("STOP SLAVE IO_THREAD")
        end = server.row("SHOW SLAVE STATUS")["Gtid_IO_Pos"]
    _wait_for(end, node, deadline)
    with administration(node, deadline) as server:
        has = server.row("SELECT @@GLOBAL.gtid_current_pos AS gtid")["gtid"]
    return last_sequence_number(f"{end},{has}")


def _refuse_doubt(node: Node, server: Session, end: str) -> None:
    """Raise OperatorError (exit 8) if a replica may lack commits that it has confirmed."""
    has = server.row("SELECT @@GLOBAL.gtid_current_pos AS gtid")["gtid"]
    epoch = server.row(f"SELECT epoch FROM {config.OWN_DATABASE}.node")["epoch"]  # noqa: S608
    doubt = received.doubt(node, int(epoch), last_sequence_number(f"{end},{has}"))
    if doubt:
        raise OperatorError(
            f"node {node.name} may lack commits that it has confirmed",
            doubt,
            "start its upstream, which has them",
            ExitCode.REFUSED,
        )


def redirect(cluster: Cluster, state: NodeState, deadline: float) -> None:
    """Let a running replica follow another server; see ``NativeReplication.redirect``."""
    node = cluster.node(state.node)
    with administration(node, deadline) as server:
        if not server.rows("SHOW SLAVE STATUS"):
            raise _no_replica(node)
    follow(cluster, node, cluster.node(str(state.upstream)), deadline)
    with administration(node, deadline) as server:
        for statement in ("SET SESSION sql_log_bin = 0", *config.own_statements(state)):
            server.rows(statement)


def _no_replica(node: Node) -> OperatorError:
    return OperatorError(
        f"node {node.name} is no replica",
        "its server follows nobody",
        exit_code=ExitCode.REFUSED,
    )


def attach(cluster: Cluster, state: NodeState, deadline: float) -> None:
    """Let a detached replica follow again; see ``NativeReplication.attach``."""
    with administration(cluster.node(state.node), deadline) as server:
        found = server.rows("SHOW SLAVE STATUS")
        if not found:
            return
        if upstream_of(found[0]) == cluster.node(str(state.upstream)).storage_address:
            server.rows("START SLAVE IO_THREAD")
            return
    redirect(cluster, state, deadline)  # its state was written, and it was not told


def log_end(node: Node) -> str:
    """Return the position that a server recorded at its shutdown; empty if it has no log.

    A server that could not write it, because its disk is full, for example, leaves its newest log
    marked as in use.
    """
    path = config.data_folder(node) / "binlog.state"
    try:
        if received.is_in_use(config.data_folder(node)):
            raise OperatorError(
                f"node {node.name} did not shut down cleanly",
                "its newest binary log is marked as in use; what it had is not certain",
                exit_code=ExitCode.REFUSED,
            )
        return last_positions(path.read_text("ascii"))
    except (OSError, UnicodeDecodeError) as error:
        raise OperatorError(
            f"where node {node.name} ended can't be read",
            f"{path}: {error}",
            exit_code=ExitCode.REFUSED,
        ) from error


def prove(node: Node, primary: Node, written: str, deadline: float) -> str:
    """Wait until a replica has applied a position; see ``NativeReplication.prove``."""
    _wait_for(written, node, deadline)
    return f"node {node.name} has applied {written or 'nothing'}, where node {primary.name} ended"


def _wait_for(position: str, node: Node, deadline: float) -> None:
    """Wait until a replica has applied a position; raise OperatorError (exit 8, 7) if not."""
    if not position:
        return
    seconds = max(0.0, deadline - time.monotonic())
    with administration(node, deadline + ANSWER_SECONDS) as server:
        done = server.row("SELECT MASTER_GTID_WAIT(%s, %s) AS missing", position, seconds)
        if done["missing"] == 0:
            return
        has = server.row("SELECT @@GLOBAL.gtid_current_pos AS gtid")["gtid"]
    raise OperatorError(
        f"node {node.name} lacks transactions",
        f"it has applied {has or 'nothing'}, not {position}",
        exit_code=ExitCode.REFUSED,
    )


def settle_links(cluster: Cluster, node: Node, upstream: Node) -> None:
    """Wait until both threads of a follower run, then let clients read from it.

    Raises as ``wait_until_joined``; for a former primary also exit 7 if the upstream does not
    answer.
    """
    if config.led_mark(node).exists():
        _refuse_own_transactions(cluster, node, upstream)
        follow(cluster, node, upstream, time.monotonic() + LINK_SECONDS)
    wait_until_joined(cluster, node)
    with administration(node, time.monotonic() + LINK_SECONDS) as server:
        server.rows("SET SESSION sql_log_bin = 0")
        server.rows(f"ALTER USER '{config.settings_of(cluster).user}'@'%' ACCOUNT UNLOCK")
    servers.forget_primary(node)


def _refuse_own_transactions(cluster: Cluster, node: Node, upstream: Node) -> None:
    with administration(node, time.monotonic() + LINK_SECONDS) as server:
        position = str(server.row("SELECT @@GLOBAL.gtid_current_pos AS gtid")["gtid"])
    lacking = lacks(position, log_of(cluster, upstream))
    if lacking:
        raise OperatorError(
            f"node {node.name} can't follow from what it has",
            f"its log has {lacking}, which that of node {upstream.name} lacks",
            keep_and_copy(cluster, node),
            ExitCode.REFUSED,
        )


def wait_until_joined(cluster: Cluster, node: Node) -> None:
    """Wait until both threads of a replica run and its upstream has accepted its position.

    Raises:
        OperatorError: exit 8, its history is not that of its upstream, with the upstream's message;
            exit 7, it did not join in time; exit 1, its server cannot be reached.
    """
    deadline = time.monotonic() + JOIN_SECONDS

    def missing() -> str:
        with administration(node, time.monotonic() + LINK_SECONDS) as server:
            found = server.rows("SHOW ALL SLAVES STATUS")
        if found and _joined(found[0]):
            return ""
        if found and found[0]["Last_IO_Errno"] == LOGS_DO_NOT_MATCH:
            raise OperatorError(
                f"node {node.name} can't follow from what it has",
                str(found[0]["Last_IO_Error"]),
                keep_and_copy(cluster, node),
                ExitCode.REFUSED,
            )
        return _why(found[0]) if found else "it follows nobody"

    why = wait_while(missing, deadline, JOIN_POLL_SECONDS)
    if why:
        raise OperatorError(
            f"node {node.name} has not joined its upstream yet", why, exit_code=ExitCode.TIMED_OUT
        )


def has_joined(cluster: Cluster, node: Node, upstream: Node, deadline: float) -> bool:
    """Return True if a replica gets a primary's log; see ``NativeReplication.has_joined``.

    Its threads run for a moment before the primary has looked at its position.
    """
    with administration(node, deadline) as server:
        found = server.rows("SHOW ALL SLAVES STATUS")
        has = server.row("SELECT @@GLOBAL.gtid_current_pos AS gtid")["gtid"]
    if not found or not _joined(found[0]) or upstream_of(found[0]) != upstream.storage_address:
        return False
    return not lacks(f"{has},{found[0]['Gtid_IO_Pos']}", log_of(cluster, upstream))


def _joined(status: Row) -> bool:
    """Return True if both threads run and the upstream has sent something."""
    running = {status["Slave_IO_Running"], status["Slave_SQL_Running"]} == {YES}
    return running and bool(status["Master_Log_File"])


def _why(status: Row) -> str:
    return str(
        status["Last_IO_Error"]
        or status["Last_SQL_Error"]
        or f"IO thread: {status['Slave_IO_Running']}, SQL thread: {status['Slave_SQL_Running']}"
    )
