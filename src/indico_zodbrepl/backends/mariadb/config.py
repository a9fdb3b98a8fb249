"""Names, paths, options and initial statements of MariaDB servers and their clients; no I/O.

The statements give the server the role of its node's state, so a restart in another state changes
the role.  It accepts no writes before the last of them was executed: a server whose statements
fail, or that is started by hand with other ones, stays read-only.
"""

from __future__ import annotations

import hashlib
import os
import pwd
import zlib
from collections.abc import Mapping
from pathlib import Path

from indico_zodbrepl.backends import relstorage
from indico_zodbrepl.cluster import Cluster, Node, NodeState
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.cluster.model import SyncLevel
from indico_zodbrepl.cluster.settings import MariaDBSettings

# A follower that was away for longer must be cloned.
BINLOG_DAYS = 7
# Milliseconds that a semi-synchronous commit waits for a follower: a year.  Our own process ends
# the wait, after it has recorded that (see ``commits``).
SEMI_SYNC_LIMIT = 365 * 86400 * 1000
# For a replica that stops, to connect to its upstream once more; whole seconds.
LEAVE_SECONDS = 1.0

CONNECT_SECONDS = 5
# A statement that takes longer counts as lost: a last resort, because a pack has long ones.
# Indico's storage detects frozen servers much sooner.
READ_SECONDS = 600

# Users of servers that are started here: for monitoring, and for replication.  The administrator is
# the operating system user who runs them, without a password, and only through the server's socket.
MONITOR_USER = "zodbrepl_monitor"
REPLICATION_USER = "zodbrepl_replication"
GENERATED_USERS = (MONITOR_USER, REPLICATION_USER)

# A database of each server, which is not replicated.
OWN_DATABASE = "zodbrepl"

# A unix socket's path has room for 107 bytes (unix(7)).
SOCKET_PATH_LIMIT = 107


def my_cnf(cluster: Cluster, state: NodeState) -> str:
    """Return the server's options for its node's role."""
    node = cluster.node(state.node)
    leads = state.upstream is None
    synchronous = cluster.synchronous.count > 0
    return _MY_CNF.format(
        data=data_folder(node),
        temporary=temporary_folder(node),
        socket=server_socket(node),
        host=node.host,
        port=node.storage_port,
        server_id=server_id(cluster, node),
        init_sql=init_sql_file(cluster, node),
        site_cnf=site_cnf(node),
        waits=_switch(synchronous and leads),
        semi_sync_timeout=SEMI_SYNC_LIMIT,
        leave_seconds=LEAVE_SECONDS,
        sync_relay_log=int(synchronous and cluster.synchronous.level is SyncLevel.FSYNC),
        days=BINLOG_DAYS,
        silence=max(4, round(3 * cluster.keep_alive_delay)),
    )


def init_sql(
    cluster: Cluster, state: NodeState, passwords: Mapping[str, str], *, filled: bool, locked: bool
) -> str:
    """Return the server's initial statements, one a line: users, owner, upstream.

    Args:
        passwords: of Indico's user and the generated ones.
        filled: True if the node's copy of the database is complete; without one it follows no node.
        locked: True if clients cannot log in, and it follows no node until it was compared.
    """
    statements = [
        "SET SESSION sql_log_bin = 0",
        *_users(cluster, passwords, "LOCK" if locked else "UNLOCK"),
        *own_statements(state),
        acknowledge(cluster),
    ]
    if state.upstream is None:
        statements += leading_statements()
    elif filled and not locked:
        statements += follow_statements(
            cluster, cluster.node(state.upstream), passwords[REPLICATION_USER]
        )
    return "".join(f"{statement};\n" for statement in statements)


_COMMITS = "one TINYINT PRIMARY KEY, state VARCHAR(1000) CHARACTER SET ascii"


def own_statements(state: NodeState) -> list[str]:
    """Return statements that record the server's owner and state; they are not replicated."""
    table = f"{OWN_DATABASE}.node"
    columns = (
        "one TINYINT PRIMARY KEY, cluster VARCHAR(64), node VARCHAR(64), "
        "role VARCHAR(16), epoch BIGINT UNSIGNED"
    )
    values = f"1, '{state.cluster}', '{state.node}', '{state.role}', {state.epoch}"
    return [
        f"CREATE DATABASE IF NOT EXISTS {OWN_DATABASE}",
        f"CREATE TABLE IF NOT EXISTS {table} ({columns}) ENGINE = InnoDB CHARACTER SET ascii",
        f"REPLACE INTO {table} VALUES ({values})",  # noqa: S608
        f"CREATE TABLE IF NOT EXISTS {OWN_DATABASE}.commits ({_COMMITS}) ENGINE = InnoDB",
        f"DELETE FROM {OWN_DATABASE}.commits",  # noqa: S608
    ]  # names of our own


