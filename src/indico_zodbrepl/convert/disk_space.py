"""The disk space that the nodes of a conversion's target need."""

from __future__ import annotations

import fnmatch
import os
from pathlib import Path

from indico_zodbrepl.backends import backend_of
from indico_zodbrepl.cluster import Cluster
from indico_zodbrepl.convert.sources import Source
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host.node_files import blobs_in

# The disk space of a node: a multiple of the source's size, and a constant in bytes.  Measured
# (docs/how-to/convert.md) and rounded up; servers keep logs of what they write.
FACTORS = {
    "zrs": (1.1, 0),
    "zeo": (1.1, 0),
    "filestorage": (1.1, 0),
    "relstorage-sqlite": (1.7, 0),
    "neo": (2.5, 0),
    "relstorage-postgresql": (2.0, 400_000_000),
    "relstorage-mariadb": (6.0, 250_000_000),
}
UNKNOWN = (6.0, 0)
# The same for the uploaded files in the database; logs of changes included.
FILE_FACTORS = {"relstorage-postgresql": 1.5, "relstorage-mariadb": 2.2}
FILE_FACTOR = 1.02

# Logs of changes, which servers remove again.
LOGS = ("pg_wal", "ib_logfile*", "ibtmp*", "binlog.*", "*-bin.*", "*relay-bin*", "*.log")


def file_bytes(source: Source) -> int:
    """Return the bytes of the uploaded files in the source's database, if they are beside it.

    Those within the database of a server count as its data.
    """
    cluster = source.cluster
    folders = (
        [source.opened.parent]
        if cluster is None or not source.served
        else [node.data_directory for node in cluster.nodes]
    )
    return max(sum(each.bytes for each in blobs_in(folder)) for folder in folders)


def source_bytes(source: Source) -> int | None:
    """Return the approximate bytes of one copy of the source's data; None if unknown.

    Files of ``file_bytes`` do not count.
    """
    cluster = source.cluster
    if cluster is None or not source.served:
        return source.opened.stat().st_size
    shares = backend_of(cluster).share_of_data(cluster)
    sizes = (
        folder_bytes(cluster.node(name).data_directory) / share for name, share in shares.items()
    )
    return max(0, int(max(sizes, default=0)) - file_bytes(source)) or None


def needed(target: Cluster, size: int, file_size: int = 0) -> dict[str, int]:
    """Return the bytes that each managed node needs for data and files of a size, by its name."""
    factor, besides = FACTORS.get(target.backend, UNKNOWN)
    files = int(file_size * FILE_FACTORS.get(target.backend, FILE_FACTOR))
    shares = backend_of(target).share_of_data(target)
    return {name: int(size * factor * share) + besides + files for name, share in shares.items()}


def refuse_too_little(target: Cluster, size: int, file_size: int = 0) -> None:
    """Raise OperatorError (exit 8) if a disk is too small for the target's nodes.

    Data of an interrupted conversion count as copied.
    """
    wanted = needed(target, size, file_size)
    disks: dict[int, tuple[Path, int]] = {}
    for node in target.local.nodes:
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
                "there is too little disk space for the target",
                f"{folder}: about {mb(missing)} are needed, {mb(free)} are free",
                "free some space, or set data-directory to another disk",
                ExitCode.REFUSED,
            )


def folder_bytes(folder: Path) -> int:
    """Return the bytes of a folder's files without logs; 0 if it does not exist."""
    total = 0
    for path, folders, files in os.walk(folder):
        folders[:] = [each for each in folders if not _is_log(each)]
        for each in files:
            if not _is_log(each):
                total += _size(os.path.join(path, each))
    return total


def mb(size: float) -> str:
    """Return a number of bytes as text."""
    return f"{size / 1e6:,.1f} MB" if size < 1e9 else f"{size / 1e9:,.1f} GB"


def _size(path: str) -> int:
    try:
        return os.lstat(path).st_size
    except FileNotFoundError:
        return 0


def _is_log(name: str) -> bool:
    return any(fnmatch.fnmatch(name, pattern) for pattern in LOGS)


def _existing(folder: Path) -> Path:
    return next(each for each in (folder, *folder.parents) if each.exists())
