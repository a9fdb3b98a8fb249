"""The backend ``relstorage-postgresql``: a primary and its streaming hot standbys."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path

from zope.interface import implementer

from indico_zodbrepl.backends import interfaces, native_replication, passwords
from indico_zodbrepl.backends.acknowledging import CommitsLook
from indico_zodbrepl.backends.postgresql import (
    commits,
    config,
    data,
    founding,
    programs,
    replication,
    server,
    sql,
    status,
)
from indico_zodbrepl.backends.postgresql.programs import identity
from indico_zodbrepl.cluster import Cluster, Node, NodeState
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.cluster.model import Synchronous, SyncLevel
from indico_zodbrepl.probing.answers import AckState, ServerAnswer
from indico_zodbrepl.probing.comparison import Comparison


@implementer(interfaces.IBackend)
class PostgreSQL(native_replication.NativeServers):
    """RelStorage 3.5 on PostgreSQL, with streaming replication."""

    name = "relstorage-postgresql"
    section = "postgresql"
    # A primary sends its standbys what they lack before it exits.
    stop_seconds = 40
    # It ends its clients' sessions; SIGTERM would wait until the clients end them.
    stop_signal = "INT"
    # The WAL receiver ends at once, but on a busy machine the commands for that take a while.
    leave_seconds = 0.5
    own_users = config.MANAGED_USERS
    limits: Mapping[str, str] = {
        "hold": "a PostgreSQL server can't pause writes and resume them later; stop the primary "
        "cleanly: `bin/zodbrepl node stop`",
        "clone": "a node without data copies its upstream's when it starts: stop it, move folder "
        "postgresql in its data directory aside on its host, and run `bin/zodbrepl node start`",
        "lineage": "a node that was the primary is compared with its upstream when it starts; "
        "timelines and positions are in `bin/zodbrepl status --json`",
        "backup": "PostgreSQL has its own: `pg_basebackup` copies a running node, best a "
        "standby, and `pg_verifybackup` checks the copy",
        "restore": "a lost node copies its upstream's data; when all are lost, the copy that "
        "`pg_basebackup` made is put back as the folder postgresql of one node, and "
        "`bin/zodbrepl node start NODE --force --reason TEXT` makes it the primary",
    }

    def node_files(self, cluster: Cluster, state: NodeState) -> Mapping[Path, str]:
        if not cluster.node(state.node).managed:
            return {}
        return config.server_files(cluster, state)

    def client_files(self, cluster: Cluster) -> Mapping[Path, str]:
        return config.client_files(cluster)

    def server_command(
        self, cluster: Cluster, installation: Installation, state: NodeState
    ) -> tuple[str, ...]:
        """Return the server's command, of the version that created the data."""
        folder = config.data_folder(cluster.node(state.node))
        return identity().command(
            programs.of_data(cluster, folder), "postgres", folder, "-D", "{data}"
        )

    def check(self, cluster: Cluster, installation: Installation) -> None:
        """Also check the names that RelStorage and the servers' own users forbid (exit 2).

        Imports the driver, so that no query has to wait for that.
        """
        sql.load_driver()
        self.refuse_names(cluster)
        given = config.settings_of(cluster).password_file
        if given is not None:
            passwords.read_given(given)
        if any(node.managed for node in cluster.nodes):
            programs.find(config.settings_of(cluster))
            identity()

    def make_passwords(self, cluster: Cluster) -> None:
        for user in (*config.MANAGED_USERS, config.settings_of(cluster).user):
            sql.make_password(cluster, user)

    def prepare(
        self, cluster: Cluster, installation: Installation, state: NodeState
    ) -> Iterable[str]:
        return server.prepare(cluster, state)

    def has_data(self, cluster: Cluster, node: Node) -> bool:
        return node.managed and data.exists(node)

    def found(
        self,
        cluster: Cluster,
        installation: Installation,
        progress: interfaces.Progress,
        deadline: float,
    ) -> None:
        founding.found(cluster, installation, progress, deadline)

    def blocks_without_followers(self, cluster: Cluster) -> bool:
        return cluster.synchronous.count > 0

    def settle(
        self, cluster: Cluster, installation: Installation, state: NodeState, deadline: float
    ) -> None:
        replication.settle(cluster, state, deadline)

    def promote(
        self, cluster: Cluster, installation: Installation, state: NodeState, deadline: float
    ) -> Iterable[str]:
        return replication.promote(cluster, state, deadline)

    def look_at_commits(
        self, cluster: Cluster, node: Node, before: str, deadline: float, *, settled: bool
    ) -> CommitsLook | None:
        del settled  # the server knows what each standby has
        return commits.look(cluster, node, before, deadline)

    def set_commits(
        self, cluster: Cluster, node: Node, state: AckState, wanted: Synchronous, deadline: float
    ) -> None:
        commits.apply(cluster, node, state, wanted, deadline)

    def can_confirm(self, cluster: Cluster, level: SyncLevel) -> bool:
        return True

    def detach(self, cluster: Cluster, node: Node, deadline: float) -> int:
        return replication.detach(cluster, node, deadline)

    def attach(self, cluster: Cluster, state: NodeState, deadline: float) -> None:
        replication.attach(cluster, state, deadline)

    def redirect(self, cluster: Cluster, state: NodeState, deadline: float) -> None:
        replication.redirect(cluster, state, deadline)

    def has_joined(self, cluster: Cluster, node: Node, upstream: Node, deadline: float) -> bool:
        return replication.has_joined(cluster, node, upstream, deadline)

    def recovery_watch(self, node: Node) -> Callable[[], bool]:
        stands_still = server.recovery_stands_still()
        return lambda: stands_still(server.pid(node))

    def waits_for_room(self, node: Node, deadline: float) -> bool:
        return False  # it refuses what it has no room for

    def has_led(self, node: Node) -> bool:
        return data.exists(node) and not data.follows(node)

    def log_end(self, cluster: Cluster, node: Node) -> str:
        return replication.log_end(cluster, node)

    def prove(self, cluster: Cluster, node: Node, primary: Node, end: str, deadline: float) -> str:
        return replication.prove(cluster, node, primary, end, deadline)

    def data_folder(self, node: Node) -> Path:
        return config.data_folder(node)

    def open_alone(
        self, cluster: Cluster, node: Node, upstream: Node, deadline: float
    ) -> AbstractContextManager[interfaces.Alone]:
        return server.opened(cluster, node, upstream, deadline)

    def ask(self, cluster: Cluster, node: Node, deadline: float) -> ServerAnswer:
        return status.ask(cluster, node, deadline)

    def compare(
        self, cluster: Cluster, node: Node, primary: Node, answer: ServerAnswer, deadline: float
    ) -> Iterator[Comparison]:
        return status.compare(cluster, primary, answer, deadline)
