"""Uploaded files: move them from Indico's archive into the database, and back; verify them.

An import or export holds the lock of operations and is journaled.  Both may be interrupted or
killed and run again.  They give up when the storage is away for a minute, so that no failover waits
for them any longer.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from indico_zodbrepl.backends import backend_of, limit
from indico_zodbrepl.cluster import Cluster, Node
from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.cluster.lookup import node_named
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host.disks import Disk, disk_of, gib
from indico_zodbrepl.host.interface import host_of
from indico_zodbrepl.host.recovering import zodb_conf
from indico_zodbrepl.host.uploads import Exported, Files, Imported, OnProgress, Survey
from indico_zodbrepl.operations import journal, pack, store
from indico_zodbrepl.operations.operation import Outcome


@dataclasses.dataclass(frozen=True)
class Room:
    """The room on a disk for what an import or export writes.

    Attributes:
        names: of the nodes that have their data there, or the folder; at least one.
        needed: bytes that are written to it.
    """

    names: tuple[str, ...]
    disk: Disk
    needed: int

    @property
    def is_enough(self) -> bool:
        """Return True if the disk is not full afterwards."""
        return self.disk.free - self.needed > self.disk.full_below

    def __str__(self) -> str:
        return f"{', '.join(self.names)}: {self.disk}, {gib(self.needed)} needed"


@dataclasses.dataclass(frozen=True)
class Move:
    """An import or an export that can begin.

    Attributes:
        files: what it works with.
        survey: the files that there are.
        rooms: the disks that it writes to.
        unasked: nodes whose disks can't be asked.
        command: begins or continues it.
        to: the folder of an export that changes no entry; None for other moves.
    """

    files: Files
    survey: Survey
    rooms: tuple[Room, ...]
    command: str
    to: Path | None = None
    unasked: tuple[str, ...] = ()


def prepare_import(
    cluster: Cluster, installation: Installation, folder: Path | None, *, unreferenced: bool
) -> Move:
    """Return what ``import_files`` would do; change nothing.

    Args:
        folder: with the files; None for Indico's ArchiveDir of this host.
        unreferenced: also count files that no entry refers to.

    Raises:
        OperatorError: exit 8, the storage keeps no files, another process has it open, no file is
            in the folder, or a disk has too little room; exit 2, there is no such folder; exit 6,
            the storage is away.
    """
    commands = Commands.here(cluster)
    command = commands.zodbrepl(
        "files", "import", *([] if folder is None else ["--from", str(folder)])
    )
    _refuse(cluster, folder)
    files = Files(cluster, installation, zodb_conf(cluster), folder)
    found = files.survey(unreferenced=unreferenced)
    if found.missing and not found.archived.files and not found.stored.files:
        raise OperatorError(
            "no file was imported",
            f"none of {len(found.missing):,} files is in {found.archive}",
            "type the command on the host that has them, or name their folder with --from",
            ExitCode.REFUSED,
        )
    disks = {node: host_of(cluster).disk(node.name) for node in cluster.nodes if node.managed}
    unasked = tuple(node.name for node, disk in disks.items() if disk is None)
    rooms = tuple(_rooms_of_nodes(disks, found.archived.bytes))
    return Move(files, found, rooms, command, unasked=unasked)


def prepare_export(cluster: Cluster, installation: Installation, to: Path | None) -> Move:
    """Return what ``export_files`` would do; change nothing.

    Args:
        to: a folder that gets copies, while entries stay; None to move the files into Indico's
            ArchiveDir of this host.

    Raises OperatorError as ``prepare_import``.
    """
    commands = Commands.here(cluster)
    command = commands.zodbrepl("files", "export", *([] if to is None else ["--to", str(to)]))
    _refuse(cluster, None)
    files = Files(cluster, installation, zodb_conf(cluster))
    found = files.survey()
    target = to or found.archive
    disk = disk_of(next(each for each in (target, *target.parents) if each.is_dir()))
    rooms = () if disk is None else (Room((str(target),), disk, found.stored.bytes),)
    return Move(files, found, rooms, command, to)


def import_files(move: Move, reason: str, on_progress: OnProgress) -> Imported:
    """Import the files of the archive, and journal it.

    Raises OperatorError: exit 8, another operation is running, or a disk has too little room; exit
    130, interrupted; as ``Files.import_all``.
    """
    refuse_short(move)
    with _alone(move, "files-import", f"from {move.survey.archive}", reason) as told:
        done = move.files.import_all(on_progress)
        told.figures.update(
            {
                "files": done.imported.files,
                "bytes": done.imported.bytes,
                "skipped": done.skipped,
                "missing": len(done.missing),
                "failed": len(done.failed),
            }
        )
        told.outcome = Outcome.INCOMPLETE if done.failed else Outcome.DONE
    return done


def export_files(move: Move, reason: str, on_progress: OnProgress) -> Exported:
    """Export the files of the database, and journal it.  Raises OperatorError as the import."""
    refuse_short(move)
    with _alone(move, "files-export", f"to {move.to or move.survey.archive}", reason) as told:
        done = move.files.export_all(move.to, on_progress)
        told.figures.update(
            {
                "files": done.exported.files,
                "bytes": done.exported.bytes,
                "skipped": done.skipped,
                "renamed": done.renamed,
                "failed": len(done.failed),
            }
        )
        told.outcome = Outcome.INCOMPLETE if done.failed else Outcome.DONE
    return done


def verify_files(
    cluster: Cluster, installation: Installation, name: str | None
) -> Sequence[tuple[str, Files]]:
    """Return what to verify: the name of each node and its files; empty for the whole storage.

    Args:
        name: of the node to verify; None for all that can be read.

    Raises OperatorError: exit 2, no such node, or it can't be read by itself.
    """
    shared = zodb_conf(cluster)
    nodes = tuple(backend_of(cluster).readable_nodes(cluster))
    if name is not None:
        chosen = node_named(cluster, name)
        if chosen not in nodes:
            raise OperatorError(
                f"node {name} can't be read by itself",
                f"nodes that can: {', '.join(each.name for each in nodes) or 'none'}",
                f"without --node the whole database is verified: "
                f"{Commands.here(cluster).zodbrepl('files', 'verify')}",
                ExitCode.BAD_CONFIG,
            )
        nodes = (chosen,)
    if not nodes or limit(cluster, "blobs") is not None:
        return [("", Files(cluster, installation, shared))]
    layout = Layout(cluster)
    return [
        (each.name, Files(cluster, installation, layout.node_zodb_conf(each))) for each in nodes
    ]


def refuse_short(move: Move) -> None:
    """Raise OperatorError (exit 8) unless all disks have room for a move."""
    short = [str(each) for each in move.rooms if not each.is_enough]
    if short:
        raise OperatorError(
            "too little room on a disk",
            "\n".join(short),
            f"make room there, then: {move.command}",
            ExitCode.REFUSED,
        )


def _refuse(cluster: Cluster, folder: Path | None) -> None:
    why = limit(cluster, "blobs")
    if why is not None:
        raise OperatorError(
            "uploaded files can't be in this cluster's database", why, exit_code=ExitCode.REFUSED
        )
    store.refuse_open(cluster)
    if folder is not None and not folder.is_dir():
        raise OperatorError(f"there is no folder {folder}", exit_code=ExitCode.BAD_CONFIG)
    in_the_way = pack.holder(cluster)
    if in_the_way:
        raise OperatorError(
            "the database is open",
            in_the_way,
            f"stop the cluster meanwhile: {Commands.here(cluster).zodbrepl('down')}",
            ExitCode.REFUSED,
        )


def _rooms_of_nodes(disks: Mapping[Node, Disk | None], size: int) -> Iterator[Room]:
    """Yield the disks of nodes, each once, with the bytes that its nodes need."""
    found: dict[tuple[str | None, int], tuple[list[Node], Disk]] = {}
    for node, disk in disks.items():
        if disk is not None:
            found.setdefault((node.on, disk.device), ([], disk))[0].append(node)
    for nodes, disk in found.values():
        names = tuple(f"node {each.name}" for each in nodes)
        yield Room(names, disk, size * len(nodes))


@contextlib.contextmanager
def _alone(move: Move, what: str, subject: str, reason: str) -> Iterator[journal.Told]:
    """Hold the lock of operations, and journal; say how to continue after a failure."""
    cluster = move.files.cluster
    try:
        with store.alone(cluster), journal.journaled(cluster, what, subject, reason) as told:
            store.refuse_unfinished(cluster)
            yield told
    except KeyboardInterrupt:
        raise OperatorError(
            "interrupted",
            "files that were moved are complete; the others are where they were",
            f"{move.command} (continues)",
            ExitCode.INTERRUPTED,
        ) from None
    except OperatorError as error:
        if error.exit_code in (ExitCode.FAILED, ExitCode.TIMED_OUT):
            error.hint = f"{move.command} (continues)"
            if any(os.strerror(code) in error.detail for code in (28, 122)):
                error.hint = f"make room, then: {error.hint}"
        raise