def leading_statements() -> list[str]:
    """Return statements that stop following, and accept writes."""
    return ["RESET SLAVE ALL", "SET GLOBAL read_only = 0"]


def follow_statements(cluster: Cluster, upstream: Node, password: str) -> list[str]:
    """Return statements to follow a server from the present data, own commits included."""
    link = {
        "HOST": f"'{upstream.host}'",
        "PORT": upstream.storage_port,
        "USER": f"'{REPLICATION_USER}'",
        "PASSWORD": f"'{password}'",
        "USE_GTID": "slave_pos",
        "CONNECT_RETRY": retry_seconds(cluster),
        "HEARTBEAT_PERIOD": f"{cluster.keep_alive_delay:g}",
    }
    return [
        "SET GLOBAL gtid_slave_pos = @@GLOBAL.gtid_current_pos",
        "CHANGE MASTER TO " + ", ".join(f"MASTER_{key} = {value}" for key, value in link.items()),
        "START SLAVE",
    ]


def retry_seconds(cluster: Cluster) -> int:
    """Return the delay between a replica's connection attempts; MariaDB has whole seconds."""
    return max(1, round(cluster.reconnect_delay))


def acknowledge(cluster: Cluster) -> str:
    """Return statements that acknowledge received transactions if commits wait for that."""
    wanted = _switch(cluster.synchronous.count > 0)
    return f"SET GLOBAL rpl_semi_sync_slave_enabled = {wanted}"


def wait_for_followers(cluster: Cluster) -> str:
    """Return statements that make commits wait for a connected follower, if configured."""
    wanted = _switch(cluster.synchronous.count > 0)
    return f"SET GLOBAL rpl_semi_sync_master_enabled = {wanted}"


def _switch(on: bool) -> str:
    return "ON" if on else "OFF"


# The last one lists the replicas.
_MONITORS = "PROCESS, BINLOG MONITOR, SLAVE MONITOR, REPLICATION MASTER ADMIN"


def _users(cluster: Cluster, passwords: Mapping[str, str], lock: str) -> list[str]:
    own = settings_of(cluster)
    database = own.database.replace("_", r"\_")
    statements = []
    for user, password in passwords.items():
        statements += [
            f"CREATE USER IF NOT EXISTS '{user}'@'%'",
            f"ALTER USER '{user}'@'%' IDENTIFIED BY '{password}'",
        ]
    return [
        *statements,
        f"ALTER USER '{own.user}'@'%' ACCOUNT {lock}",
        f"GRANT ALL ON `{database}`.* TO '{own.user}'@'%'",
        f"GRANT PROCESS ON *.* TO '{own.user}'@'%'",  # for the sizes of the database's files
        f"GRANT REPLICATION SLAVE ON *.* TO '{REPLICATION_USER}'@'%'",
        *(_from_another_host(database) if cluster.hosts else ()),
        f"GRANT {_MONITORS} ON *.* TO '{MONITOR_USER}'@'%'",
        f"GRANT SELECT ON `{database}`.* TO '{MONITOR_USER}'@'%'",
        f"GRANT SELECT ON {OWN_DATABASE}.* TO '{MONITOR_USER}'@'%'",
        f"GRANT SELECT ON {OWN_DATABASE}.* TO '{own.user}'@'%'",
    ]


def _from_another_host(database: str) -> list[str]:
    """Return what a follower on another host needs: copy the database, make commits wait for it.

    On the primary's host the administrator does both through the server's socket.
    """
    everywhere = "BINLOG MONITOR, PROCESS, RELOAD, REPLICATION MASTER ADMIN"
    return [
        f"GRANT {everywhere} ON *.* TO '{REPLICATION_USER}'@'%'",
        f"GRANT EVENT, SELECT, SHOW VIEW, TRIGGER ON `{database}`.* TO '{REPLICATION_USER}'@'%'",
        f"GRANT SELECT ON mysql.proc TO '{REPLICATION_USER}'@'%'",
    ]


_MY_CNF = """\
# Generated at each start of the node; changes here are lost.
# Options of your own go into {site_cnf}, and count more than these.
[mariadbd]
datadir = {data}
tmpdir = {temporary}
socket = {socket}
pid-file = {data}/mariadbd.pid
bind-address = {host}
port = {port}
skip-name-resolve
init-file = {init_sql}

read-only = ON
skip-slave-start
server-id = {server_id}
log-bin = binlog
relay-log = relay
log-slave-updates
gtid-strict-mode
binlog-format = ROW
sync-binlog = 1
innodb-flush-log-at-trx-commit = 1
expire-logs-days = {days}
slave-net-timeout = {silence}
report-host = {host}
report-port = {port}
rpl-semi-sync-master-enabled = {waits}
rpl-semi-sync-master-wait-point = AFTER_SYNC
rpl-semi-sync-master-timeout = {semi_sync_timeout}
# A replica that stops connects to its upstream once more, to end its session there. If the upstream
# does not answer, that must not delay a candidate.
rpl-semi-sync-slave-kill-conn-timeout = {leave_seconds:.0f}
# A replica acknowledges a transaction that is in its relay log; on disk only with 1.
sync-relay-log = {sync_relay_log}

# Level 2 tells of each port check that it was no login.
log-warnings = 1
max-allowed-packet = 1G
character-set-server = utf8mb4

# What a kill left in the log is committed at the next start, and never dropped: it may have been
# acknowledged. A server that acknowledged already as it starts, or were told that it is a
# replica, would drop what only the log has. The first statements let it acknowledge.
init-rpl-role = MASTER
rpl-semi-sync-slave-enabled = OFF

!include {site_cnf}
"""


