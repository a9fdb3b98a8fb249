"""State of a MariaDB server and of its replication, for the monitor."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator

from indico_zodbrepl.backends.acknowledging import answer as acknowledged_commits
from indico_zodbrepl.backends.acknowledging import shown_in
from indico_zodbrepl.backends.mariadb import config
from indico_zodbrepl.backends.mariadb.sql import (
    NOT_ALLOWED,
    NOT_THERE,
    RefusedStatement,
    Row,
    Session,
    at_socket,
    session,
)
from indico_zodbrepl.cluster import Address, Cluster, Node, Role
from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.probing.answers import (
    Acknowledging,
    AckState,
    Alert,
    Fact,
    Hold,
    Level,
    Replication,
    ServerAnswer,
    ServerRole,
)
from indico_zodbrepl.probing.reading import clean
from indico_zodbrepl.probing.wire import FailureKind, ProbeError

YES = "Yes"
# The primary's logs do not hold what the follower requests.
LOGS_DO_NOT_MATCH = 1236


_VARIABLES = (
    "version",
    "read_only",
    "gtid_binlog_pos",
    "gtid_slave_pos",
    "rpl_semi_sync_master_enabled",
    "rpl_semi_sync_slave_enabled",
    "rpl_semi_sync_master_timeout",
)


def answer(cluster: Cluster, node: Node, said: Findings) -> ServerAnswer:
    """Return the monitor's answer for a server's report."""
    own = said.own
    read_only = bool(said.variables["read_only"])
    if own is None and node.managed:
        replication = None
    else:
        acknowledging = None if read_only else _acknowledging(cluster, said)
        refuses = acknowledging and acknowledging.state in (AckState.REFUSING, AckState.ASKING)
        held = Hold.SYNCHRONOUS if refuses else None
        replication = Replication(
            cluster=own["cluster"] if own else cluster.name,
            node=own["node"] if own else node.name,
            role=_role(node, said, read_only=read_only),
            epoch=int(own["epoch"]) if own else None,
            upstream=_upstream(said),
            connected=_connected(said),
            followers=said.followers,
            pid=0,
            size=said.size,
            read_only=read_only,
            held=held,
            acknowledging=acknowledging,
        )
    return ServerAnswer(
        said.last_tid,
        said.clients,
        replication,
        tuple(_facts(said)),
        tuple(_problems(cluster, node, said)),
    )


def _acknowledging(cluster: Cluster, said: Findings) -> Acknowledging:
    clients = int(said.semi_sync.get("rpl_semi_sync_master_clients", "0"))
    works = said.semi_sync.get("rpl_semi_sync_master_status") == "ON"
    names = said.confirming[: clients if works else 0]
    position = _shown(said.variables["gtid_binlog_pos"])
    waiting = int(said.semi_sync.get("rpl_semi_sync_master_wait_sessions", "0"))
    return acknowledged_commits(
        cluster.synchronous, said.commits, dict.fromkeys(names, position), waiting
    )


def _role(node: Node, said: Findings, *, read_only: bool) -> ServerRole:
    """Return the role: a server that accepts writes is a primary, whatever its assignment."""
    if not read_only:
        return ServerRole.PRIMARY
    if said.upstream is not None:
        return ServerRole.SECONDARY
    told = Role(said.own["role"]) if said.own else node.role
    return ServerRole.PRIMARY if told is Role.PRIMARY else ServerRole.SECONDARY


def _upstream(said: Findings) -> str | None:
    return None if said.upstream is None else clean(str(upstream_of(said.upstream)))


def upstream_of(status: Row) -> Address:
    """Return the address that a replica follows, from its row of SHOW ALL SLAVES STATUS."""
    return Address(str(status["Master_Host"]), int(status["Master_Port"]))


def _connected(said: Findings) -> bool | None:
    """Return True if both threads run; each can stop alone."""
    if said.upstream is None:
        return None
    return {said.upstream["Slave_IO_Running"], said.upstream["Slave_SQL_Running"]} == {YES}


def _facts(said: Findings) -> Iterator[Fact]:
    yield Fact("server", clean(str(said.variables["version"])))
    yield Fact("GTID of own log", _shown(said.variables["gtid_binlog_pos"]))
    if said.upstream is not None:
        behind = said.upstream["Seconds_Behind_Master"]
        yield Fact(
            "IO thread",
            f"{said.upstream['Slave_IO_Running']}: {_shown(said.upstream['Slave_IO_State'])}",
        )
        yield Fact(
            "SQL thread",
            f"{said.upstream['Slave_SQL_Running']}: "
            f"{_shown(said.upstream['Slave_SQL_Running_State'])}",
        )
        yield Fact("GTID received", _shown(said.upstream["Gtid_IO_Pos"]))
        yield Fact("GTID applied", _shown(said.variables["gtid_slave_pos"]))
        yield Fact("seconds behind", "not known" if behind is None else str(behind))
        for thread in ("IO", "SQL"):
            if said.upstream[f"Last_{thread}_Errno"]:
                yield Fact(f"last {thread} error", clean(said.upstream[f"Last_{thread}_Error"]))
    yield Fact("semi-synchronous", _semi_sync(said))


def _semi_sync(said: Findings) -> str:
    if said.upstream is not None:
        return said.semi_sync.get("rpl_semi_sync_slave_status", "OFF")
    if not said.variables["rpl_semi_sync_master_enabled"]:
        return "OFF"
    acknowledging = said.semi_sync.get("rpl_semi_sync_master_clients", "0")
    return (
        f"{said.semi_sync.get('rpl_semi_sync_master_status', 'OFF')}, followers that "
        f"acknowledge: {acknowledging}, commits that went on without: "
        f"{said.semi_sync.get('rpl_semi_sync_master_no_tx', '0')}"
    )


def _problems(cluster: Cluster, node: Node, said: Findings) -> Iterator[Alert]:
    if said.upstream is not None:
        yield from _stopped(cluster, node, said.upstream)
    elif said.variables["read_only"] and _role(node, said, read_only=True) is ServerRole.SECONDARY:
        yield Alert(
            Level.CRITICAL,
            node.name,
            f"node {node.name} follows nobody: it has no copy of the database",
            "It gets one, and follows, as soon as it has been copied from the primary.",
            f"`{Commands.here(cluster).zodbrepl('up')}`",
        )
    yield from _not_waiting(cluster, node, said)
    if said.denied:
        user = config.settings_of(cluster).user
        yield Alert(
            Level.NOTICE,
            node.name,
            f"node {node.name} does not tell everything",
            f"User {user} may not see: {', '.join(said.denied)}.",
            f"as its administrator: `GRANT SLAVE MONITOR, PROCESS ON *.* TO '{user}'@'%'`",
        )


def _stopped(cluster: Cluster, node: Node, upstream: dict[str, object]) -> Iterator[Alert]:
    receiving = upstream["Slave_IO_Running"] == YES
    applying = upstream["Slave_SQL_Running"] == YES
    if upstream["Last_IO_Errno"] == LOGS_DO_NOT_MATCH:
        yield Alert(
            Level.CRITICAL,
            node.name,
            f"node {node.name} needs to be cloned",
            f"Its upstream can't continue where it is: {clean(str(upstream['Last_IO_Error']))}",
            keep_and_copy(cluster, node),
        )
    elif applying and upstream["Slave_IO_Running"] == "No":
        yield Alert(
            Level.CRITICAL,
            node.name,
            f"node {node.name} applies what it has, but receives nothing",
            _evidence(upstream, "IO"),
            "`START SLAVE IO_THREAD` on its server",
        )
    if not applying:
        state = "it goes on receiving" if receiving else "it does not receive either"
        yield Alert(
            Level.CRITICAL,
            node.name,
            f"node {node.name} applies no transactions, and {state}",
            _evidence(upstream, "SQL"),
            "`START SLAVE SQL_THREAD` on its server",
        )


def keep_and_copy(cluster: Cluster, node: Node) -> str:
    """Return how to copy the database to a node again and keep its own data."""
    return (
        "what only it has is exported, its data are kept, and it copies its upstream's: "
        f"`{Commands.here(cluster).zodbrepl('rejoin', node.name)}`"
    )


def _evidence(upstream: dict[str, object], thread: str) -> str:
    error = clean(str(upstream[f"Last_{thread}_Error"]))
    return error or f"Its {thread} thread was stopped without an error."


def _not_waiting(cluster: Cluster, node: Node, said: Findings) -> Iterator[Alert]:
    if said.variables["read_only"] or not (cluster.synchronous.count and len(cluster.nodes) > 1):
        return
    shown = shown_in(said.commits)
    if shown is None:
        yield from _not_waiting_by_itself(cluster, node, said)
    elif shown.state is AckState.ALONE:
        yield Alert(
            Level.WARNING,
            node.name,
            f"commits on node {node.name} wait for no follower",
            f"None acknowledged one within {shown.timeout:g} s, so replication is asynchronous "
            "until one has caught up. What is committed meanwhile can be lost with this node.",
            "see why the followers don't follow",
        )


def _not_waiting_by_itself(cluster: Cluster, node: Node, said: Findings) -> Iterator[Alert]:
    """Report about a server whose commits no process of ours keeps."""
    if not said.variables["rpl_semi_sync_master_enabled"]:
        yield Alert(
            Level.WARNING,
            node.name,
            f"node {node.name} does not replicate semi-synchronously",
            "synchronous is set, but its server was started without it: "
            "rpl_semi_sync_master_enabled is OFF.",
            f"`{Commands.here(cluster).zodbrepl('restart', node.name)}`",
        )
    elif said.semi_sync.get("rpl_semi_sync_master_status") != "ON":
        seconds = int(said.variables["rpl_semi_sync_master_timeout"]) / 1000
        yield Alert(
            Level.WARNING,
            node.name,
            f"commits on node {node.name} wait for no follower",
            f"None acknowledged one within {seconds:g} s, so replication is asynchronous until "
            "one has caught up. What is committed meanwhile can be lost with this node.",
            "see why the followers don't follow",
        )


def _shown(value: object) -> str:
    return clean(str(value)) if value else "none"


@dataclasses.dataclass(frozen=True)
class Findings:
    """A server's report; None for values that it lacks or that this user may not see.

    Attributes:
        variables: its global variables.
        upstream: its row of SHOW ALL SLAVES STATUS.
        semi_sync: its status variables of semi-synchronous replication.
        own: cluster, node, role and epoch with which it was started or promoted.
        followers: addresses from which others follow.
        clients: connections to the database, this one not counted.
        last_tid: 0 if there is no transaction.
        size: bytes of the database's files.
        denied: what this user may not see.
        commits: the text by which it shows the state of its acknowledged commits; may be empty.
        confirming: names of the nodes that follow it.
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
    commits: str = ""
    confirming: tuple[str, ...] = ()


