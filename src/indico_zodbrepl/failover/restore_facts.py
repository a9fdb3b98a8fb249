"""What is to be known before a node is restored: read from disks and asked of servers."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

from ..backends import backend_of
from ..cluster import Cluster, Node
from ..cluster.installation import Installation
from ..cluster.layout import Layout
from ..errors import OperatorError
from ..node import admission, datafs, half_packed, run, supervisor
from ..node.backups import Backup, Keeper, keeper_of
from ..node.datafs_answers import Progress
from ..probing.answers import ServerRole
from ..probing.wire import ProbeError
from .asking import replication_of
from .backup import folder_of, refuse_another
from .restore import Other, RestoreFacts
from .situation import LastSeen, read_last_seen
from .telling import Teller


def gather(cluster: Cluster, installation: Installation, name: str, folder: Path | None, *,
           at: str | None, say: Callable[[str], None]) -> RestoreFacts:
    """All that a restore of a node is planned by.  Reads the whole backup, and the present data.

    Args:
        folder: of the backups; None for that of the cluster file.
        at: for the newest backup that was not made later, ``YYYY-MM-DD-HH-MM-SS`` in UTC.
        say: takes a line now and then that tells how far it is.

    Raises OperatorError: exit 2, no such node, or no folder is named; exit 8, the folder has
    another cluster's backups.
    """
    installation.check()
    node, keeper = run.node_named(cluster, name), keeper_of(cluster, installation)
    source = folder_of(cluster, folder)
    refuse_another(cluster, source)
    backup, problem = _backup(keeper, source, at, Teller(say))
    obstacle = _obstacle(cluster, node)
    supervised = not supervisor.is_away(cluster)
    guarded = backend_of(cluster).guarded
    present = None
    if backup is not None and backup.tid is not None and not obstacle[0]:
        present = keeper.newer(node, backup.tid)
    return RestoreFacts(
        now=time.time(), node=name, epoch=_next_epoch(cluster, node) if guarded else 0,
        folder=source, backup=backup, problem=problem, present=present, obstacle=obstacle,
        free=shutil.disk_usage(_nearest(node.data_directory)).free, aside=aside(node, time.time()),
        supervised=supervised, has_program=node.has_program, guarded=guarded,
        clients=tuple(each.name for each in cluster.indico),
        strangers=tuple(_strangers(cluster, node, keeper, supervised=supervised)),
        others=tuple(_other(cluster, installation, each) for each in cluster.nodes
                     if each != node),
        last_seen=_last_seen(Layout(cluster).last_seen))


def aside(node: Node, now: float) -> Path:
    """Where a node's data are kept: beside its data directory, or in it if that is a disk."""
    data = node.data_directory
    name = f"{data.name}.before-restore-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime(now))}"
    beside = data.parent
    if not data.is_dir():
        return beside / name  # there is nothing to keep
    if beside.stat().st_dev == data.stat().st_dev and os.access(beside, os.W_OK):
        return beside / name
    return data / name


def _nearest(path: Path) -> Path:
    """The folder, or the first one above it that is there."""
    return next(each for each in (path, *path.parents) if each.is_dir())


def _backup(keeper: Keeper, folder: Path, at: str | None,
            tell: Callable[[Progress], None]) -> tuple[Backup | None, str]:
    try:
        return keeper.inspect(folder, at, tell), ""
    except OperatorError as error:
        return None, error.detail or error.notice


def _obstacle(cluster: Cluster, node: Node) -> tuple[str, str]:
    """Why a node's data are not to be replaced: all of them lie beside the missing file."""
    if not backend_of(cluster).data_files:
        return "", ""
    try:
        half_packed.refuse(node)
    except OperatorError as error:
        old = node.data_directory / "Data.fs.old"
        return (error.detail, error.hint) if old.exists() else ("", "")
    return "", ""


def _strangers(cluster: Cluster, node: Node, keeper: Keeper, *, supervised: bool) -> list[int]:
    """Who may write to the data and is no program that a restore ends."""
    found = []
    with contextlib.suppress(OSError):
        found = keeper.holders(node)
    return [pid for pid in found if not (supervised and _is_program(cluster, pid))]


def _is_program(cluster: Cluster, pid: int) -> bool:
    """Whether a process works in one of the cluster's folders, as all its programs do."""
    try:
        works_in = Path(os.readlink(f"/proc/{pid}/cwd"))
    except (FileNotFoundError, ProcessLookupError):
        return True  # it has just gone
    except PermissionError:
        return False
    folders = [cluster.var_directory, *(node.data_directory for node in cluster.nodes)]
    return any(works_in.is_relative_to(folder.resolve()) for folder in folders)


def _next_epoch(cluster: Cluster, node: Node) -> int:
    seen, _testimonies = admission.highest_epoch(cluster, node.name,
                                                 run.foreseen(cluster, node).epoch)
    return seen + 1


def _other(cluster: Cluster, installation: Installation, node: Node) -> Other:
    last = None
    with contextlib.suppress(OperatorError):  # damaged, or not there
        last = datafs.last(installation, node.data_directory / "Data.fs").tid
    try:
        found = replication_of(cluster, node)
    except ProbeError:
        found = None
    primary = found is not None and found.role is ServerRole.PRIMARY and last is not None
    return Other(node.name, last, primary, found is not None)


def _last_seen(path: Path) -> LastSeen | None:
    try:
        return read_last_seen(json.loads(path.read_text("utf-8")))
    except (OSError, ValueError):
        return None  # it is only an estimate
