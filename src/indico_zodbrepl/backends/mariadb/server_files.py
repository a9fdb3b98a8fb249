"""What a node's server reads at each start: its options and its first statements; no I/O.

The statements make the server what its node's state says, so that a restart in another state is
a change of role.  It takes no writes before the last of them is carried out: a server whose
statements fail, or that somebody starts by hand with other ones, stays read-only.
"""

from __future__ import annotations

from collections.abc import Mapping

from ...cluster import Cluster, Node, NodeState
from . import names

# A follower that was away for longer has to be seeded.
BINLOG_DAYS = 7
# How long a semi-synchronous commit waits for a follower before it goes on without.
SEMI_SYNC_SECONDS = 10


def my_cnf(cluster: Cluster, state: NodeState) -> str:
    """The server's options for the role that its node has."""
    node = cluster.node(state.node)
    leads = state.upstream is None
    synchronous = names.settings(cluster).synchronous
    return _MY_CNF.format(
        data=names.data_folder(node), temporary=names.temporary_folder(node),
        socket=names.server_socket(node), host=node.host, port=node.storage_port,
        server_id=names.server_id(cluster, node), init_sql=names.init_sql(cluster, node),
        site_cnf=names.site_cnf(node),
        waits=_switch(synchronous and leads), semi_sync_timeout=SEMI_SYNC_SECONDS * 1000,
        days=BINLOG_DAYS, silence=max(4, round(3 * cluster.keep_alive_delay)))


def init_sql(cluster: Cluster, state: NodeState, passwords: Mapping[str, str], *,
             filled: bool, locked: bool) -> str:
    """The server's first statements: users, whose server it is, what it follows; one a line.

    Args:
        passwords: of Indico's user and the generated ones.
        filled: whether the node's copy of the database is whole; it follows nobody before.
        locked: whether clients can't log in, and it follows nobody until it was compared.
    """
    statements = ["SET SESSION sql_log_bin = 0",
                  *_users(cluster, passwords, "LOCK" if locked else "UNLOCK"),
                  *own_statements(state), acknowledge(cluster)]
    if state.upstream is None:
        statements += leading_statements()
    elif filled and not locked:
        statements += follow_statements(cluster, cluster.node(state.upstream),
                                        passwords[names.REPLICATION_USER])
    return "".join(f"{statement};\n" for statement in statements)


def own_statements(state: NodeState) -> list[str]:
    """Write down whose server this is, and in which state; not to be replicated."""
    table = f"{names.OWN_DATABASE}.node"
    columns = ("one TINYINT PRIMARY KEY, cluster VARCHAR(64), node VARCHAR(64), "
               "role VARCHAR(16), epoch BIGINT UNSIGNED")
    values = f"1, '{state.cluster}', '{state.node}', '{state.role}', {state.epoch}"
    return [f"CREATE DATABASE IF NOT EXISTS {names.OWN_DATABASE}",
            f"CREATE TABLE IF NOT EXISTS {table} ({columns}) ENGINE = InnoDB CHARACTER SET ascii",
            f"REPLACE INTO {table} VALUES ({values})"]  # noqa: S608  # names of our own


def leading_statements() -> list[str]:
    """Forget whom this server followed, and take writes."""
    return ["RESET SLAVE ALL", "SET GLOBAL read_only = 0"]


def follow_statements(cluster: Cluster, upstream: Node, password: str) -> list[str]:
    """Follow a server from what this one has, what it committed itself included."""
    link = {"HOST": f"'{upstream.host}'", "PORT": upstream.storage_port,
            "USER": f"'{names.REPLICATION_USER}'", "PASSWORD": f"'{password}'",
            "USE_GTID": "slave_pos", "CONNECT_RETRY": max(1, round(cluster.reconnect_delay)),
            "HEARTBEAT_PERIOD": f"{cluster.keep_alive_delay:g}"}
    return ["SET GLOBAL gtid_slave_pos = @@GLOBAL.gtid_current_pos",
            "CHANGE MASTER TO " + ", ".join(f"MASTER_{key} = {value}"
                                            for key, value in link.items()),
            "START SLAVE"]


def acknowledge(cluster: Cluster) -> str:
    """Tell an upstream of what was received, if commits are to wait for that."""
    wanted = _switch(names.settings(cluster).synchronous)
    return f"SET GLOBAL rpl_semi_sync_slave_enabled = {wanted}"


def wait_for_followers(cluster: Cluster) -> str:
    """Let commits wait for a follower if they are to; when none is there they would in vain."""
    wanted = _switch(names.settings(cluster).synchronous)
    return f"SET GLOBAL rpl_semi_sync_master_enabled = {wanted}"


def _switch(on: bool) -> str:
    return "ON" if on else "OFF"


def _users(cluster: Cluster, passwords: Mapping[str, str], lock: str) -> list[str]:
    own = names.settings(cluster)
    database = own.database.replace("_", r"\_")
    statements = []
    for user, password in passwords.items():
        statements += [f"CREATE USER IF NOT EXISTS '{user}'@'%'",
                       f"ALTER USER '{user}'@'%' IDENTIFIED BY '{password}'"]
    return [*statements,
            f"ALTER USER '{own.user}'@'%' ACCOUNT {lock}",
            f"GRANT ALL ON `{database}`.* TO '{own.user}'@'%'",
            f"GRANT PROCESS ON *.* TO '{own.user}'@'%'",  # the sizes of the database's files
            f"GRANT REPLICATION SLAVE ON *.* TO '{names.REPLICATION_USER}'@'%'",
            f"GRANT PROCESS, BINLOG MONITOR, SLAVE MONITOR ON *.* TO '{names.MONITOR_USER}'@'%'",
            f"GRANT SELECT ON `{database}`.* TO '{names.MONITOR_USER}'@'%'",
            f"GRANT SELECT ON {names.OWN_DATABASE}.* TO '{names.MONITOR_USER}'@'%'"]


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
