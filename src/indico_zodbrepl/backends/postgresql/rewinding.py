"""Rejoin of a former primary: its data are rewound to the history of another server."""

from __future__ import annotations

import dataclasses
import re
import time

from indico_zodbrepl.backends.postgresql import config, data, programs, sql
from indico_zodbrepl.backends.postgresql.config import REPLICATION_PASSFILE
from indico_zodbrepl.backends.postgresql.programs import identity
from indico_zodbrepl.cluster import Cluster, Node
from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.probing import tid
from indico_zodbrepl.probing.wire import ProbeError

CHECKPOINT_SECONDS = 120.0
READ_SECONDS = 30.0
# Number of transactions compared at a time, the newest first.
CHUNK = 1000
MOST_LISTED = 5
# In messages of pg_rewind that don't concern the data.
_LOST_CONNECTION = re.compile("connection|SSL SYSCALL|could not (send|receive)")
_OLDEST_SEGMENT = "SELECT min(substr(name, 9)) FROM pg_ls_waldir() WHERE name ~ '^[0-9A-F]{24}$'"
# pg_rewind's message if one history is the beginning of the other.
NOTHING_TO_DO = "no rewind required"
# Its message if a server has removed its log back to the last checkpoint that both have.
LACKS_LOG = "could not find previous WAL record"


@dataclasses.dataclass(frozen=True)
class Compared:
    """What both logs show of a stopped server's history and another's.

    Attributes:
        contained: the other one has everything.
        lacks_log: PostgreSQL can't rewind the server, because part of its log is gone.
    """

    contained: bool
    lacks_log: bool = False


def rejoin(cluster: Cluster, node: Node, upstream: Node) -> list[str]:
    """Make a stopped server's data follow another server, if nothing is lost.

    Returns what was done, a line each.

    Raises:
        OperatorError: exit 8, the node has transactions that the upstream lacks; nothing was
            changed; or the rewind failed.  Exit 7, the upstream does not answer.
    """
    if data.is_half_rewound(node):
        prepare_rewind(cluster, node, upstream)
    elif compared(cluster, node, upstream).contained:
        data.let_follow(cluster, node)
        return [f"its history is a part of that of node {upstream.name}"]
    else:
        _refuse_own_transactions(cluster, node, upstream)
    rewind(cluster, node, upstream)
    return [f"rewound to the history of node {upstream.name}, which has every transaction of it"]


def _refuse_own_transactions(cluster: Cluster, node: Node, upstream: Node) -> None:
    lost = only_here(cluster, node, upstream)
    if not lost:
        return
    listed = ", ".join(tid.render(each) for each in lost[:MOST_LISTED])
    more = f" and {len(lost) - MOST_LISTED} more" if len(lost) > MOST_LISTED else ""
    raise OperatorError(
        f"node {node.name} refuses to follow node {upstream.name}: its history diverged from "
        f"that of node {upstream.name}",
        f"{len(lost)} transaction{'s' * (len(lost) > 1)} only on node {node.name}: {listed}{more}",
        f"export that and keep its data, then let it copy that of node {upstream.name}: "
        f"{Commands.here(cluster).zodbrepl('rejoin', node.name)}",
        ExitCode.REFUSED,
    )


def compared(cluster: Cluster, node: Node, upstream: Node) -> Compared:
    """Compare a stopped server's log with that of another one.

    Of a killed server nothing is shown: the content of its log is unknown before a recovery.
    Raises OperatorError as ``prepare_rewind``, and if the data cannot be read.
    """
    prepare_rewind(cluster, node, upstream)
    if programs.control_data(cluster, node)["Database cluster state"] != "shut down":
        return Compared(contained=False)
    try:
        said = _rewind(cluster, node, upstream, "--dry-run")
    except OperatorError as error:
        if LACKS_LOG in error.detail:
            return Compared(contained=False, lacks_log=True)
        raise
    return Compared(contained=NOTHING_TO_DO in said)


