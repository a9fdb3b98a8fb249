"""RelStorage on PostgreSQL: a primary and its hot standbys, streaming."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path

from zope.interface import implementer

from ...cluster import Cluster, Node, NodeState
from ...cluster.installation import Installation
from ...probing.answers import ServerAnswer
from ...probing.comparison import Comparison
from .. import engine_servers, interfaces, password_file
from . import (
    alone,
    changing,
    comparing,
    configuration,
    data,
    founding,
    names,
    programs,
    sql,
    starting,
    status,
    tools,
)
from .identity import identity


@implementer(interfaces.IBackend)
class PostgreSQL(engine_servers.EngineServers):
    """RelStorage 3.5 on PostgreSQL, with streaming replication."""

    name = "relstorage-postgresql"
    section = "postgresql"
    # A primary sends its standbys what they lack before it ends.
    stop_seconds = 40
    # Ends its clients' sessions; SIGTERM would wait until they have ended themselves.
    stop_signal = "INT"
    own_users = names.MANAGED_USERS
    limits: Mapping[str, str] = {
        "hold": "a PostgreSQL server can't hold commits back and go on with them later; end the "
                "primary in order: `bin/zodbrepl node stop`",
        "seed": "a node without data copies its upstream's when it starts: end it, move the "
                "folder postgresql in its data directory aside, and `bin/zodbrepl node start` it",
        "lineage": "a node that was the primary is compared with its upstream when it starts; "
                   "timelines and positions are in `bin/zodbrepl status --json`",
        "backup": "PostgreSQL has its own: `pg_basebackup` copies a running node, best a "
                  "secondary, and `pg_verifybackup` looks whether the copy is whole",
        "restore": "a lost node copies its upstream's data; when all are lost, the copy that "
                   "`pg_basebackup` made is put back as the folder postgresql of one node, and "
                   "`bin/zodbrepl node start NODE --force --reason TEXT` makes it the primary",
        **engine_servers.LIMITS,
    }

    def node_files(self, cluster: Cluster, state: NodeState) -> Mapping[Path, str]:
        if not cluster.node(state.node).managed:
            return {}
        return configuration.server_files(cluster, state)

    def client_files(self, cluster: Cluster) -> Mapping[Path, str]:
        return configuration.client_files(cluster)

    def server_command(self, cluster: Cluster, installation: Installation,
                       state: NodeState) -> tuple[str, ...]:
        """Looks for the programs, of the version that made the data."""
        folder = names.data_folder(cluster.node(state.node))
        return identity().command(tools.of_data(cluster, folder), "postgres", folder,
                                  "-D", "{data}")

    def check(self, cluster: Cluster, installation: Installation) -> None:
        """Also refuses what only RelStorage and the servers' own users forbid (exit 2).

        Imports the driver, so that no question has to wait for that.
        """
        sql.load_driver()
        self.refuse_names(cluster)
        given = names.settings(cluster).password_file
        if given is not None:
            password_file.read(given)
        if any(node.managed for node in cluster.nodes):
            programs.find(names.settings(cluster))
            identity()

    def prepare(self, cluster: Cluster, installation: Installation,
                state: NodeState) -> Iterable[str]:
        return starting.prepare(cluster, state)

    def has_data(self, cluster: Cluster, node: Node) -> bool:
        return node.managed and data.exists(node)

    def found(self, cluster: Cluster, installation: Installation,
              progress: interfaces.Progress, deadline: float) -> None:
        founding.found(cluster, installation, progress, deadline)

    def settle(self, cluster: Cluster, installation: Installation, state: NodeState,
               deadline: float) -> None:
        changing.settle(cluster, state, deadline)

    def promote(self, cluster: Cluster, installation: Installation, state: NodeState,
                deadline: float) -> Iterable[str]:
        return changing.promote(cluster, state, deadline)

    def prove(self, cluster: Cluster, installation: Installation, node: Node, primary: Node,
              deadline: float) -> str:
        return changing.prove(cluster, node, primary, deadline)

    def data_folder(self, node: Node) -> Path:
        return names.data_folder(node)

    def open_alone(self, cluster: Cluster, node: Node, upstream: Node,
                   deadline: float) -> AbstractContextManager[interfaces.Alone]:
        return alone.opened(cluster, node, upstream, deadline)

    def ask(self, cluster: Cluster, node: Node, deadline: float) -> ServerAnswer:
        return status.ask(cluster, node, deadline)

    def compare(self, cluster: Cluster, node: Node, primary: Node, answer: ServerAnswer,
                deadline: float) -> Iterator[Comparison]:
        return comparing.compare(cluster, primary, answer, deadline)
