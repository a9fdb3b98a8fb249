"""The file layout of a cluster: paths only, without I/O."""

from __future__ import annotations

import dataclasses
import hashlib
from pathlib import Path

from indico_zodbrepl.cluster.model import Cluster, Node
from indico_zodbrepl.cluster.programs import IndicoInstance

# A unix socket's path has room for 107 bytes (unix(7)), and supervisord binds
# PATH.PID first, which takes up to 8 more.
SOCKET_PATH_LIMIT = 99


@dataclasses.dataclass(frozen=True)
class Layout:
    """The paths of one cluster."""

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
    def tls(self) -> Path:
        """Return the private folder of this host's certificates."""
        return self.var / "tls"

    @property
    def accounts(self) -> Path:
        """Return the file of the admin page's accounts."""
        return self.var / "admin" / "accounts.json"

    @property
    def session_key(self) -> Path:
        """Return the file of the key that signs admin sessions."""
        return self.var / "admin" / "session-key"

    @property
    def bench_secret(self) -> Path:
        """Return the secret that authorises benchmarks inside Indico."""
        return self.secrets / "bench-secret"

    @property
    def cluster_id(self) -> Path:
        """Return the random identity of the cluster, which all hosts share."""
        return self.secrets / "cluster-id"

    @property
    def bench(self) -> Path:
        """Return the folder of benchmark results."""
        return self.var / "bench"

    @property
    def indico(self) -> Path:
        """Return the folder that Indico instances share: archive, cache and so on."""
        return self.var / "indico"

    @property
    def blob_cache(self) -> Path:
        """Return this host's cache of files in the database, shared by its instances and tools."""
        return self.indico / "blobs"

    def node_blob_cache(self, node: Node | None) -> Path:
        """Return the cache of files read from this node alone; None: from one without clients."""
        return self.node_blob_caches / (node.name if node else "-")

    @property
    def node_blob_caches(self) -> Path:
        return self.indico / "node-blobs"

    @property
    def blob_cache_boot(self) -> Path:
        """Return the record of the boot since which files were cached; see ``host.blob_cache``."""
        return self.indico / "blobs-boot-id"

    @property
    def archive(self) -> Path:
        """Return Indico's ArchiveDir, which the instances share."""
        return self.cluster.archive_directory or self.indico / "archive"

    @property
    def archive_mark(self) -> Path:
        """Return this host's copy of the mark in Indico's ArchiveDir; see ``host.archive``."""
        return self.var / "archive-mark"

    @property
    def assets(self) -> Path:
        """Return the folder of scripts and style sheets that Indico has bundled."""
        return self.var / "assets"

    @property
    def scheduler_lock(self) -> Path:
        """Return the file that Indico's scheduler locks while it runs."""
        return self.run / "scheduler.lock"

    @property
    def lock(self) -> Path:
        """Return the lock file of ``up`` and ``down``."""
        return self.run / "lifecycle.lock"

    @property
    def agent_lock(self) -> Path:
        """Return the lock file that names this host's agent while it runs."""
        return self.run / "agent.lock"

    @property
    def automation_lock(self) -> Path:
        """Return the lock file that names this host's automation while it runs."""
        return self.run / "automation.lock"

    @property
    def etcd_lock(self) -> Path:
        """Return the lock file of a restart of this host's member of etcd."""
        return self.run / "etcd.lock"

    @property
    def actions(self) -> Path:
        """Return the log of what this host's agent has done for whom: one JSON object a line."""
        return self.log / "agent.jsonl"

    @property
    def earlier_files(self) -> Path:
        """Return the digests of the cluster files that this host had before."""
        return self.var / "earlier-files"

    @property
    def epoch_record(self) -> Path:
        """Return the control host's record of the current epoch and its primary."""
        return self.var / "epoch.json"

    @property
    def members(self) -> Path:
        """Return the list of nodes whose confirmations count, which storage servers read."""
        return self.etc / "members.json"

    def confirmed(self, node: Node) -> Path:
        """Return the record whether a node's data hold what it has confirmed."""
        return self.var / "confirmed" / f"{node.name}.json"

    @property
    def leader_file(self) -> Path:
        """Return the file that names the leader to this host's clients."""
        return self.var / "leader.json"

    def instance_epoch_record(self, instance: IndicoInstance) -> Path:
        """Return the record that an Indico instance reads: with several hosts its host's."""
        if self.cluster.hosts:
            return self.epoch_record
        return self.var / "epochs" / f"{instance.name}.json"

    @property
    def journal(self) -> Path:
        """Return the journal: one JSON object per line for each change and its result."""
        return self.var / "journal.jsonl"

    @property
    def operations(self) -> Path:
        """Return the folder with the plan and progress of each operation."""
        return self.var / "operations"

    def operation(self, identifier: str) -> Path:
        """Return the file with the plan and progress of one operation."""
        return self.operations / f"{identifier}.json"

    @property
    def statistics(self) -> Path:
        """Return the file with the last database statistics."""
        return self.var / "statistics.json"

    @property
    def conversion(self) -> Path:
        """Return the record of a conversion into this cluster."""
        return self.var / "conversion.json"

    @property
    def adoption(self) -> Path:
        """Return the record of the adoption of an existing Indico."""
        return self.var / "adoption.json"

    @property
    def adopting(self) -> Path:
        """Return the private folder in which an older release's database is migrated."""
        return self.var / "adopting"

    @property
    def release(self) -> Path:
        """Return the record of the release that last ran ``up``."""
        return self.var / "release.json"

    @property
    def jobs(self) -> Path:
        """Return the private folder of commands started by the admin page."""
        return self.var / "jobs"

    @property
    def operation_lock(self) -> Path:
        """Return the lock file of operations that change roles or data."""
        return self.run / "operation.lock"

    @property
    def lost_tails(self) -> Path:
        """Return the private folder of recovery exports."""
        return self.var / "lost-tails"

    @property
    def watch(self) -> Path:
        """Return the monitor's folder: events, lag, the last known primary."""
        return self.var / "watch"

    @property
    def last_seen(self) -> Path:
        """Return the monitor's record of the last moment with a writable primary."""
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
        """Return the socket in var/run, or below /tmp if that path is too long.

        It is /tmp even if TMPDIR differs, because all commands must find the same socket.
        """
        socket = self.run / "supervisor.sock"
        if len(bytes(socket)) <= SOCKET_PATH_LIMIT:
            return socket
        digest = hashlib.sha256(bytes(self.var)).hexdigest()[:16]
        return Path(
            "/tmp",  # noqa: S108  # its owner is checked before use
            f"indico-zodbrepl-{digest}",
            "supervisor.sock",
        )

    @property
    def tunnel_conf(self) -> Path:
        """Return the configuration of this host's tunnel."""
        return self.etc / "tunnel.cfg"

    @property
    def tunnel_digest(self) -> Path:
        """Return the record of the files that the running tunnel has read."""
        return self.run / "tunnel.digest"

    @property
    def etcd_conf(self) -> Path:
        """Return the configuration of this host's member of etcd."""
        return self.etc / "etcd.json"

    @property
    def etcd_digest(self) -> Path:
        """Return the record of the files that the running member has read."""
        return self.run / "etcd.digest"

    @property
    def etcd_founded(self) -> Path:
        """Return the mark that this host's member has had data."""
        return self.var / "etcd-founded"

    @property
    def etcd_joins(self) -> Path:
        """Return the mark that this host's member starts without data, as `etcd replace` makes."""
        return self.var / "etcd-joins"

    @property
    def zodb_conf(self) -> Path:
        """Return the storage configuration of all Indico instances and the bulk loader."""
        return self.etc / "zodb.conf"

    def node_zodb_conf(self, node: Node) -> Path:
        """Return a configuration that reads only from this node, for verification."""
        return self.etc / f"zodb-{node.name}.conf"

    def indico_conf(self, instance: IndicoInstance) -> Path:
        return self.etc / instance.name / "indico.conf"

    def logging_conf(self, instance: IndicoInstance) -> Path:
        return self.etc / instance.name / "logging.conf"

    def program_log(self, program: str) -> Path:
        """Return the log of a supervised program."""
        return self.log / f"{program}.log"


