"""Plan a conversion: its source and target, its steps, and the disk space that it needs."""

from __future__ import annotations

import dataclasses
import fnmatch
import os
from collections.abc import Mapping
from pathlib import Path

from indico_zodbrepl.backends import backend_of
from indico_zodbrepl.cluster import Cluster, Node, Role
from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.cluster.layout import Layout, data_fs
from indico_zodbrepl.cluster.shapes import SHAPES
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host import daemon
from indico_zodbrepl.host.interface import SUPERVISOR_AWAY, host_of
from indico_zodbrepl.host.node_files import blobs_in
from indico_zodbrepl.host.programs import STARTED
from indico_zodbrepl.host.supervisor import ProgramState, Supervisor

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

UNREACHABLE = "UNREACHABLE"
"""State of a program whose supervisord, or host, does not answer."""

# Logs of changes, which servers remove again.
LOGS = ("pg_wal", "ib_logfile*", "ibtmp*", "binlog.*", "*-bin.*", "*relay-bin*", "*.log")


@dataclasses.dataclass(frozen=True)
class Conversion:
    """A conversion that can start.

    Attributes:
        opened: the Data.fs to fill, or the ZODB configuration of the target's servers.
        size: of the source in bytes, about, uploaded files included; None if unknown.
        not_kept: one sentence for each kind of data that the target does not keep.
        steps: one line each.
        command: starts or continues the conversion.
    """

    source: Source
    target: Cluster
    opened: Path
    size: int | None
    not_kept: tuple[str, ...]
    steps: tuple[str, ...]
    command: str


def plan(source: Source, target: Cluster, commands: Commands) -> Conversion:
    """Return the plan of a conversion; change nothing.

    Args:
        commands: of the source's cluster, or of the target's for a file alone.

    Raises:
        OperatorError: exit 8; a cluster is running, they share data, other nodes of the target
            hold data, or there is too little disk space.
    """
    _refuse_shared(source, target)
    if source.served and source.cluster is not None:
        refuse_elsewhere(source.cluster, "source")
    refuse_elsewhere(target, "target")
    if source.cluster is not None:
        refuse_running(source.cluster, "source")
        host_of(source.cluster).refuse_unfinished_conversion()
    refuse_running(target, "target")
    _refuse_other_nodes(target)
    size, file_size = source_bytes(source), file_bytes(source)
    if file_size and not SHAPES[target.backend].keeps_blobs:
        raise no_files_kept(source, target)
    if size is not None:
        refuse_too_little(target, size, file_size)
    opened = target_file(target)
    where = str(target.source)
    command = (
        commands.zodbrepl("convert", "--to", where)
        if source.cluster is not None
        else Commands(target, commands.home).zodbrepl(
            "convert", "--from", str(source.opened), "--to", where
        )
    )
    return Conversion(
        source,
        target,
        opened,
        None if size is None else size + file_size,
        backend_of(target).not_kept(target),
        _steps(source, target, opened),
        command,
    )


def _steps(source: Source, target: Cluster, opened: Path) -> tuple[str, ...]:
    steps = []
    if source.cluster is not None and source.served:
        steps.append(
            f"start the storage of the source, cluster {source.cluster.name}, without Indico"
        )
    if is_filled_directly(target):
        steps.append(
            f"fill {opened.name}.part of node {writable_node(target).name}: {opened.parent}"
        )
    else:
        steps.append(f"start the storage of the target, cluster {target.name}, without Indico")
    steps += [
        "compare the target's present data, if any, with the start of the source",
        "copy the remaining transactions under the same transaction ids, with uploaded files",
        "read both sides again and compare them",
    ]
    if is_filled_directly(target):
        steps.append(f"rename it to {opened.name}")
    if source.served or not is_filled_directly(target):
        steps.append("stop the storage that was started")
    return tuple(steps)


def _refuse_shared(source: Source, target: Cluster) -> None:
    theirs = {node.data_directory.resolve() for node in target.nodes}
    if source.cluster is None:
        mine = {source.opened.resolve().parent}
    else:
        theirs.add(Layout(target).var.resolve())
        mine = {
            Layout(source.cluster).var.resolve(),
            *(node.data_directory.resolve() for node in source.cluster.nodes),
        }
    for folder in mine & theirs:
        raise OperatorError(
            "the source and the target of the conversion share a folder",
            f"{folder} is used by both",
            f"give the target its own folders in {target.source}",
            ExitCode.REFUSED,
        )


def _refuse_other_nodes(target: Cluster) -> None:
    if not is_filled_directly(target):
        return
    filled, host = writable_node(target), host_of(target)
    for node in target.nodes:
        if node is not filled and host.has_data(node.name):
            raise OperatorError(
                "the target holds other data",
                f"node {node.name} has data in {node.data_directory}; only the primary, "
                f"{filled.name}, is filled; the others copy it",
                "move them away if they are not needed",
                ExitCode.REFUSED,
            )


@dataclasses.dataclass(frozen=True)
class Source:
    """The source of a conversion.

    Attributes:
        label: for messages.
        opened: a Data.fs, or the ZODB configuration of the source's servers.
        cluster: None for a file alone.
    """

    label: str
    opened: Path
    cluster: Cluster | None = None

    @property
    def served(self) -> bool:
        """Return True if it is read through its cluster's servers, which must run."""
        return self.cluster is not None and not is_filled_directly(self.cluster)