def asking_user(cluster: Cluster, node: Node) -> str:
    """Return the user for queries: ours, or Indico's on a server managed elsewhere."""
    return config.MONITOR_USER if node.managed else config.settings_of(cluster).user


def ask(cluster: Cluster, node: Node, deadline: float) -> Findings:
    """Query a server's whole state.  Raises ProbeError."""
    denied: list[str] = []
    with session(cluster, node, asking_user(cluster, node), deadline) as server:
        variables = server.row(
            "SELECT " + ", ".join(f"@@GLOBAL.{name} AS {name}" for name in _VARIABLES)
        )

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
            "WHERE id <> CONNECTION_ID()"
        )
        sizes = allowed("PROCESS", lambda: [{"size": size_of(cluster, server)}])
        own = allowed(
            "",
            lambda: server.rows(
                f"SELECT cluster, node, role, epoch FROM {config.OWN_DATABASE}.node"  # noqa: S608
            ),
        )
        shown = allowed(
            "",
            lambda: server.rows(f"SELECT state FROM {config.OWN_DATABASE}.commits"),  # noqa: S608
        )
        hosts = allowed("", lambda: server.rows("SHOW SLAVE HOSTS"))
        last = allowed(
            f"SELECT on {config.settings_of(cluster).database}",
            lambda: [last_transaction(cluster, server)],
        )
        status = {
            row["Variable_name"].lower(): row["Value"]
            for row in server.rows("SHOW GLOBAL STATUS LIKE 'rpl_semi_sync_%'")
        }
    return Findings(
        variables,
        upstreams[0] if upstreams else None,
        status,
        own[0] if own else None,
        tuple(row["host"] for row in connections if row["command"] == "Binlog Dump"),
        sum(row["db"] == config.settings_of(cluster).database for row in connections),
        int(last[0]["tid"] or 0) if last else 0,
        sizes[0]["size"] if sizes else 0,
        tuple(what for what in denied if what),
        shown[0]["state"] if shown else "",
        tuple(
            each.name
            for each in cluster.nodes
            if config.server_id(cluster, each) in {int(row["Server_id"]) for row in hosts}
        ),
    )