def state_file(node: Node) -> Path:
    """Return the path of a node's assigned state."""
    return node.data_directory / "state.json"


def data_fs(node: Node) -> Path:
    """Return the path of a node's database."""
    return node.data_directory / "Data.fs"


def blobs(node: Node) -> Path:
    """Return the folder of the files in a node's database, beside its Data.fs."""
    return node.data_directory / "blobs"


def zeo_conf(node: Node) -> Path:
    """Return the path of the storage server's configuration, written at each start."""
    return node.data_directory / "zeo.conf"


def lineage_file(node: Node) -> Path:
    """Return the path of the record of a node's verified history."""
    return node.data_directory / "lineage.json"


def control_socket(node: Node) -> Path:
    """Return the path of the server's control socket; it may be too long to bind."""
    return node.data_directory / "control.sock"


def authorities_file(tls: Path) -> Path:
    """Return the file with the authorities that a host trusts; ``tls`` is ``Layout.tls``."""
    return tls / "ca.pem"


def etcd_authorities_file(tls: Path) -> Path:
    """Return the file with the authorities that etcd trusts, for certificates of hosts only."""
    return tls / "etcd-ca.pem"


def host_file(tls: Path) -> Path:
    """Return the file with the certificate and the key of a host."""
    return tls / "host.pem"
