"""The facts by which a restore is planned."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from indico_zodbrepl.backends import backend_of
from indico_zodbrepl.cluster import Node
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.cluster.lookup import node_named
from indico_zodbrepl.cluster.model import Cluster
from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.etcd import leadership
from indico_zodbrepl.host.backup import Backup, BackupFolder, Newer
from indico_zodbrepl.host.data_interface import Backups
from indico_zodbrepl.host.datafs_answers import Progress
from indico_zodbrepl.host.interface import Host, HostAwayError, host_of
from indico_zodbrepl.host.last_seen import LastSeen
from indico_zodbrepl.operations import maintenance
from indico_zodbrepl.operations.backup import folder_of
from indico_zodbrepl.operations.facts import replication_of
from indico_zodbrepl.operations.messages import Teller
from indico_zodbrepl.probing.answers import ServerRole
from indico_zodbrepl.probing.wire import ProbeError

SPARE = 64 * 1024 * 1024
"""Bytes that must stay free."""


@dataclasses.dataclass(frozen=True)
class Other:
    """Another node of a replicating cluster.

    Attributes:
        last: its last transaction, 16 hex digits; None if it has no readable data.
        primary: True if it runs as the primary.
        runs: True if its server answers.
        away: why its host can't tell what it has; empty if the host answers.
    """

    name: str
    last: str | None
    primary: bool
    runs: bool
    away: str = ""


@dataclasses.dataclass(frozen=True)
class RestoreFacts:
    """The facts by which a restore is planned.

    Attributes:
        now: seconds since 1970.
        epoch: the new epoch, with roles; else 0.
        folder: of the backups.
        copied: True if it is on another host than the node, to which the backup is copied first.
        backup: the requested one; None if there is none.
        problem: why there is none.
        present: the newer transactions of the node's data; None if it has no data.
        obstacle: why the node's data must not be replaced, and what to do; may be empty.
        free: bytes free where the data are.
        aside: where the present data will be kept, a folder.
        supervised: whether supervisord runs.
        has_program: whether the node has a server of its own.
        guarded: whether nodes are primary and secondary.
        clients: the Indico instances.
        strangers: processes outside the cluster that have the data open.
        others: the other nodes.
        last_seen: the monitor process's record; None if there is none.
        monitor_away: why its host does not answer; empty if it does.
        clients_away: why the host of an Indico instance does not answer, by instance.
        unpaused: True if the automation would replace a primary that is stopped.
    """

    now: float
    node: str
    epoch: int
    folder: BackupFolder
    backup: Backup | None
    problem: str
    present: Newer | None
    obstacle: tuple[str, str]
    free: int
    aside: Path
    supervised: bool
    has_program: bool
    guarded: bool
    clients: tuple[str, ...]
    strangers: tuple[int, ...] = ()
    others: tuple[Other, ...] = ()
    last_seen: LastSeen | None = None
    copied: bool = False
    monitor_away: str = ""
    clients_away: Mapping[str, str] = dataclasses.field(default_factory=dict)
    unpaused: bool = False

    @property
    def needed(self) -> int:
        """Return the bytes of the restored data and their backup, and of a readable copy of a
        damaged one.
        """
        damaged = self.present.size if self.present and self.present.damage else 0
        restored = self.backup.bytes + self.backup.blob_bytes if self.backup else 0
        return restored * (2 if self.copied else 1) + damaged + SPARE


def gather(
    cluster: Cluster,
    installation: Installation,
    name: str,
    folder: str | Path | None,
    *,
    at: str | None,
    say: Callable[[str], None],
) -> RestoreFacts:
    """Gather the facts of a restore; read the whole backup and the present data.

    Args:
        folder: of the backups, as of ``backup.folder_of``.
        at: for the newest backup up to that time, ``YYYY-MM-DD-HH-MM-SS`` in UTC.
        say: called now and then with a line of progress.

    Raises OperatorError: exit 2, no such node, or no folder is named; exit 8, the folder has
    another cluster's backups.
    """
    installation.check()
    node, host = node_named(cluster, name), host_of(cluster, installation)
    backups = host.backups()
    source = folder_of(cluster, folder)
    backups.check_folder(source)
    backup, problem = _backup(backups, source, at, Teller(say))
    half_packed = host.half_packed(name)
    obstacle = (half_packed.detail, half_packed.hint) if half_packed else ("", "")
    supervised = not host.supervisor_is_away(name)
    guarded = backend_of(cluster).has_epochs
    present = None
    if backup is not None and backup.tid is not None and not obstacle[0]:
        present = backups.newer(name, backup.tid)
    last_seen, monitor_away = _last_seen(host)
    return RestoreFacts(
        now=time.time(),
        node=name,
        epoch=_next_epoch(cluster, node) if guarded else 0,
        folder=source,
        backup=backup,
        problem=problem,
        present=present,
        obstacle=obstacle,
        free=host.free_bytes(name),
        aside=host.aside(name, "restore", time.time()),
        supervised=supervised,
        has_program=node.has_program,
        guarded=guarded,
        clients=tuple(each.name for each in cluster.indico),
        strangers=tuple(_strangers(host, name, backups, supervised=supervised)),
        others=tuple(_other(cluster, installation, each) for each in cluster.nodes if each != node),
        last_seen=last_seen,
        monitor_away=monitor_away,
        clients_away=_clients_away(cluster, host),
        copied=source.host not in ("", node.on),
        unpaused=cluster.automatic and maintenance.paused(cluster) is None,
    )


def _backup(
    backups: Backups, folder: BackupFolder, at: str | None, tell: Callable[[Progress], None]
) -> tuple[Backup | None, str]:
    try:
        return backups.inspect(folder, at, tell), ""
    except OperatorError as error:
        return None, error.detail or error.notice


def _last_seen(host: Host) -> tuple[LastSeen | None, str]:
    """Return the monitor's record, or why its host does not answer."""
    try:
        return host.last_seen(), ""
    except HostAwayError as error:
        return None, error.notice


def _clients_away(cluster: Cluster, host: Host) -> dict[str, str]:
    found = {}
    for instance in cluster.indico if cluster.hosts else ():
        try:
            host.identity(str(instance.on))
        except HostAwayError as error:
            found[instance.name] = error.notice
    return found


def _strangers(host: Host, name: str, backups: Backups, *, supervised: bool) -> list[int]:
    """Return the processes outside the cluster that may write to the data."""
    return [
        pid for pid in backups.holders(name) if not (supervised and host.is_of_cluster(name, pid))
    ]


def _next_epoch(cluster: Cluster, node: Node) -> int:
    host = host_of(cluster)
    seen = host.highest_epoch(node.name, host.state(node.name).epoch)
    return max(seen, leadership.epoch(cluster)) + 1


def _other(cluster: Cluster, installation: Installation, node: Node) -> Other:
    host, last = host_of(cluster, installation), None
    try:
        host.has_folder(node.name)
    except OperatorError as error:
        return Other(node.name, None, primary=False, runs=False, away=error.notice)
    with contextlib.suppress(OperatorError):  # damaged or missing
        last = host.last_transaction(node.name).tid
    try:
        found = replication_of(cluster, node)
    except ProbeError:
        found = None
    primary = found is not None and found.role is ServerRole.PRIMARY and last is not None
    return Other(node.name, last, primary, found is not None)
