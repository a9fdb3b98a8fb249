"""The backend ``relstorage-mariadb``."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path

from zope.interface import implementer

from ...cluster import Cluster, Node, NodeState
from ...cluster.installation import Installation
from ...errors import ExitCode, OperatorError
from ...probing.answers import ServerAnswer
from ...probing.comparison import Comparison
from .. import engine_servers, interfaces
from . import (
    alone,
    asking,
    client_files,
    comparing,
    data,
    founding,
    names,
    passwords,
    programs,
    reading,
    roles,
    server_files,
)


@implementer(interfaces.IBackend)
class MariaDB(engine_servers.EngineServers):
    """RelStorage 3.5 on MariaDB 10.6 or later, replicated by GTID, semi-synchronously or not."""

    name = "relstorage-mariadb"
    section = "mariadb"
    # The server writes its changed pages to disk before it ends.
    stop_seconds = 60
    stop_signal = "TERM"
    own_users = names.GENERATED_USERS
    limits: Mapping[str, str] = {
        "hold": "a MariaDB server that takes no writes ends those under way; end the primary in "
                "order: `bin/zodbrepl node stop`",
        "seed": "a node without data is filled from its upstream when it starts: end it, move the "
                "folder mariadb in its data directory aside, and `bin/zodbrepl node start` it",
        "lineage": "what was a primary is compared with its upstream's log before it follows; the "
                   "positions are in `bin/zodbrepl status --json`",
        "backup": "MariaDB has its own: `mariadb-dump --single-transaction` copies the database of "
                  "a running node, best a secondary",
        "restore": "a lost node copies its upstream's data; when all are lost, the file that "
                   "`mariadb-dump` made is loaded into a primary that was made anew, before Indico "
                   "starts",
        **engine_servers.LIMITS,
    }

    def node_files(self, cluster: Cluster, state: NodeState) -> Mapping[Path, str]:
        node = cluster.node(state.node)
        return {names.my_cnf(node): server_files.my_cnf(cluster, state)} if node.managed else {}

    def client_files(self, cluster: Cluster) -> Mapping[Path, str]:
        return client_files.client_files(cluster)

    def server_command(self, cluster: Cluster, installation: Installation,
                       state: NodeState) -> tuple[str, ...]:
        """Looks for the server's program; as root it has to be told that it may be root."""
        as_root = (f"--user={names.administrator()}",) if os.geteuid() == 0 else ()
        return (programs.find(names.settings(cluster)).path(programs.SERVER),
                f"--defaults-file={names.my_cnf(cluster.node(state.node))}", *as_root)

    def check(self, cluster: Cluster, installation: Installation) -> None:
        """Also refuses what only RelStorage and the servers' own users forbid (exit 2)."""
        own = names.settings(cluster)
        self.refuse_names(cluster)
        if own.database == names.OWN_DATABASE:
            raise OperatorError(f"database {own.database} is the cluster's own",
                                str(cluster.where("mariadb", None, "database")),
                                "choose another name", ExitCode.BAD_CONFIG)
        if own.password_file is not None:
            passwords.given_in(own.password_file)
        if any(node.managed for node in cluster.nodes):
            programs.find(own)

    def prepare(self, cluster: Cluster, installation: Installation,
                state: NodeState) -> Iterable[str]:
        return data.prepare(cluster, state)

    def has_data(self, cluster: Cluster, node: Node) -> bool:
        return node.managed and data.is_filled(node)

    def settle(self, cluster: Cluster, installation: Installation, state: NodeState,
               deadline: float) -> None:
        roles.settle(cluster, state)

    def promote(self, cluster: Cluster, installation: Installation, state: NodeState,
                deadline: float) -> Iterable[str]:
        return roles.promote(cluster, state, deadline)

    def prove(self, cluster: Cluster, installation: Installation, node: Node, primary: Node,
              deadline: float) -> str:
        return roles.prove(node, primary, deadline)

    def data_folder(self, node: Node) -> Path:
        return names.data_folder(node)

    def open_alone(self, cluster: Cluster, node: Node, upstream: Node,
                   deadline: float) -> AbstractContextManager[interfaces.Alone]:
        return alone.opened(cluster, node, upstream, deadline)

    def found(self, cluster: Cluster, installation: Installation,
              progress: interfaces.Progress, deadline: float) -> None:
        founding.found(cluster, installation, self.ask, progress, deadline)

    def ask(self, cluster: Cluster, node: Node, deadline: float) -> ServerAnswer:
        return reading.answer(cluster, node, asking.ask(cluster, node, deadline))

    def compare(self, cluster: Cluster, node: Node, primary: Node, answer: ServerAnswer,
                deadline: float) -> Iterator[Comparison]:
        return comparing.compare(cluster, node, primary, answer, deadline)
