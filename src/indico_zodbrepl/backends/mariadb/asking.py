"""What a server says of itself: the questions; ``reading`` makes the answer of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from ...cluster import Cluster, Node
from . import names
from .sessions import NOT_ALLOWED, NOT_THERE, RefusedStatement, Row, Session, session

_VARIABLES = ("version", "read_only", "gtid_binlog_pos", "gtid_slave_pos",
              "rpl_semi_sync_master_enabled", "rpl_semi_sync_slave_enabled",
              "rpl_semi_sync_master_timeout")


@dataclasses.dataclass(frozen=True)
class Findings:
    """What a server said; None stands for what it has not, or may not tell this user.

    Attributes:
        variables: its global variables.
        upstream: its row of SHOW ALL SLAVES STATUS.
        semi_sync: its status variables of semi-synchronous replication.
        own: cluster, node, role and epoch that it was started or promoted with.
        followers: addresses from which others follow.
        clients: connections to the database, this one not counted.
        last_tid: 0 when there is no transaction.
        size: bytes of the database's files.
        denied: what this user may not see.
    """

    variables: Row
    upstream: Row | None
    semi_sync: dict[str, str]
    own: Row | None
    followers: tuple[str, ...]
    clients: int
    last_tid: int
    size: int
    denied: tuple[str, ...] = ()


def asking_user(cluster: Cluster, node: Node) -> str:
    """As whom a server is asked: one of our own, or Indico's where it is somebody else's."""
    return names.MONITOR_USER if node.managed else names.settings(cluster).user


def ask(cluster: Cluster, node: Node, deadline: float) -> Findings:
    """Ask a server for everything.  Raises ProbeError."""
    denied: list[str] = []
    with session(cluster, node, asking_user(cluster, node), deadline) as server:
        variables = server.row("SELECT " + ", ".join(
            f"@@GLOBAL.{name} AS {name}" for name in _VARIABLES))

        def allowed(what: str, question: Callable[[], list[Row]]) -> list[Row]:
            try:
                return question()
            except RefusedStatement as error:
                if error.number in NOT_ALLOWED:
                    denied.append(what)
                elif error.number not in NOT_THERE:
                    raise
                return []

        upstreams = allowed("SLAVE MONITOR", lambda: server.rows("SHOW ALL SLAVES STATUS"))
        connections = server.rows(
            "SELECT host, db, command FROM information_schema.processlist "
            "WHERE id <> CONNECTION_ID()")
        sizes = allowed("PROCESS", lambda: [{"size": size_of(cluster, server)}])
        own = allowed("", lambda: server.rows(
            f"SELECT cluster, node, role, epoch FROM {names.OWN_DATABASE}.node"))  # noqa: S608
        last = allowed(f"SELECT on {names.settings(cluster).database}",
                       lambda: [last_transaction(cluster, server)])
        status = {row["Variable_name"].lower(): row["Value"]
                  for row in server.rows("SHOW GLOBAL STATUS LIKE 'rpl_semi_sync_%'")}
    return Findings(
        variables, upstreams[0] if upstreams else None, status, own[0] if own else None,
        tuple(row["host"] for row in connections if row["command"] == "Binlog Dump"),
        sum(row["db"] == names.settings(cluster).database for row in connections),
        int(last[0]["tid"] or 0) if last else 0,
        sizes[0]["size"] if sizes else 0,
        tuple(what for what in denied if what))


def size_of(cluster: Cluster, server: Session) -> int:
    """Bytes of the database's files; the tables' own statistics are stale.  Raises ProbeError."""
    found = server.row("SELECT SUM(file_size) AS size FROM "
                       "information_schema.innodb_sys_tablespaces "
                       "WHERE SUBSTRING_INDEX(name, '/', 1) = BINARY %s",
                       names.settings(cluster).database)
    return int(found["size"] or 0)


def last_transaction(cluster: Cluster, server: Session) -> Row:
    """The last ``tid`` of the database, None when there is none.  Raises ProbeError."""
    return server.row(f"SELECT MAX(tid) AS tid FROM {transactions(cluster)}")  # noqa: S608


def transactions(cluster: Cluster) -> str:
    """The table that tells transactions; without history only those of objects' last states."""
    own = names.settings(cluster)
    table = "transaction" if own.keep_history else "object_state"
    return f"`{own.database}`.`{table}`"
