"""Changes of role: a standby that becomes the primary, a started node that takes its place."""

from __future__ import annotations

import time

from ...cluster import Cluster, Node, NodeState, Role
from ...cluster.files import write_all
from ...errors import ExitCode, OperatorError
from ...probing.wire import ProbeError
from ..relstorage import turn_clients
from . import configuration, data, founding, names, sql, tools

ANSWER_SECONDS = 5.0
POLL_SECONDS = 0.05


def promote(cluster: Cluster, state: NodeState, deadline: float) -> list[str]:
    """Have a node's running server take writes, in its epoch, and turn the clients to it.

    Waits until it answers.  A server that takes writes already stays as it is.  The links of
    other nodes that answer are settled.

    Raises:
        OperatorError: exit 7, it did not take writes in time; exit 1, it refuses.
    """
    node = cluster.node(state.node)
    data.wait_for(cluster, node, deadline - time.monotonic())
    seconds = max(1, int(deadline - time.monotonic()))
    _configure(cluster, state)
    if _is_recovering(cluster, node, deadline):
        _end_recovery(cluster, node, deadline, seconds)
    else:
        sql.command(cluster, node, deadline, "SELECT pg_reload_conf()")
    turn_clients(cluster, node, names.replica_conf(cluster))
    founding.settle_links(cluster, node)
    return []


def _is_recovering(cluster: Cluster, node: Node, deadline: float) -> bool:
    return sql.command(cluster, node, deadline, "SELECT pg_is_in_recovery()")[0][0][0] == "t"


def _end_recovery(cluster: Cluster, node: Node, deadline: float, seconds: int) -> None:
    """Promote a standby, unless somebody else just did: who starts a primary settles it, too."""
    try:
        # In one session: the upstream's address has just gone, so nothing comes in any more.
        _, ((done,),) = sql.command(cluster, node, deadline, "SELECT pg_reload_conf()",
                                    f"SELECT pg_promote(true, {seconds})")
    except OperatorError as error:
        if error.exit_code is ExitCode.FAILED and not _is_recovering(cluster, node, deadline):
            return
        raise
    if done != "t":
        raise OperatorError(f"node {node.name} did not become the primary in time",
                            f"pg_promote waited for {seconds} s", exit_code=ExitCode.TIMED_OUT)


def settle(cluster: Cluster, state: NodeState, deadline: float) -> None:
    """See ``Engine.settle``: a primary is promoted, if it is not yet; a standby gets its slot.

    Both answer afterwards.  Raises OperatorError as ``promote``, or (exit 7) when the node does
    not answer, or when its upstream refuses; an upstream that does not answer is left for later.
    """
    if state.role is Role.PRIMARY:
        promote(cluster, state, deadline)
        return
    node, upstream = cluster.node(state.node), cluster.node(state.upstream or "")
    limit = min(deadline, time.monotonic() + ANSWER_SECONDS)
    try:
        sql.query(sql.conninfo(cluster, upstream, names.SUPERUSER, names.MAINTENANCE_DATABASE),
                  limit, "SELECT 1")
    except ProbeError:
        return  # its own probe reports that it does not answer
    data.ensure_slot(cluster, upstream, node)
    data.wait_for(cluster, node, deadline - time.monotonic())
    founding.drop_slots(cluster, node)


def prove(cluster: Cluster, node: Node, primary: Node, deadline: float) -> str:
    """See ``Engine.prove``: by the last record of a primary's log, that of its end."""
    try:
        facts = tools.control_data(cluster, primary)
    except OSError as error:
        raise OperatorError(f"what node {primary.name} had can't be told",
                            f"{names.data_folder(primary)}: {error.strerror}",
                            exit_code=ExitCode.REFUSED) from error
    ended = facts["Database cluster state"]
    if ended != "shut down":
        raise OperatorError(f"node {primary.name} did not end in order",
                            f"pg_controldata says: {ended}; what it had can't be told by its last "
                            "record", exit_code=ExitCode.REFUSED)
    last = facts["Latest checkpoint location"]
    own = sql.conninfo(cluster, node, names.settings(cluster).user,
                       names.settings(cluster).database)
    while True:
        try:
            ((replayed, enough),) = sql.query(
                own, deadline, f"SELECT pg_last_wal_replay_lsn(), pg_last_wal_replay_lsn() > "
                f"{sql.literal(last)}::pg_lsn")[0]
        except ProbeError as error:
            raise OperatorError(f"node {node.name} can't be asked what it has", error.detail,
                                exit_code=ExitCode.TIMED_OUT) from error
        if enough == "t":
            return (f"node {node.name} has replayed the log up to {replayed}, beyond the record "
                    f"at {last} with which node {primary.name} ended")
        if time.monotonic() + POLL_SECONDS > deadline:
            raise OperatorError(f"node {node.name} lacks what node {primary.name} had",
                                f"it has replayed the log up to {replayed}, not {last}",
                                exit_code=ExitCode.REFUSED)
        time.sleep(POLL_SECONDS)


def _configure(cluster: Cluster, state: NodeState) -> None:
    try:
        write_all(configuration.server_files(cluster, state))
    except OSError as error:
        raise OperatorError(f"the configuration of node {state.node} can't be written",
                            f"{error.filename}: {error.strerror}") from error
