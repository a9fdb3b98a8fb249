"""Create what Indico needs before it starts: clients' files, replication slots, tables."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from functools import partial

from indico_zodbrepl.backends.native_replication import ask_all, find_primary
from indico_zodbrepl.backends.postgresql import config, data, sql, status
from indico_zodbrepl.backends.relstorage import make_tables, schema_conf, turn_clients
from indico_zodbrepl.cluster import Cluster, Node
from indico_zodbrepl.cluster.files import write_atomically
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.probing.answers import Hold
from indico_zodbrepl.probing.race import all_at_once
from indico_zodbrepl.probing.waiting import wait_until
from indico_zodbrepl.probing.wire import ProbeError

ANSWER_SECONDS = 5.0
POLL_SECONDS = 0.2
# Seconds for the standbys to drop slots; the next call tries again.
DROP_SECONDS = 1.0
# Seconds until a listening standby must stream; it keeps trying after that.
STREAMING_SECONDS = 20.0
TABLES_LOCK = 0x7A6F6462
"""The key of the advisory lock under which the tables are created."""

Progress = Callable[[str], None]


def found(
    cluster: Cluster, installation: Installation, progress: Progress, deadline: float
) -> None:
    """Create the clients' files, replication slots and tables; see ``IBackend.found``."""
    sql.ensure_password(cluster, config.settings_of(cluster).user)
    primary = find_primary(cluster, status.ask, "PostgreSQL", deadline)
    turn_clients(cluster, primary)
    if primary.managed:
        settle_links(cluster, primary)
    _ensure_tables(cluster, installation, primary, progress, deadline)
    _wait_for_followers(cluster, primary, progress, deadline)


def settle_links(cluster: Cluster, primary: Node) -> None:
    """Set the primary's replication slots and the standbys that its commits wait for.

    The primary gets a slot for each other node; all other slots are dropped, because a standby
    keeps WAL for unused slots forever.  A standby that does not answer is skipped until the next
    call. Raises OperatorError if the primary refuses.
    """
    others = others_of(cluster, primary)
    data.ensure_slot(cluster, primary, *others)
    # At once: during a failover some hosts are silent.
    all_at_once([partial(drop_slots, cluster, node, DROP_SECONDS) for node in others])
    if not cluster.is_here(primary):
        return  # `up` on its host writes its configuration
    path = config.data_folder(primary) / config.SYNCHRONOUS_CONF
    text = config.synchronous_conf(cluster, primary)
    if path.exists() and path.read_text("utf-8") != text:
        write_atomically(path, text)
        sql.command(cluster, primary, time.monotonic() + ANSWER_SECONDS, "SELECT pg_reload_conf()")


def others_of(cluster: Cluster, primary: Node) -> list[Node]:
    """Return the nodes that may follow a primary."""
    return [node for node in cluster.nodes if node.name != primary.name and node.managed]


def drop_slots(cluster: Cluster, node: Node, seconds: float = ANSWER_SECONDS) -> None:
    """Drop a standby's replication slots; a standby that does not answer is skipped."""
    own = sql.conninfo(cluster, node, config.SUPERUSER, config.MAINTENANCE_DATABASE)
    with contextlib.suppress(ProbeError):  # its own probe reports that it does not answer
        sql.query(own, time.monotonic() + seconds, _DROP_SLOTS)


def _ensure_tables(
    cluster: Cluster, installation: Installation, primary: Node, progress: Progress, deadline: float
) -> None:
    settings = config.settings_of(cluster)
    own = sql.conninfo(cluster, primary, settings.user, settings.database)
    try:
        # The hosts of a cluster do this at the same time, and one has to create the tables.
        with sql.session(own, deadline) as run:
            run(f"SELECT pg_advisory_lock({TABLES_LOCK})")
            ((objects, history),) = run(
                "SELECT to_regclass('object_state'), to_regclass('transaction')"
            )
            if objects is None:
                # Do not wait for a synchronous standby, which may not exist yet.
                make_tables(
                    installation,
                    schema_conf(cluster),
                    deadline,
                    {"PGOPTIONS": "-c synchronous_commit=local"},
                )
                progress("the tables are made")
                return
    except ProbeError as error:
        raise OperatorError(
            "the tables can't be looked for",
            f"node {primary.name}: {error.detail}",
            exit_code=ExitCode.TIMED_OUT,
        ) from error
    if (history is not None) is not settings.keep_history:
        raise OperatorError(
            "the database was made with the other value of keep-history",
            f"{cluster.where('postgresql', None, 'keep-history')}: database {settings.database} "
            f"of node {primary.name} {'has' if history else 'has no'} history",
            f"keep-history {'true' if history else 'false'}",
            ExitCode.REFUSED,
        )


def _wait_for_followers(
    cluster: Cluster, primary: Node, progress: Progress, deadline: float
) -> None:
    """Wait until the standbys of this host stream, and until commits do not wait for one."""
    wanted = {node.name for node in cluster.local.nodes if node.managed and data.follows(node)}
    patience = min(deadline, time.monotonic() + STREAMING_SECONDS)
    missing = wanted

    def is_healthy() -> bool:
        nonlocal missing
        answers, _ = ask_all(cluster, status.ask, deadline)
        here = answers[primary.name].replication if primary.name in answers else None
        missing = wanted - set(here.followers if here else ())
        return not missing and (here is None or here.held is not Hold.FOLLOWERS)

    if not wait_until(is_healthy, patience, POLL_SECONDS) and missing:
        progress(f"{', '.join(sorted(missing))} does not stream yet")


_DROP_SLOTS = """
SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots
WHERE slot_name LIKE 'zodbrepl\\_%' AND NOT active
"""
