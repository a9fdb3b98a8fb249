"""What has to be there before Indico starts: clients' files, slots, tables."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable

from ...cluster import Cluster, Node
from ...cluster.files import write_atomically
from ...cluster.installation import Installation
from ...errors import ExitCode, OperatorError
from ...probing.answers import Hold
from ...probing.wire import ProbeError
from ..relstorage import turn_clients
from ..tables import make_tables
from ..writable import ask_all, find_primary
from . import configuration, data, names, passwords, sql, status

ANSWER_SECONDS = 5.0
POLL_SECONDS = 0.2
# How long a standby that listens may take until it streams; it goes on trying after that.
STREAMING_SECONDS = 20.0

Progress = Callable[[str], None]


def found(cluster: Cluster, installation: Installation, progress: Progress,
          deadline: float) -> None:
    """See ``IBackend.found``."""
    passwords.ensure(cluster, names.settings(cluster).user)
    primary = find_primary(cluster, status.ask, "PostgreSQL", deadline)
    turn_clients(cluster, primary, names.replica_conf(cluster))
    if primary.managed:
        settle_links(cluster, primary)
    _ensure_tables(cluster, installation, primary, progress, deadline)
    _wait_for_followers(cluster, primary, progress, deadline)


def settle_links(cluster: Cluster, primary: Node) -> None:
    """A slot on the primary for each other node, none elsewhere, and whom commits wait for.

    A standby keeps WAL for slots that nobody uses any more, for ever.  A standby that does not
    answer is left for the next time.  Raises OperatorError when the primary refuses.
    """
    for node in cluster.nodes:
        if node.name == primary.name or not node.managed:
            continue
        data.ensure_slot(cluster, primary, node)
        drop_slots(cluster, node)
    path = names.data_folder(primary) / configuration.SYNCHRONOUS_CONF
    text = configuration.synchronous_conf(cluster, primary)
    if path.exists() and path.read_text("utf-8") != text:
        write_atomically(path, text)
        sql.command(cluster, primary, time.monotonic() + ANSWER_SECONDS, "SELECT pg_reload_conf()")


def drop_slots(cluster: Cluster, node: Node) -> None:
    """Have a standby keep nothing for others; one that does not answer is left for later."""
    own = sql.conninfo(cluster, node, names.SUPERUSER, names.MAINTENANCE_DATABASE)
    with contextlib.suppress(ProbeError):  # its own probe reports that it does not answer
        sql.query(own, time.monotonic() + ANSWER_SECONDS, _DROP_SLOTS)


def _ensure_tables(cluster: Cluster, installation: Installation, primary: Node,
                   progress: Progress, deadline: float) -> None:
    settings = names.settings(cluster)
    own = sql.conninfo(cluster, primary, settings.user, settings.database)
    try:
        ((objects, history),) = sql.query(
            own, min(deadline, time.monotonic() + ANSWER_SECONDS),
            "SELECT to_regclass('object_state'), to_regclass('transaction')")[0]
    except ProbeError as error:
        raise OperatorError("the tables can't be looked for",
                            f"node {primary.name}: {error.detail}",
                            exit_code=ExitCode.TIMED_OUT) from error
    if objects is None:
        # Without waiting for a synchronous standby, which may not be there yet.
        make_tables(installation, names.schema_conf(cluster), deadline,
                    {"PGOPTIONS": "-c synchronous_commit=local"})
        progress("the tables are made")
    elif (history is not None) is not settings.keep_history:
        raise OperatorError(
            "the database was made with the other value of keep-history",
            f"{cluster.where('postgresql', None, 'keep-history')}: database {settings.database} "
            f"of node {primary.name} {'has' if history else 'has no'} history",
            f"keep-history {'true' if history else 'false'}", ExitCode.REFUSED)


def _wait_for_followers(cluster: Cluster, primary: Node, progress: Progress,
                        deadline: float) -> None:
    """Until what commits wait for is there, and a look at the status shows a healthy cluster."""
    wanted = {node.name for node in cluster.nodes if node.managed and data.follows(node)}
    patience = min(deadline, time.monotonic() + STREAMING_SECONDS)
    while True:
        answers, _ = ask_all(cluster, status.ask, deadline)
        here = answers[primary.name].replication if primary.name in answers else None
        missing = wanted - set(here.followers if here else ())
        if not missing and (here is None or here.held is not Hold.FOLLOWERS):
            return
        if time.monotonic() > patience:
            if missing:
                progress(f"{', '.join(sorted(missing))} does not stream yet")
            return
        time.sleep(POLL_SECONDS)


_DROP_SLOTS = """
SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots
WHERE slot_name LIKE 'zodbrepl\\_%' AND NOT active
"""
