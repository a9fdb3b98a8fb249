"""Whether a follower has joined its upstream, and keeping clients away from it until then.

What was a primary may hold transactions that nobody else has.  It is compared with its upstream
before it connects: MariaDB compares the positions then, but takes a follower that is further on
than its upstream's log for one that this log has yet to reach.  Until it has joined clients can't
log in.
"""

from __future__ import annotations

import time

from ...cluster import Cluster, Node
from ...errors import ExitCode, OperatorError
from . import data, names, seeding, server_files
from .positions import lacks, log_of
from .reading import LOGS_DO_NOT_MATCH, YES, keep_and_copy
from .sessions import Row, administration

ANSWER_SECONDS = 5.0
POLL_SECONDS = 0.2
# How long a follower that has just started may take until both of its threads run.
JOIN_SECONDS = 20.0


def settle(cluster: Cluster, node: Node, upstream: Node) -> None:
    """Wait until a follower runs both threads, and let clients read from it then.

    From then on commits wait for it, if they are to.  Raises as ``wait_until_joined``, and for what
    was a primary exit 7 when the upstream can't be asked.
    """
    if names.led_mark(node).exists():
        _refuse_own_transactions(cluster, node, upstream)
        seeding.follow(cluster, node, upstream, time.monotonic() + ANSWER_SECONDS)
    wait_until_joined(cluster, node)
    with administration(node, time.monotonic() + ANSWER_SECONDS) as server:
        server.rows("SET SESSION sql_log_bin = 0")
        server.rows(f"ALTER USER '{names.settings(cluster).user}'@'%' ACCOUNT UNLOCK")
    data.forget_primary(node)
    if upstream.managed:
        with administration(upstream, time.monotonic() + ANSWER_SECONDS) as server:
            server.rows(server_files.wait_for_followers(cluster))


def _refuse_own_transactions(cluster: Cluster, node: Node, upstream: Node) -> None:
    with administration(node, time.monotonic() + ANSWER_SECONDS) as server:
        position = str(server.row("SELECT @@GLOBAL.gtid_current_pos AS gtid")["gtid"])
    lacking = lacks(position, log_of(cluster, upstream))
    if lacking:
        raise OperatorError(f"node {node.name} can't follow from what it has",
                            f"its log has {lacking}, which that of node {upstream.name} lacks",
                            keep_and_copy(cluster, node), ExitCode.REFUSED)


def wait_until_joined(cluster: Cluster, node: Node) -> None:
    """Until both threads of a follower run, and its upstream has accepted its position.

    Raises:
        OperatorError: exit 8, its history is not that of its upstream, in the upstream's own
            words; exit 7, it did not join in time; exit 1, its server can't be reached.
    """
    deadline = time.monotonic() + JOIN_SECONDS
    while True:
        with administration(node, time.monotonic() + ANSWER_SECONDS) as server:
            found = server.rows("SHOW ALL SLAVES STATUS")
        if found and _joined(found[0]):
            return
        if found and found[0]["Last_IO_Errno"] == LOGS_DO_NOT_MATCH:
            raise OperatorError(f"node {node.name} can't follow from what it has",
                                str(found[0]["Last_IO_Error"]), keep_and_copy(cluster, node),
                                ExitCode.REFUSED)
        if time.monotonic() > deadline:
            raise OperatorError(f"node {node.name} has not joined its upstream yet",
                                _why(found[0]) if found else "it follows nobody",
                                exit_code=ExitCode.TIMED_OUT)
        time.sleep(POLL_SECONDS)


def _joined(status: Row) -> bool:
    """Both threads run, and the upstream has sent something: it looks at the position first."""
    running = {status["Slave_IO_Running"], status["Slave_SQL_Running"]} == {YES}
    return running and bool(status["Master_Log_File"])


def _why(status: Row) -> str:
    return str(status["Last_IO_Error"] or status["Last_SQL_Error"]
               or f"IO thread: {status['Slave_IO_Running']}, SQL thread: "
               f"{status['Slave_SQL_Running']}")
