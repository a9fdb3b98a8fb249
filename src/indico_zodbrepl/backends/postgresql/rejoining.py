"""A node that was the primary and is to follow another one: what only it has, rewind, new copy."""

from __future__ import annotations

import re
import shlex
import time

from ...cluster import Cluster, Node
from ...cluster.commands import Commands
from ...errors import ExitCode, OperatorError
from ...probing import tid
from ...probing.wire import ProbeError
from . import data, names, sql, tools
from .configuration import REPLICATION_PASSFILE
from .identity import identity

CHECKPOINT_SECONDS = 120.0
ANSWER_SECONDS = 30.0
# Transactions that are compared at a time, the newest first.
CHUNK = 1000
MOST_LISTED = 5
# What pg_rewind says when one history is the beginning of the other.
NOTHING_TO_DO = "no rewind required"


def rejoin(cluster: Cluster, node: Node, upstream: Node) -> list[str]:
    """Make an ended server's data follow another server, if nothing is lost by that.

    Returns what was done, a line each.

    Raises:
        OperatorError: exit 8, the node has transactions that the upstream lacks; nothing was
            changed; or the rewind failed.  Exit 7, the upstream does not answer.
    """
    if is_contained(cluster, node, upstream):
        data.let_follow(cluster, node)
        return [f"its history is a part of that of node {upstream.name}"]
    lost = only_here(cluster, node, upstream)
    if lost:
        listed = ", ".join(tid.render(each) for each in lost[:MOST_LISTED])
        more = f" and {len(lost) - MOST_LISTED} more" if len(lost) > MOST_LISTED else ""
        raise OperatorError(
            f"node {node.name} refuses to follow node {upstream.name}: its history diverged from "
            f"that of node {upstream.name}",
            f"{len(lost)} transaction{'s' * (len(lost) > 1)} only on node {node.name}: "
            f"{listed}{more}",
            "export that and keep its data, then let it copy that of node "
            f"{upstream.name}: {Commands.here(cluster).zodbrepl('rejoin', node.name)}",
            ExitCode.REFUSED)
    rewind(cluster, node, upstream)
    return [f"rewound to the history of node {upstream.name}, which has every transaction of it"]


def is_contained(cluster: Cluster, node: Node, upstream: Node) -> bool:
    """Whether an ended server's history is a part of another server's, by both logs.

    False also for one that was killed: what its log holds is not known before a recovery.
    Raises OperatorError as ``prepare_rewind``, and when the data can't be read.
    """
    data.wait_for(cluster, upstream)
    prepare_rewind(cluster, node, upstream)
    return (tools.control_data(cluster, node)["Database cluster state"] == "shut down"
            and NOTHING_TO_DO in _rewind(cluster, node, upstream, "--dry-run"))


def only_here(cluster: Cluster, node: Node, upstream: Node) -> list[int]:
    """The transactions of an ended server's data that another server lacks, the newest first.

    Those down to the newest that both have.  Without history an object that was stored again
    hides the transaction before, so more may be named than is lost, never less.  The data is
    recovered first, if its server was killed.

    Raises OperatorError when either can't be asked.
    """
    settings, who = names.settings(cluster), identity()
    folder = names.data_folder(node)
    found = tools.of_data(cluster, folder)
    table = "transaction" if settings.keep_history else "object_state"
    lost: list[int] = []
    bound = 1 << 62
    while True:
        output = tools.single_user(
            who, found, folder, settings.database,
            f"SELECT DISTINCT tid FROM {table} WHERE tid < {bound:d} "  # noqa: S608
            f"ORDER BY tid DESC LIMIT {CHUNK}")
        own = [int(number) for number in re.findall(r'\btid = "(\d+)"', output)]
        if not own:
            return lost
        known = _known(cluster, upstream, table, own)
        for each in own:
            if each in known:
                return lost
            lost.append(each)
        bound = own[-1]


def prepare_rewind(cluster: Cluster, node: Node, upstream: Node) -> None:
    """Make ready what the comparison of two histories needs.  Raises OperatorError."""
    # What was promoted a moment ago says by its last checkpoint still that it is of the old
    # timeline; the rewind would find nothing to do.
    sql.command(cluster, upstream, time.monotonic() + CHECKPOINT_SECONDS, "CHECKPOINT")
    data.ensure_slot(cluster, upstream, node)
    data.write_replication_passfile(cluster, names.data_folder(node))


def rewind(cluster: Cluster, node: Node, upstream: Node) -> None:
    """Give an ended server's data the history of another server, from where they parted.

    After ``prepare_rewind``.  Raises OperatorError (exit 8): PostgreSQL can't, and the node needs
    a new copy.
    """
    try:
        _rewind(cluster, node, upstream)
    except OperatorError as error:
        raise OperatorError(
            f"node {node.name} can't be rewound to the history of node {upstream.name}",
            error.detail or error.notice,
            f"keep its data aside, and let it copy that of node {upstream.name}: "
            f"{new_copy(cluster, node)}", ExitCode.REFUSED) from error
    data.let_follow(cluster, node)


def _rewind(cluster: Cluster, node: Node, upstream: Node, *more: str) -> str:
    folder = names.data_folder(node)
    source = (f"host={upstream.host} port={upstream.storage_port} user={names.REPLICATION_USER} "
              f"dbname={names.MAINTENANCE_DATABASE} passfile='{{data}}/{REPLICATION_PASSFILE}'")
    return tools.run(identity(), tools.of_data(cluster, folder), "pg_rewind", folder,
                     "--target-pgdata={data}", f"--source-server={source}", *more)


def new_copy(cluster: Cluster, node: Node) -> str:
    """The command that has an ended node copy its upstream's data and keeps what it has."""
    commands, folder = Commands.here(cluster), names.data_folder(node)
    aside = folder.with_name(f"{folder.name}.lost")
    move = shlex.join(["mv", "-T", commands.path(folder), commands.path(aside)])
    return f"{move} && {commands.zodbrepl('node', 'start', node.name)}"


def _known(cluster: Cluster, upstream: Node, table: str, tids: list[int]) -> set[int]:
    settings = names.settings(cluster)
    listed = ",".join(str(each) for each in tids)
    try:
        (rows,) = sql.query(
            sql.conninfo(cluster, upstream, settings.user, settings.database),
            time.monotonic() + ANSWER_SECONDS,
            f"SELECT DISTINCT tid FROM {table} WHERE tid IN ({listed})")  # noqa: S608
    except ProbeError as error:
        raise OperatorError(f"node {upstream.name} can't be asked which transactions it has",
                            error.detail, exit_code=ExitCode.TIMED_OUT) from error
    return {int(row[0]) for row in rows if row[0]}