def only_here(cluster: Cluster, node: Node, upstream: Node) -> list[int]:
    """Return a stopped server's divergent transactions, the newest first.

    They reach back to the newest common transaction.  Without history, an object that was stored
    again hides its earlier transaction, so more may be named than is lost, never less.  After a
    kill, the data are recovered first.

    Raises OperatorError if either server cannot be queried.
    """
    settings, who = config.settings_of(cluster), identity()
    folder = config.data_folder(node)
    found = programs.of_data(cluster, folder)
    table = "transaction" if settings.keep_history else "object_state"
    lost: list[int] = []
    bound = 1 << 62
    while True:
        output = programs.single_user(
            who,
            found,
            folder,
            settings.database,
            f"SELECT DISTINCT tid FROM {table} WHERE tid < {bound:d} "  # noqa: S608
            f"ORDER BY tid DESC LIMIT {CHUNK}",
        )
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
    """Wait for the upstream, and prepare the comparison of two histories.  Raises OperatorError."""
    data.wait_for(cluster, upstream)
    # The last checkpoint of a server that was promoted a moment ago still has the old timeline; the
    # rewind would find nothing to do.
    sql.command(cluster, upstream, time.monotonic() + CHECKPOINT_SECONDS, "CHECKPOINT")
    data.ensure_slot(cluster, upstream, node)
    data.write_replication_passfile(cluster, config.data_folder(node))


def rewind(cluster: Cluster, node: Node, upstream: Node) -> None:
    """Give a stopped server's data the history of another server, from where they diverged.

    Call it after ``prepare_rewind``.  If it is interrupted, call it again.

    Raises:
        OperatorError: exit 7, the connection was lost; exit 8, PostgreSQL can't do it, or the
            upstream has removed log that the data need: the node needs a new copy.
    """
    data.begin_rewind(node)
    try:
        _rewind(cluster, node, upstream)
        _require_log(cluster, node, upstream)
    except OperatorError as error:
        said = error.detail or error.notice
        if _LOST_CONNECTION.search(said):
            raise OperatorError(
                f"node {node.name} was not rewound to the history of node {upstream.name}: the "
                "connection was lost",
                said,
                f"{Commands.here(cluster).zodbrepl('node', 'start', node.name)} tries it again",
                ExitCode.TIMED_OUT,
            ) from error
        raise OperatorError(
            f"node {node.name} can't be rewound to the history of node {upstream.name}",
            said,
            f"keep its data aside, and let it copy that of node "
            f"{upstream.name}{data.on_its_host(node)}: "
            f"{data.new_copy(cluster, node)}",
            ExitCode.REFUSED,
        ) from error
    data.let_follow(cluster, node)
    data.end_rewind(node)


def _require_log(cluster: Cluster, node: Node, upstream: Node) -> None:
    """Require the log from which rewound data recover: with them, or on the upstream.

    pg_rewind keeps a node's own log from the record of the last common checkpoint on.  The recovery
    begins where that checkpoint began, which may be in an earlier segment.

    Raises OperatorError (exit 8), or as ``sql.command``.
    """
    needed = data.first_segment(node)
    if needed is None or (config.data_folder(node) / "pg_wal" / needed).exists():
        return
    until = time.monotonic() + READ_SECONDS
    # A name begins with the timeline, eight digits; the rest is the same on all timelines.
    oldest = sql.command(cluster, upstream, until, _OLDEST_SEGMENT)[0][0][0] or ""
    if oldest > needed[8:]:
        raise OperatorError(
            f"node {node.name} can't recover its rewound data",
            f"node {upstream.name} has removed the log that they need: it begins with segment "
            f"{needed}; the oldest of node {upstream.name} ends with {oldest}",
            exit_code=ExitCode.REFUSED,
        )


def _rewind(cluster: Cluster, node: Node, upstream: Node, *more: str) -> str:
    folder = config.data_folder(node)
    source = (
        f"host={upstream.host} port={upstream.storage_port} user={config.REPLICATION_USER} "
        f"dbname={config.MAINTENANCE_DATABASE} passfile='{{data}}/{REPLICATION_PASSFILE}'"
    )
    return programs.run(
        identity(),
        programs.of_data(cluster, folder),
        "pg_rewind",
        folder,
        "--target-pgdata={data}",
        f"--source-server={source}",
        *more,
    )


def _known(cluster: Cluster, upstream: Node, table: str, tids: list[int]) -> set[int]:
    settings = config.settings_of(cluster)
    listed = ",".join(str(each) for each in tids)
    try:
        (rows,) = sql.query(
            sql.conninfo(cluster, upstream, settings.user, settings.database),
            time.monotonic() + READ_SECONDS,
            f"SELECT DISTINCT tid FROM {table} WHERE tid IN ({listed})",  # noqa: S608
        )
    except ProbeError as error:
        raise OperatorError(
            f"node {upstream.name} can't be asked which transactions it has",
            error.detail,
            exit_code=ExitCode.TIMED_OUT,
        ) from error
    return {int(row[0]) for row in rows if row[0]}
