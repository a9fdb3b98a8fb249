"""The backend ``relstorage-mariadb``: a primary and its replicas."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path

from zope.interface import implementer

from indico_zodbrepl.backends import interfaces, native_replication
from indico_zodbrepl.backends.acknowledging import CommitsLook
from indico_zodbrepl.backends.mariadb import (
    commits,
    comparing,
    config,
    founding,
    replication,
    server,
    sql,
    status,
)
from indico_zodbrepl.cluster import Cluster, Node, NodeState
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.cluster.model import Synchronous, SyncLevel
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.probing.answers import AckState, ServerAnswer
from indico_zodbrepl.probing.comparison import Comparison


@implementer(interfaces.IBackend)
class MariaDB(native_replication.NativeServers):
    """RelStorage 3.5 on MariaDB 10.6 or later, replicated by GTID, semi-synchronously or not."""

    name = "relstorage-mariadb"
    section = "mariadb"
    # The server writes its changed pages to disk before it exits.
    stop_seconds = 60
    stop_signal = "TERM"
    leave_seconds = config.LEAVE_SECONDS
    own_users = config.GENERATED_USERS
    limits: Mapping[str, str] = {
        "hold": "a MariaDB server that pauses writes aborts those in progress; stop the primary "
        "cleanly: `bin/zodbrepl node stop`",
        "clone": "a node without data copies its upstream's when it starts: stop it, move folder "
        "mariadb in its data directory aside on its host, and run `bin/zodbrepl node start`",
        "lineage": "what was a primary is compared with its upstream's log before it follows; the "
        "positions are in `bin/zodbrepl status --json`",
        "backup": "MariaDB has its own: `mariadb-dump --single-transaction` copies the database of "
        "a running node, best a replica",
        "restore": "a lost node copies its upstream's data; when all are lost, the file that "
        "`mariadb-dump` made is loaded into a new primary, before Indico "
        "starts",
    }

    def node_files(self, cluster: Cluster, state: NodeState) -> Mapping[Path, str]:
        node = cluster.node(state.node)
        return {config.my_cnf_file(node): config.my_cnf(cluster, state)} if node.managed else {}

    def client_files(self, cluster: Cluster) -> Mapping[Path, str]:
        return config.client_files(cluster)

    def server_command(
        self, cluster: Cluster, installation: Installation, state: NodeState
    ) -> tuple[str, ...]:
        """Return the server's command; as root it has an option that permits that."""
        as_root = (f"--user={config.administrator()}",) if os.geteuid() == 0 else ()
        return (
            server.find(config.settings_of(cluster)).path(server.SERVER),
            f"--defaults-file={config.my_cnf_file(cluster.node(state.node))}",
            *as_root,
        )

    def check(self, cluster: Cluster, installation: Installation) -> None:
        """Also check the names that RelStorage and the servers' own users forbid (exit 2)."""
        own = config.settings_of(cluster)
        self.refuse_names(cluster)
        if own.database == config.OWN_DATABASE:
            raise OperatorError(
                f"database {own.database} is the cluster's own",
                str(cluster.where("mariadb", None, "database")),
                "choose another name",
                ExitCode.BAD_CONFIG,
            )
        if own.password_file is not None:
            sql.given_in(own.password_file)
        if any(node.managed for node in cluster.nodes):
            server.find(own)

    def make_passwords(self, cluster: Cluster) -> None:
        for user in (config.settings_of(cluster).user, *config.GENERATED_USERS):
            sql.make(cluster, user)

    def prepare(
        self, cluster: Cluster, installation: Installation, state: NodeState
    ) -> Iterable[str]:
        return server.prepare(cluster, state)

    def has_data(self, cluster: Cluster, node: Node) -> bool:
        return node.managed and server.is_filled(node)

    def retry_seconds(self, cluster: Cluster) -> float | None:
        return config.retry_seconds(cluster)

    def settle(
        self, cluster: Cluster, installation: Installation, state: NodeState, deadline: float
    ) -> None:
        replication.settle(cluster, state)

    def promote(
        self, cluster: Cluster, installation: Installation, state: NodeState, deadline: float
    ) -> Iterable[str]:
        return replication.promote(cluster, state, deadline)

    def look_at_commits(
        self, cluster: Cluster, node: Node, before: str, deadline: float, *, settled: bool
    ) -> CommitsLook | None:
        found = commits.look(cluster, node, deadline)
        return found if found is None or settled else commits.that_received(cluster, found, before)

    def set_commits(
        self, cluster: Cluster, node: Node, state: AckState, wanted: Synchronous, deadline: float
    ) -> None:
        commits.apply(node, state, wanted, deadline)

    def can_confirm(self, cluster: Cluster, level: SyncLevel) -> bool:
        # A replica syncs its relay log only if it was started with that.
        return level is not SyncLevel.FSYNC or cluster.synchronous.level is SyncLevel.FSYNC

    def detach(self, cluster: Cluster, node: Node, deadline: float) -> int:
        return replication.detach(node, deadline)

    def attach(self, cluster: Cluster, state: NodeState, deadline: float) -> None:
        replication.attach(cluster, state, deadline)

    def redirect(self, cluster: Cluster, state: NodeState, deadline: float) -> None:
        replication.redirect(cluster, state, deadline)

    def has_joined(self, cluster: Cluster, node: Node, upstream: Node, deadline: float) -> bool:
        return replication.has_joined(cluster, node, upstream, deadline)

    def recovery_watch(self, node: Node) -> Callable[[], bool]:
        return lambda: False  # its recovery needs nobody else's log

    def waits_for_room(self, node: Node, deadline: float) -> bool:
        return status.waits_for_room(node, deadline)

    def has_led(self, node: Node) -> bool:
        return config.led_mark(node).exists()

    def log_end(self, cluster: Cluster, node: Node) -> str:
        return replication.log_end(node)

    def prove(self, cluster: Cluster, node: Node, primary: Node, end: str, deadline: float) -> str:
        return replication.prove(node, primary, end, deadline)

    def data_folder(self, node: Node) -> Path:
        return config.data_folder(node)

    def open_alone(
        self, cluster: Cluster, node: Node, upstream: Node, deadline: float
    ) -> AbstractContextManager[interfaces.Alone]:
        return server.opened(cluster, node, upstream, deadline)

    def found(
        self,
        cluster: Cluster,
        installation: Installation,
        progress: interfaces.Progress,
        deadline: float,
    ) -> None:
        founding.found(cluster, installation, self.ask, progress, deadline)

    def ask(self, cluster: Cluster, node: Node, deadline: float) -> ServerAnswer:
        return status.answer(cluster, node, status.ask(cluster, node, deadline))

    def compare(
        self, cluster: Cluster, node: Node, primary: Node, answer: ServerAnswer, deadline: float
    ) -> Iterator[Comparison]:
        return comparing.compare(cluster, node, primary, answer, deadline)
