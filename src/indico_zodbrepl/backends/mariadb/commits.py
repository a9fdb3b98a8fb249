"""Acknowledged commits of a MariaDB primary: who confirms them, and what they wait for.

The server itself would wait for a time and then go on alone, before anybody has recorded that.  So
it waits without a limit, and semi-synchronous replication is switched off when it may go on alone.
MariaDB has no way to refuse commits while one waits: ``read_only`` waits for that commit too.  So a
server that refuses shows that in a table, and Indico's storage refuses.
"""

from __future__ import annotations

import dataclasses
import time

from indico_zodbrepl.backends.acknowledging import CommitsLook, show
from indico_zodbrepl.backends.mariadb import config
from indico_zodbrepl.backends.mariadb.comparing import last_sequence_number
from indico_zodbrepl.backends.mariadb.server import is_filled
from indico_zodbrepl.backends.mariadb.sql import administration, session
from indico_zodbrepl.backends.mariadb.status import asking_user
from indico_zodbrepl.cluster import Cluster, Node
from indico_zodbrepl.cluster.model import Synchronous
from indico_zodbrepl.probing.answers import AckState
from indico_zodbrepl.probing.wire import ProbeError

FOLLOWER_SECONDS = 1.0
"""For a follower to say what it has received."""

_WAITING = """
SELECT COUNT(*) AS waiting, COALESCE(MAX(time_ms), 0) / 1000 AS waited
FROM information_schema.processlist WHERE state LIKE 'Waiting for semi-sync ACK%%'
"""


_SHOW = f"REPLACE INTO {config.OWN_DATABASE}.commits VALUES (1, %s)"  # noqa: S608  # our own name


def look(cluster: Cluster, node: Node, deadline: float) -> CommitsLook | None:
    """Return who confirms commits; see ``NativeReplication.look_at_commits``.

    None for a server without data too: no follower has a copy that could confirm its creation.
    """
    if not is_filled(node):
        return None
    with administration(node, deadline) as server:
        own = server.row(
            "SELECT @@GLOBAL.read_only AS read_only, @@GLOBAL.gtid_binlog_pos AS position"
        )
        if own["read_only"]:
            return None
        status = {
            row["Variable_name"].lower(): row["Value"]
            for row in server.rows("SHOW GLOBAL STATUS LIKE 'rpl_semi_sync_master_%%'")
        }
        waiting = server.row(_WAITING)
        connected = server.rows("SHOW SLAVE HOSTS")
    acknowledging = int(status.get("rpl_semi_sync_master_clients", 0))
    names = {config.server_id(cluster, each): each.name for each in cluster.nodes}
    confirming = sorted(
        names[int(row["Server_id"])] for row in connected if int(row["Server_id"]) in names
    )
    return CommitsLook(
        dict.fromkeys(confirming[:acknowledging], str(own["position"])),
        float(waiting["waited"]),
        int(waiting["waiting"]),
        str(own["position"]),
    )


def that_received(cluster: Cluster, found: CommitsLook, before: str) -> CommitsLook:
    """Return a look with only those followers that have received a position.

    The primary counts every connected replica, even one that is frozen or far behind.
    """
    least = last_sequence_number(before)
    confirming = {
        name: position
        for name, position in found.confirming.items()
        if _received(cluster, cluster.node(name)) >= least
    }
    return dataclasses.replace(found, confirming=confirming)


def _received(cluster: Cluster, node: Node) -> int:
    """Return the number of the last transaction that a follower has received; -1 if unknown."""
    deadline = time.monotonic() + FOLLOWER_SECONDS
    try:
        with session(cluster, node, asking_user(cluster, node), deadline) as server:
            found = server.rows("SHOW ALL SLAVES STATUS")
    except ProbeError:
        return -1  # it does not answer
    return last_sequence_number(found[0]["Gtid_IO_Pos"]) if found else -1


def apply(node: Node, state: AckState, wanted: Synchronous, deadline: float) -> None:
    """Apply a state; see ``NativeReplication.set_commits``."""
    waits = bool(wanted.count) and state is not AckState.ALONE
    text = show(state, wanted, time.time())
    with administration(node, deadline) as server:
        server.rows("SET SESSION sql_log_bin = 0")
        if state is not AckState.ALONE:
            server.rows(f"SET GLOBAL rpl_semi_sync_master_enabled = {'ON' if waits else 'OFF'}")
        server.rows(_SHOW, text)
        if state is AckState.ALONE:
            server.rows("SET GLOBAL rpl_semi_sync_master_enabled = OFF")