def size_of(cluster: Cluster, server: Session) -> int:
    """Return the bytes of the database's files; table statistics are stale.  Raises ProbeError."""
    found = server.row(
        "SELECT SUM(file_size) AS size FROM "
        "information_schema.innodb_sys_tablespaces "
        "WHERE SUBSTRING_INDEX(name, '/', 1) = BINARY %s",
        config.settings_of(cluster).database,
    )
    return int(found["size"] or 0)


def last_transaction(cluster: Cluster, server: Session) -> Row:
    """Return the last ``tid`` of the database, None without one.  Raises ProbeError."""
    return server.row(f"SELECT MAX(tid) AS tid FROM {transactions(cluster)}")  # noqa: S608


def transactions(cluster: Cluster) -> str:
    """Return the table of transactions; without history that of the current revisions."""
    own = config.settings_of(cluster)
    table = "transaction" if own.keep_history else "object_state"
    return f"`{own.database}`.`{table}`"


def waits_for_room(node: Node, deadline: float) -> bool:
    """Return True if a server waits for room; see ``NativeReplication.waits_for_room``.

    The thread that waits holds a lock of the binary log or of the received one, which one of these
    statements needs.
    """
    try:
        with at_socket(config.server_socket(node), deadline) as server:
            server.rows("SHOW MASTER STATUS")
            server.rows("SHOW SLAVE STATUS")
    except ProbeError as error:
        return error.kind is FailureKind.SILENT
    except OSError:
        return False  # it does not run
    return False
