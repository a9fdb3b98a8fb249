"""Create what Indico needs before it starts: the database, its tables, its copies."""

from __future__ import annotations

import time
from collections.abc import Callable

from indico_zodbrepl.backends import relstorage
from indico_zodbrepl.backends.mariadb import config, copying, replication, sql, status
from indico_zodbrepl.backends.mariadb import server as servers
from indico_zodbrepl.backends.mariadb.sql import administration, session
from indico_zodbrepl.backends.native_replication import Ask, find_primary
from indico_zodbrepl.backends.relstorage import turn_clients
from indico_zodbrepl.cluster import Cluster, Node
from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.probing import tid
from indico_zodbrepl.probing.waiting import wait_until
from indico_zodbrepl.probing.wire import ProbeError

ANSWER_SECONDS = 5.0
POLL_SECONDS = 0.2
# Seconds until the primary's host must have created the tables.
TABLES_SECONDS = 60.0

Progress = Callable[[str], None]


def found(
    cluster: Cluster, installation: Installation, ask: Ask, progress: Progress, deadline: float
) -> None:
    """Create the database, its tables and its copies; see ``IBackend.found``."""
    sql.ensure(cluster, config.settings_of(cluster).user)
    primary = find_primary(cluster, ask, "MariaDB", deadline)
    turn_clients(cluster, primary)
    if primary.managed and not cluster.is_here(primary):
        _wait_for_tables(cluster, primary, ask, deadline)
    else:
        _make_tables(cluster, installation, primary, deadline)
    for node in cluster.local.nodes:
        if node.managed and node.name != primary.name:
            _found_follower(cluster, node, primary, progress)


def _make_tables(
    cluster: Cluster, installation: Installation, primary: Node, deadline: float
) -> None:
    if primary.managed:
        _ready_for_tables(cluster, primary)
    _refuse_other_history(cluster, primary)
    relstorage.make_tables(installation, relstorage.schema_conf(cluster), deadline)
    if primary.managed:
        if not servers.is_filled(primary):
            with administration(primary, time.monotonic() + ANSWER_SECONDS) as server:
                server.rows(config.wait_for_followers(cluster))
        servers.mark_filled(cluster, primary)


def _wait_for_tables(cluster: Cluster, primary: Node, ask: Ask, deadline: float) -> None:
    """Wait until the host of the primary has created the tables and the root object.

    Raises OperatorError: exit 7, it did not; exit 8, as ``_refuse_other_history``.
    """
    deadline = min(deadline, time.monotonic() + TABLES_SECONDS)

    def exist() -> bool:
        try:
            answer = ask(cluster, primary, time.monotonic() + ANSWER_SECONDS)
        except ProbeError:
            return False
        return answer.last_tid != tid.EMPTY

    if not wait_until(exist, deadline, POLL_SECONDS):
        raise OperatorError(
            f"node {primary.name} has no tables",
            f"host {primary.on} creates them when it starts node {primary.name}",
            Commands.here(cluster).zodbrepl("up"),
            ExitCode.TIMED_OUT,
        )
    _refuse_other_history(cluster, primary)


def _found_follower(cluster: Cluster, node: Node, primary: Node, progress: Progress) -> None:
    """Fill a follower that has no copy, and let clients read from a complete one.

    A follower whose server does not run is skipped until the next call.
    """
    if not sql.listens(node):
        progress(f"node {node.name} does not run")
        return
    if not servers.is_filled(node):
        progress(f"node {node.name} is cloned from node {primary.name}")
        copying.seed(cluster, node, primary)
    try:
        replication.settle_links(cluster, node, primary)
    except OperatorError as error:
        progress(f"{error.notice}: {error.detail}")


def _ready_for_tables(cluster: Cluster, primary: Node) -> None:
    """Create the database, unless it exists: no statement may be replicated without need."""
    database = config.settings_of(cluster).database
    with administration(primary, time.monotonic() + ANSWER_SECONDS) as server:
        if not servers.is_filled(primary):
            # There is nothing to lose yet, and no follower that could acknowledge a commit. The
            # commit keeper leaves a server alone until it is marked as filled.
            server.rows("SET GLOBAL rpl_semi_sync_master_enabled = OFF")
        if not server.rows("SHOW DATABASES WHERE `Database` = %s", database):
            server.rows(f"CREATE DATABASE `{database}`")


def _refuse_other_history(cluster: Cluster, primary: Node) -> None:
    """Raise OperatorError (exit 8) if the tables have the other value of keep-history."""
    own = config.settings_of(cluster)
    try:
        with session(
            cluster,
            primary,
            status.asking_user(cluster, primary),
            time.monotonic() + ANSWER_SECONDS,
        ) as server:
            found = {
                row["name"]
                for row in server.rows(
                    "SELECT table_name AS name FROM information_schema.tables "
                    "WHERE table_schema = %s",
                    own.database,
                )
            }
    except ProbeError as error:
        raise OperatorError(
            "the tables can't be looked for",
            f"node {primary.name}: {error.detail}",
            exit_code=ExitCode.TIMED_OUT,
        ) from error
    history = "transaction" in found
    if "object_state" in found and history is not own.keep_history:
        raise OperatorError(
            "the database was made with the other value of keep-history",
            f"{cluster.where('mariadb', None, 'keep-history')}: database {own.database} of node "
            f"{primary.name} {'has' if history else 'has no'} history",
            f"keep-history {str(history).lower()}",
            ExitCode.REFUSED,
        )