def client_files(cluster: Cluster) -> Mapping[Path, str]:
    """Return the clients' files: through the primary, of each node alone, and for the schema."""
    return relstorage.client_files(
        cluster, PACKAGE, lambda node: _server(cluster, node or cluster.nodes[0])
    )


def alone_conf(cluster: Cluster, socket: Path) -> str:
    """Return the configuration that reads as the administrator through a socket."""
    server = _ALONE.format(
        socket=socket, user=administrator(), database=settings_of(cluster).database
    )
    return relstorage.node_conf(cluster, None, PACKAGE, server)


def _server(cluster: Cluster, node: Node) -> str:
    own = settings_of(cluster)
    return _SERVER.format(
        host=node.host,
        port=node.storage_port,
        database=own.database,
        secrets=client_cnf(cluster, own.user),
        connect=CONNECT_SECONDS,
        read=READ_SECONDS,
    )


PACKAGE = "indico_zodbrepl.dataplane.mariadb"
_SERVER = """\
    <mariadb>
      driver PyMySQL
      host {host}
      port {port}
      db {database}
      read_default_file {secrets}
      connect_timeout {connect}
      read_timeout {read}
      write_timeout {read}
    </mariadb>
"""

_ALONE = """\
    <mariadb>
      driver PyMySQL
      unix_socket {socket}
      user {user}
      db {database}
    </mariadb>
"""


def settings_of(cluster: Cluster) -> MariaDBSettings:
    """Return the section ``<mariadb>`` or its defaults."""
    if not isinstance(cluster.settings, MariaDBSettings):
        raise TypeError(f"cluster {cluster.name} has no settings of MariaDB")
    return cluster.settings


def administrator() -> str:
    """Return the operating system user who runs this program, and thus the servers."""
    return pwd.getpwuid(os.geteuid()).pw_name


def data_folder(node: Node) -> Path:
    """Return MariaDB's data folder; the node's state file is beside it."""
    return node.data_directory / "mariadb"


def temporary_folder(node: Node) -> Path:
    """Return the server's own temporary folder: a starting server empties it."""
    return node.data_directory / "tmp"


def filled_mark(node: Node) -> Path:
    """Return the mark of a node whose copy of the database is complete."""
    return data_folder(node) / "zodbrepl-filled"


def led_mark(node: Node) -> Path:
    """Return the mark of a node that was a primary and has not joined another one since."""
    return data_folder(node) / "zodbrepl-led"


def received_file(node: Node) -> Path:
    """Return the record of what a replica had received before its last start."""
    return data_folder(node) / "zodbrepl-received.json"


def my_cnf_file(node: Node) -> Path:
    """Return the file with the server's options, written at each start."""
    return node.data_directory / "my.cnf"


def site_cnf(node: Node) -> Path:
    """Return the file with the site's own options, which override ``my_cnf``."""
    return node.data_directory / "site.cnf"


def init_sql_file(cluster: Cluster, node: Node) -> Path:
    """Return the file that the server executes first at each start; it holds passwords."""
    return Layout(cluster).secrets / f"mariadb-{node.name}.sql"


def client_cnf(cluster: Cluster, user: str) -> Path:
    """Return the file with a user's name and password for MariaDB's programs and drivers."""
    return Layout(cluster).secrets / f"mariadb-{user}.cnf"


def server_socket(node: Node) -> Path:
    """Return the socket beside the node's data; in a folder under /tmp if that path is too long."""
    socket = node.data_directory / "mariadb.sock"
    if len(bytes(socket)) <= SOCKET_PATH_LIMIT:
        return socket
    digest = hashlib.sha256(bytes(node.data_directory)).hexdigest()[:16]
    return Path(
        "/tmp",  # noqa: S108  # its owner is checked before use
        f"indico-zodbrepl-{digest}",
        "mariadb.sock",
    )


def server_id(cluster: Cluster, node: Node) -> int:
    """Return the number of a node's server, 1 to 2**32 - 1; the same at each start."""
    return zlib.crc32(f"{cluster.name}/{node.name}".encode()) or 1
