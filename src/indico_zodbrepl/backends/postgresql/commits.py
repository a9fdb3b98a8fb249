"""Acknowledged commits of a PostgreSQL primary: who confirms them, and what they wait for."""

from __future__ import annotations

import time

from indico_zodbrepl.backends.acknowledging import CommitsLook, show
from indico_zodbrepl.backends.postgresql import config, sql
from indico_zodbrepl.cluster import Cluster, Node
from indico_zodbrepl.cluster.files import write_atomically
from indico_zodbrepl.cluster.model import Synchronous
from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.probing.answers import AckState

START = "0/0"

_PRIMARY = """
SELECT pg_is_in_recovery(),
       CASE WHEN pg_is_in_recovery() THEN NULL ELSE pg_current_wal_flush_lsn() END,
       (SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'),
       (SELECT coalesce(max(extract(epoch FROM clock_timestamp() - state_change)), 0)
        FROM pg_stat_activity WHERE wait_event = 'SyncRep')
"""

# Where a primary's timeline began, by the last line of its history; the first one has none.
_BEGAN = """
(SELECT coalesce(max(split_part(line, E'\\t', 2)::pg_lsn), '0/0')
 FROM regexp_split_to_table(CASE WHEN NOT pg_is_in_recovery() THEN pg_read_file(
     'pg_wal/' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) || '.history',
     0, 1000000, true) END, E'\\n') AS line WHERE line ~ '^[0-9]+\\t')
"""

# A standby that only receives what it had missed is not "streaming".  One whose own log goes beyond
# the beginning of the timeline is for a moment, again and again: it is sent the log up to there.
JOINED = f"state = 'streaming' AND sent_lsn > {_BEGAN}"

_CONFIRMING = f"""
SELECT application_name, flush_lsn FROM pg_stat_replication
WHERE flush_lsn >= {{before}}::pg_lsn AND {JOINED}
"""  # noqa: S608  # our own text


def look(cluster: Cluster, node: Node, before: str, deadline: float) -> CommitsLook | None:
    """Return who confirms commits; see ``NativeReplication.look_at_commits``."""
    (((recovers, position, waiting, waited),), rows) = sql.command(
        cluster,
        node,
        deadline,
        _PRIMARY,
        _CONFIRMING.format(before=sql.literal(before or START)),
    )
    if recovers == "t":
        return None
    names = {each.name for each in cluster.nodes}
    confirming = {name: lsn or START for name, lsn in rows if name in names}
    return CommitsLook(confirming, float(waited or 0), int(waiting or 0), position or START)


def apply(
    cluster: Cluster, node: Node, state: AckState, wanted: Synchronous, deadline: float
) -> None:
    """Apply a state; see ``NativeReplication.set_commits``.  The file is on disk before."""
    path = config.data_folder(node) / config.COMMITS_CONF
    text = config.commits_conf(cluster, node, state, wanted, show(state, wanted, time.time()))
    try:
        write_atomically(path, text)
    except OSError as error:
        raise OperatorError(
            f"node {node.name} can't change what its commits wait for",
            f"{path}: {error.strerror}",
        ) from error
    sql.command(cluster, node, deadline, "SELECT pg_reload_conf()")
