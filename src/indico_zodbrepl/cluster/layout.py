"""Where a cluster keeps its files: paths only, nothing is read or made here."""

from __future__ import annotations

import dataclasses
import hashlib
from pathlib import Path

from .model import Cluster, IndicoInstance, Node

# A unix socket's path has room for 107 bytes (unix(7)), and supervisord binds
# PATH.PID first, which takes up to 8 more.
SOCKET_PATH_LIMIT = 99


@dataclasses.dataclass(frozen=True)
class Layout:
    """The files of one cluster."""

    cluster: Cluster

    @property
    def var(self) -> Path:
        return self.cluster.var_directory

    @property
    def etc(self) -> Path:
        return self.var / "etc"

    @property
    def log(self) -> Path:
        return self.var / "log"

    @property
    def run(self) -> Path:
        return self.var / "run"

    @property
    def secrets(self) -> Path:
        return self.var / "secrets"

    @property
    def accounts(self) -> Path:
        """Who may use the admin page."""
        return self.var / "admin" / "accounts.json"

    @property
    def session_key(self) -> Path:
        """What the admin page signs its sessions with."""
        return self.var / "admin" / "session-key"

    @property
    def bench_secret(self) -> Path:
        """What the control plane shows an Indico instance that is to measure itself."""
        return self.secrets / "bench-secret"

    @property
    def bench(self) -> Path:
        """Results of benchmarks, a folder each."""
        return self.var / "bench"

    @property
    def indico(self) -> Path:
        """What the Indico instances share: archive, cache and so on."""
        return self.var / "indico"

    @property
    def lock(self) -> Path:
        """Held by ``up`` and ``down`` while they work."""
        return self.run / "lifecycle.lock"

    @property
    def epoch_record(self) -> Path:
        """The control host's record of the current epoch and its primary."""
        return self.var / "epoch.json"

    def instance_epoch_record(self, instance: IndicoInstance) -> Path:
        """The same, as the host of an Indico instance keeps it."""
        return self.var / "epochs" / f"{instance.name}.json"

    @property
    def journal(self) -> Path:
        """Who changed what, when, why and with what result: one JSON object a line."""
        return self.var / "journal.jsonl"

    @property
    def operations(self) -> Path:
        """Plan and progress of each operation, a file each."""
        return self.var / "operations"

    def operation(self, identifier: str) -> Path:
        """Plan and progress of one operation."""
        return self.operations / f"{identifier}.json"

    @property
    def statistics(self) -> Path:
        """What the database held when it was last looked at as a whole."""
        return self.var / "statistics.json"

    @property
    def conversion(self) -> Path:
        """Where this cluster's data come from when another one was converted into it."""
        return self.var / "conversion.json"

    @property
    def jobs(self) -> Path:
        """Commands that the admin page started, a folder each, for their owner alone."""
        return self.var / "jobs"

    @property
    def operation_lock(self) -> Path:
        """Held by an operation that changes the cluster's roles or data."""
        return self.run / "operation.lock"

    @property
    def lost_tails(self) -> Path:
        """What was cut off diverged nodes, a folder each, for its owner alone."""
        return self.var / "lost-tails"

    @property
    def watch(self) -> Path:
        """What the watching program remembers: events, lag, the primary when last seen."""
        return self.var / "watch"

    @property
    def last_seen(self) -> Path:
        """The cluster in the last second in which it had a writable primary."""
        return self.watch / "last-seen.json"

    @property
    def supervisord_conf(self) -> Path:
        return self.etc / "supervisord.conf"

    @property
    def supervisord_pid(self) -> Path:
        return self.run / "supervisord.pid"

    @property
    def supervisord_log(self) -> Path:
        return self.log / "supervisord.log"

    @property
    def supervisor_socket(self) -> Path:
        """In var/run; in a folder of its own under /tmp when that path is too long.

        /tmp whatever TMPDIR says: all commands have to find the same socket.
        """
        socket = self.run / "supervisor.sock"
        if len(bytes(socket)) <= SOCKET_PATH_LIMIT:
            return socket
        digest = hashlib.sha256(bytes(self.var)).hexdigest()[:16]
        return Path("/tmp",  # noqa: S108  # its owner is checked before use
                    f"indico-zodbrepl-{digest}", "supervisor.sock")

    @property
    def zodb_conf(self) -> Path:
        """Storage of all Indico instances and of the bulk loader."""
        return self.etc / "zodb.conf"

    def node_zodb_conf(self, node: Node) -> Path:
        """Storage that reads from this one node, for verification."""
        return self.etc / f"zodb-{node.name}.conf"

    def indico_conf(self, instance: IndicoInstance) -> Path:
        return self.etc / instance.name / "indico.conf"

    def logging_conf(self, instance: IndicoInstance) -> Path:
        return self.etc / instance.name / "logging.conf"

    def program_log(self, program: str) -> Path:
        """Standard output and error of a supervised program."""
        return self.log / f"{program}.log"


def state_file(node: Node) -> Path:
    """What the node has been told to be."""
    return node.data_directory / "state.json"


def data_fs(node: Node) -> Path:
    """The node's database."""
    return node.data_directory / "Data.fs"


def zeo_conf(node: Node) -> Path:
    """Configuration of the node's storage server, rendered at each start."""
    return node.data_directory / "zeo.conf"


def lineage_file(node: Node) -> Path:
    """How far the node's history was shown to be that of the cluster."""
    return node.data_directory / "lineage.json"


def control_socket(node: Node) -> Path:
    """Where the node's running server takes commands; its path may be too long to bind."""
    return node.data_directory / "control.sock"