def source_of_file(path: Path) -> Source:
    """Return a Data.fs as source.  Raises OperatorError (exit 2) if there is no such file."""
    path = Path(os.path.abspath(path))
    if not path.is_file() or path.suffix != ".fs":
        raise OperatorError(
            f"{path} is not a Data.fs",
            "there is no such file" if not path.exists() else "its name must end in .fs",
            exit_code=ExitCode.BAD_CONFIG,
        )
    return Source(str(path), path)


def source_of_cluster(cluster: Cluster) -> Source:
    """Return the data of a cluster's primary.  Raises OperatorError (exit 6) without data."""
    label = f"cluster {cluster.name} ({cluster.backend})"
    if not is_filled_directly(cluster):
        layout = Layout(cluster)
        readable = backend_of(cluster).readable_nodes(cluster)
        conf = layout.node_zodb_conf(writable_node(cluster)) if readable else layout.zodb_conf
        return Source(label, conf, cluster)
    refuse_elsewhere(cluster, "source")
    node = writable_node(cluster)
    if not data_fs(node).is_file():
        raise OperatorError(
            "there is nothing to convert",
            f"node {node.name} has no {data_fs(node)}",
            exit_code=ExitCode.NOT_RUNNING,
        )
    return Source(f"{label}, node {node.name}", data_fs(node), cluster)


def target_file(cluster: Cluster) -> Path:
    """Return the file to fill: the primary's Data.fs, or the ZODB configuration."""
    if is_filled_directly(cluster):
        return data_fs(writable_node(cluster))
    return Layout(cluster).zodb_conf


def is_filled_directly(cluster: Cluster) -> bool:
    """Return True if the nodes' own files are read and filled, without their servers."""
    return all(backend_of(cluster).data_file(node) is not None for node in cluster.nodes)


def writable_node(cluster: Cluster) -> Node:
    """Return the primary, according to the records of the epoch or to the nodes' states.

    Raises OperatorError (exit 8) for an unreadable state file, ValueError for a backend without
    primary.
    """
    host = host_of(cluster)
    record = host.newest_record()
    if record is not None and record.primary in {node.name for node in cluster.nodes}:
        return cluster.node(record.primary)
    states = [host.state(node.name) for node in cluster.nodes]
    newest = max(
        (each for each in states if each.role is Role.PRIMARY), key=lambda each: each.epoch
    )
    return cluster.node(newest.node)


def refuse_running(cluster: Cluster, what: str) -> None:
    """Raise OperatorError (exit 8) if a running program of a cluster could use its data.

    Database servers that a killed conversion left running are allowed.

    Args:
        what: ``source`` or ``target``.
    """
    nodes = {node.program for node in cluster.nodes}
    states = _programs(cluster)
    silent = {
        each.description
        for each in states.values()
        if each.state == UNREACHABLE and each.description != SUPERVISOR_AWAY
    }
    if silent:
        raise OperatorError(
            f"it is unknown whether the {what} of the conversion is running",
            "; ".join(sorted(silent)),
            Commands.here(cluster).zodbrepl("status"),
            ExitCode.REFUSED,
        )
    running = [
        name
        for name, program in states.items()
        if program.state in STARTED and (name not in nodes or is_filled_directly(cluster))
    ]
    if running:
        raise OperatorError(
            f"the {what} of the conversion is running",
            ", ".join(running),
            Commands.here(cluster).zodbrepl("down"),
            ExitCode.REFUSED,
        )


def _programs(cluster: Cluster) -> Mapping[str, ProgramState]:
    """Return the programs of a cluster by name, on all its hosts."""
    if cluster.hosts:
        return host_of(cluster).programs()
    return Supervisor(cluster).states() if daemon.is_running(cluster) else {}


def refuse_elsewhere(cluster: Cluster, what: str) -> None:
    """Raise OperatorError (exit 8) if this host can't open a cluster's data.

    Args:
        what: ``source`` or ``target``.
    """
    if is_filled_directly(cluster):
        node = writable_node(cluster)
        if not cluster.is_here(node):
            raise OperatorError(
                f"the {what} of the conversion is on another host",
                f"node {node.name} of cluster {cluster.name} is on host {node.on}",
                f"type the command on host {node.on}",
                ExitCode.REFUSED,
            )
        return
    other = next((node for node in cluster.nodes if not cluster.is_here(node)), None)
    if other is not None:
        raise OperatorError(
            f"the {what} of the conversion is on several hosts",
            f"node {other.name} of cluster {cluster.name} is on host {other.on}, and a conversion "
            f"starts the storage of this host only",
            "convert to or from a cluster whose nodes are all on this host, or a Data.fs",
            ExitCode.REFUSED,
        )


def no_files_kept(source: Source, target: Cluster) -> OperatorError:
    """Return the error for a source with uploaded files and a target that keeps none."""
    again = Commands.here(source.cluster or target)
    return OperatorError(
        f"the backend {target.backend} keeps no uploaded files in the database",
        f"{source.label} has some, or did since its last pack",
        f"move them to the archive (set `files archive`, then `{again.zodbrepl('files', 'export')}`"
        f", then `{again.zodbrepl('pack', '--days', '0')}`), then convert",
        ExitCode.REFUSED,
    )


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
