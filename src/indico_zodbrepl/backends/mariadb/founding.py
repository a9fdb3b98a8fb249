"""What has to be there before Indico starts: the database, its tables, its copies."""

from __future__ import annotations

import time
from collections.abc import Callable

from ...cluster import Cluster, Node
from ...cluster.installation import Installation
from ...errors import ExitCode, OperatorError
from ...probing.wire import ProbeError
from .. import tables
from ..relstorage import turn_clients
from ..writable import Ask, find_primary
from . import asking, data, links, names, passwords, seeding
from .sessions import administration, session

ANSWER_SECONDS = 5.0

Progress = Callable[[str], None]


def found(cluster: Cluster, installation: Installation, ask: Ask, progress: Progress,
          deadline: float) -> None:
    """See ``IBackend.found`` and ``IBackend.ask``."""
    passwords.ensure(cluster, names.settings(cluster).user)
    primary = find_primary(cluster, ask, "MariaDB", deadline)
    turn_clients(cluster, primary, names.replica_conf(cluster))
    if primary.managed:
        _ready_for_tables(cluster, primary)
    _refuse_other_history(cluster, primary)
    tables.make_tables(installation, names.schema_conf(cluster), deadline)
    if primary.managed:
        data.mark_filled(cluster, primary)
    for node in cluster.nodes:
        if node.managed and node is not primary:
            _found_follower(cluster, node, primary, progress)


def _found_follower(cluster: Cluster, node: Node, primary: Node, progress: Progress) -> None:
    """Fill a follower that has no copy; let clients read from one that they were kept from.

    One whose server does not run is left for the next time.
    """
    if not names.server_socket(node).exists():
        progress(f"node {node.name} does not run")
        return
    if not data.is_filled(node):
        progress(f"node {node.name} is seeded from node {primary.name}")
        seeding.seed(cluster, node, primary)
    try:
        links.settle(cluster, node, primary)
    except OperatorError as error:
        progress(f"{error.notice}: {error.detail}")


def _ready_for_tables(cluster: Cluster, primary: Node) -> None:
    """Make the database; where it is, not even a statement without effect is to be replicated."""
    database = names.settings(cluster).database
    with administration(primary, time.monotonic() + ANSWER_SECONDS) as server:
        if not data.is_filled(primary):
            # Nothing is there that could be lost, and no follower that could acknowledge it.
            server.rows("SET GLOBAL rpl_semi_sync_master_enabled = OFF")
        if not server.rows("SHOW DATABASES WHERE `Database` = %s", database):
            server.rows(f"CREATE DATABASE `{database}`")


def _refuse_other_history(cluster: Cluster, primary: Node) -> None:
    """Raise OperatorError (exit 8) when the tables are those of the other value of keep-history."""
    own = names.settings(cluster)
    try:
        with session(cluster, primary, asking.asking_user(cluster, primary),
                     time.monotonic() + ANSWER_SECONDS) as server:
            found = {row["name"] for row in server.rows(
                "SELECT table_name AS name FROM information_schema.tables "
                "WHERE table_schema = %s", own.database)}
    except ProbeError as error:
        raise OperatorError("the tables can't be looked for",
                            f"node {primary.name}: {error.detail}",
                            exit_code=ExitCode.TIMED_OUT) from error
    history = "transaction" in found
    if "object_state" in found and history is not own.keep_history:
        raise OperatorError(
            "the database was made with the other value of keep-history",
            f"{cluster.where('mariadb', None, 'keep-history')}: database {own.database} of node "
            f"{primary.name} {'has' if history else 'has no'} history",
            f"keep-history {str(history).lower()}", ExitCode.REFUSED)
