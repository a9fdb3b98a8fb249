"""Changes of role: promotion of a standby, and what it follows."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

from indico_zodbrepl.backends.postgresql import config, data, founding, programs, sql
from indico_zodbrepl.backends.postgresql.commits import JOINED
from indico_zodbrepl.backends.relstorage import turn_clients
from indico_zodbrepl.cluster import Cluster, Node, NodeState, Role
from indico_zodbrepl.cluster.files import write_all
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.probing.waiting import wait_until
from indico_zodbrepl.probing.wire import ProbeError

ANSWER_SECONDS = 5.0
POLL_SECONDS = 0.05
PROMOTED_POLL_SECONDS = 0.01


def promote(cluster: Cluster, state: NodeState, deadline: float) -> list[str]:
    """Make a node's running server accept writes in its epoch; redirect the clients to it.

    Waits until it answers.  A server that already accepts writes stays as it is.  It keeps the WAL
    for the other nodes from now on; none of them has to answer, because some may be lost.

    Raises:
        OperatorError: exit 7, it did not accept writes in time; exit 1, it refuses.
    """
    try:
        _accept_writes(cluster, state, deadline)
    except OperatorError:  # it may be starting
        data.wait_for(cluster, cluster.node(state.node), deadline - time.monotonic())
        _accept_writes(cluster, state, deadline)
    return []


def _accept_writes(cluster: Cluster, state: NodeState, deadline: float) -> None:
    node = cluster.node(state.node)
    _configure(cluster, state)
    with sql.administration(cluster, node, deadline) as run:
        run("SELECT pg_reload_conf()")
        # Before the promotion, whose checkpoint removes log that rewound nodes need.
        for statement in data.slot_statements(*founding.others_of(cluster, node)):
            run(statement)
        if _is_recovering(run):
            # The upstream's address has just gone, so nothing comes in any more.
            _end_recovery(node, run, deadline)
        turn_clients(cluster, node)


def _is_recovering(run: sql.Run) -> bool:
    return run("SELECT pg_is_in_recovery()")[0][0] == "t"


def _end_recovery(node: Node, run: sql.Run, deadline: float) -> None:
    """Promote a standby, unless another process just did: the start of a primary does it too.

    ``pg_promote`` itself looks ten times a second only whether that is done.
    """
    try:
        run("SELECT pg_promote(false)")
    except ProbeError:
        if _is_recovering(run):
            raise
    if not wait_until(lambda: not _is_recovering(run), deadline, PROMOTED_POLL_SECONDS):
        raise OperatorError(
            f"node {node.name} did not become the primary in time",
            "it was ordered to, and still recovers",
            exit_code=ExitCode.TIMED_OUT,
        )


def settle(cluster: Cluster, state: NodeState, deadline: float) -> None:
    """Promote a primary if needed; give a standby its slot; see ``IBackend.settle``.

    Both answer afterwards.  Raises OperatorError as ``promote``, or (exit 7) if the node does not
    answer or its upstream refuses; an upstream that does not answer is skipped.
    """
    if state.role is Role.PRIMARY:
        promote(cluster, state, deadline)
        return
    node, upstream = cluster.node(state.node), cluster.node(state.upstream or "")
    limit = min(deadline, time.monotonic() + ANSWER_SECONDS)
    try:
        sql.query(
            sql.conninfo(cluster, upstream, config.SUPERUSER, config.MAINTENANCE_DATABASE),
            limit,
            "SELECT 1",
        )
    except ProbeError:
        return  # its own probe reports that it does not answer
    data.ensure_slot(cluster, upstream, node)
    data.wait_for(cluster, node, deadline - time.monotonic())
    founding.drop_slots(cluster, node)


def log_end(cluster: Cluster, node: Node) -> str:
    """Return the position of the record of a clean shutdown, the last one in the log."""
    try:
        facts = programs.control_data(cluster, node)
    except OSError as error:
        raise OperatorError(
            f"the last transaction of node {node.name} is unknown",
            f"{config.data_folder(node)}: {error.strerror}",
            exit_code=ExitCode.REFUSED,
        ) from error
    ended = facts["Database cluster state"]
    if ended != "shut down":
        raise OperatorError(
            f"node {node.name} did not shut down cleanly",
            f"pg_controldata says: {ended}; its last record does not show what it had",
            exit_code=ExitCode.REFUSED,
        )
    return facts["Latest checkpoint location"]


def prove(cluster: Cluster, node: Node, primary: Node, last: str, deadline: float) -> str:
    """Wait until a standby has replayed a position; see ``NativeReplication.prove``."""
    own = sql.conninfo(
        cluster, node, config.settings_of(cluster).user, config.settings_of(cluster).database
    )
    replayed: str | None = None

    def has_it() -> bool:
        nonlocal replayed
        try:
            ((replayed, enough),) = sql.query(
                own,
                deadline,
                f"SELECT pg_last_wal_replay_lsn(), pg_last_wal_replay_lsn() > "
                f"{sql.literal(last)}::pg_lsn",
            )[0]
        except ProbeError as error:
            raise OperatorError(
                f"node {node.name} can't be asked what it has",
                error.detail,
                exit_code=ExitCode.TIMED_OUT,
            ) from error
        return bool(enough == "t")

    if wait_until(has_it, deadline - POLL_SECONDS, POLL_SECONDS):
        return (
            f"node {node.name} has replayed the log up to {replayed}, beyond the record "
            f"at {last} with which node {primary.name} ended"
        )
    raise OperatorError(
        f"node {node.name} lacks what node {primary.name} had",
        f"it has replayed the log up to {replayed}, not {last}",
        exit_code=ExitCode.REFUSED,
    )


def detach(cluster: Cluster, node: Node, deadline: float) -> int:
    """Let a standby leave its upstream; see ``NativeReplication.detach``.

    What it has received is on its disk, because its WAL receiver writes it there as it ends.  A
    server that has just started answers before it has replayed its own log.  Its position is final
    when it waits for more, or once it has received something since: only then does it receive.
    """
    position = ""
    with sql.administration(cluster, node, deadline) as run:
        if not _is_recovering(run):
            raise _no_standby(node)
        with _writing(node):
            write_all({config.data_folder(node) / config.DETACHED_CONF: "primary_conninfo = ''\n"})
        run("SELECT pg_reload_conf()")

        def is_final() -> bool:
            nonlocal position
            ((receives, exhausted, position_now),) = run(_RECEIVED)
            same, position = position == position_now, position_now or ""
            return receives == "0" and exhausted == "t" and same

        done = wait_until(is_final, deadline - POLL_SECONDS, POLL_SECONDS)
    if not done:
        raise OperatorError(
            f"node {node.name} did not leave its upstream in time",
            f"it has received up to {position}",
            exit_code=ExitCode.REFUSED,
        )
    return int(position)


def attach(cluster: Cluster, state: NodeState, deadline: float) -> None:
    """Let a detached standby follow again; see ``NativeReplication.attach``."""
    node = cluster.node(state.node)
    if (config.data_folder(node) / config.DETACHED_CONF).exists():
        _configure(cluster, state)
        # Also if the file was empty: an earlier call may have failed here.
        sql.command(cluster, node, deadline, "SELECT pg_reload_conf()")


def redirect(cluster: Cluster, state: NodeState, deadline: float) -> None:
    """Let a running standby follow another server; see ``NativeReplication.redirect``.

    Its own slots would keep WAL for nobody; the upstream makes one for it as it is promoted.
    """
    node = cluster.node(state.node)
    with sql.administration(cluster, node, deadline) as run:
        if not _is_recovering(run):
            raise _no_standby(node)
        _configure(cluster, state)
        run("SELECT pg_reload_conf()")
    founding.drop_slots(cluster, node)


def has_joined(cluster: Cluster, node: Node, upstream: Node, deadline: float) -> bool:
    """Return True if a primary streams to a standby; see ``NativeReplication.has_joined``.

    The standby can't tell: it says "streaming" before the primary has looked at its position.
    """
    (found,) = sql.command(
        cluster, upstream, deadline, _FOLLOWS.format(node=sql.literal(node.name))
    )
    return bool(found)


def _no_standby(node: Node) -> OperatorError:
    return OperatorError(
        f"node {node.name} is no standby",
        "its server accepts writes",
        exit_code=ExitCode.REFUSED,
    )


_FOLLOWS = f"""
SELECT 1 FROM pg_stat_replication
WHERE NOT pg_is_in_recovery() AND application_name = {{node}} AND {JOINED}
"""  # noqa: S608  # our own text

# If a standby receives, if it has come to the end of its own log since its start, and a number of
# the WAL position up to which it has received.
_RECEIVED = """
SELECT (SELECT count(*) FROM pg_stat_wal_receiver),
       pg_last_wal_receive_lsn() IS NOT NULL OR EXISTS (SELECT FROM pg_stat_activity
        WHERE backend_type = 'startup' AND wait_event = 'RecoveryRetrieveRetryInterval'),
       (greatest(pg_last_wal_receive_lsn(), pg_last_wal_replay_lsn()) - '0/0'::pg_lsn)::bigint
"""


def _configure(cluster: Cluster, state: NodeState) -> None:
    node = cluster.node(state.node)
    with _writing(node):
        write_all(config.server_files(cluster, state))
        write_all({config.data_folder(node) / config.DETACHED_CONF: ""})
        commits = config.data_folder(node) / config.COMMITS_CONF
        if not commits.exists():  # a release before this one has started the server
            write_all({commits: ""})


@contextlib.contextmanager
def _writing(node: Node) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise OperatorError(
            f"the configuration of node {node.name} can't be written",
            f"{error.filename or node.data_directory}: {error.strerror}",
        ) from error
