"""How much room a conversion takes, from what is known before it begins."""

from __future__ import annotations

import fnmatch
import os
from pathlib import Path

from ..cluster import Cluster, Role
from ..cluster.settings import NeoSettings
from ..errors import ExitCode, OperatorError
from .sides import Source

# What a node's disk has to have room for: so many times the source, and so many bytes besides,
# by what was measured (docs/how-to/convert.md), rounded up.  Servers keep logs of what they write.
FACTORS = {"zrs": (1.1, 0), "zeo": (1.1, 0), "filestorage": (1.1, 0),
           "relstorage-sqlite": (1.7, 0), "neo": (2.5, 0),
           "relstorage-postgresql": (2.0, 400_000_000),
           "relstorage-mariadb": (6.0, 250_000_000)}
UNKNOWN = (6.0, 0)

# What servers write besides the data: logs of changes, which they remove again.
LOGS = ("pg_wal", "ib_logfile*", "ibtmp*", "binlog.*", "*-bin.*", "*relay-bin*", "*.log")


def source_bytes(source: Source) -> int | None:
    """About how many bytes one copy of the source's data takes; None when that can't be seen."""
    cluster = source.cluster
    if cluster is None or not source.served:
        return source.opened.stat().st_size
    nodes = [node for node in cluster.nodes if node.managed]
    if cluster.backend == "neo":
        total = sum(folder_bytes(node.data_directory) for node in nodes)
        return total // _neo_copies(cluster) or None
    return max((folder_bytes(node.data_directory) for node in nodes), default=0) or None


def needed(target: Cluster, size: int) -> dict[str, int]:
    """Bytes that each node of ours needs for data of that size, by the node's name; pure."""
    nodes = [node for node in target.nodes if node.managed]
    factor, besides = FACTORS.get(target.backend, UNKNOWN)
    if target.backend != "neo":
        return {node.name: int(size * factor) + besides for node in nodes}
    storages = [node for node in nodes if node.role is Role.STORAGE]
    share = size * factor * _neo_copies(target) / max(len(storages), 1)
    return {node.name: int(share) for node in storages}


def refuse_too_little(target: Cluster, size: int) -> None:
    """Raise OperatorError (exit 8) when a disk has not enough room for the target's nodes.

    What they hold already, as after an interrupted conversion, counts as copied.
    """
    wanted = needed(target, size)
    disks: dict[int, tuple[Path, int]] = {}
    for node in target.nodes:
        if node.name in wanted:
            folder = _existing(node.data_directory)
            missing = max(0, wanted[node.name] - folder_bytes(node.data_directory))
            _folder, before = disks.get(folder.stat().st_dev, (folder, 0))
            disks[folder.stat().st_dev] = folder, before + missing
    for folder, missing in disks.values():
        status = os.statvfs(folder)
        free = status.f_bavail * status.f_frsize
        if free < missing:
            raise OperatorError(
                "there is too little room for the target",
                f"{folder}: about {mb(missing)} are needed, {mb(free)} are free",
                "make room there, or set data-directory to another disk", ExitCode.REFUSED)


def folder_bytes(folder: Path) -> int:
    """Bytes of a folder's files, without logs; 0 when it isn't there.  Files may vanish."""
    total = 0
    for path, folders, files in os.walk(folder):
        folders[:] = [each for each in folders if not _is_log(each)]
        for each in files:
            if not _is_log(each):
                total += _size(os.path.join(path, each))
    return total


def mb(size: float) -> str:
    """A number of bytes, for people."""
    return f"{size / 1e6:,.1f} MB" if size < 1e9 else f"{size / 1e9:,.1f} GB"


def _neo_copies(cluster: Cluster) -> int:
    settings = cluster.settings
    return 1 + (settings.replicas if isinstance(settings, NeoSettings) else 0)


def _size(path: str) -> int:
    try:
        return os.lstat(path).st_size
    except FileNotFoundError:
        return 0


def _is_log(name: str) -> bool:
    return any(fnmatch.fnmatch(name, pattern) for pattern in LOGS)


def _existing(folder: Path) -> Path:
    return next(each for each in (folder, *folder.parents) if each.exists())
