"""Replace a node's data by a copy of another node's; the old data is kept in a folder."""

from __future__ import annotations

import dataclasses
import itertools
import os
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

from indico_zodbrepl.backends import native_of
from indico_zodbrepl.cluster import Cluster, Node
from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.cluster.files import sync_folder
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.cluster.layout import data_fs
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host import confirmed_commits, datafs, fencing, node_files
from indico_zodbrepl.host.datafs_answers import Copy, Progress
from indico_zodbrepl.probing import times

PART, FORMER_PART = "clone", "seed"
"""Folder in a node's data directory where a copy grows until it is complete; its name in earlier
releases, whose interrupted copies continue.
"""

WITH_DATA = ("blobs", "Data.fs.index", "Data.fs.packed")  # a copy has these too
BESIDE = ("Data.fs.tmp", "Data.fs.old", "blobs.old", "lineage.json")


@dataclasses.dataclass(frozen=True)
class StagedCopy:
    """A copy in a node's data directory that has not taken its place.

    Attributes:
        bytes: size of its data file and its blobs; 0 if there is no copy.
        complete: whether the copying has ended.
    """

    bytes: int
    complete: bool


def aside(node: Node, why: str, now: float) -> Path:
    """Return a free folder for a node's old data: beside its data directory, or in it if that is a
    disk.
    """
    data = node.data_directory
    name = f"{data.name}.before-{why}-{times.stamp(now)}"
    folder = data.parent
    if data.exists() and not (
        folder.stat().st_dev == data.stat().st_dev and os.access(folder, os.W_OK)
    ):
        folder = data
    names = itertools.chain([name], (f"{name}-{number}" for number in itertools.count(2)))
    return next(folder / each for each in names if not (folder / each).exists())


def put_aside(cluster: Cluster, node: Node, folder: Path) -> None:
    """Rename the data folder of a node's database server, unless that has been done.

    Raises OperatorError: exit 8, the server runs; exit 1, the folder can't be renamed.
    """
    if folder.exists():
        return
    data = native_of(cluster).data_folder(node)
    running = list(fencing.working_in(data))
    if running:
        raise OperatorError(
            f"the data of node {node.name} can't be put aside",
            f"processes {', '.join(map(str, running))} work in {data}",
            Commands.here(cluster).zodbrepl("node", "stop", node.name),
            ExitCode.REFUSED,
        )
    try:
        data.rename(folder)
        sync_folder(folder.parent)
    except OSError as error:
        raise OperatorError(
            f"the data of node {node.name} can't be put aside",
            f"{error.filename}: {error.strerror}",
        ) from error


def part(node: Node) -> Path:
    """Return the data file of a copy that is not in its place yet."""
    data = node.data_directory
    former = (data / FORMER_PART).exists() and not (data / PART).exists()
    return data / (FORMER_PART if former else PART) / "Data.fs"


def staged(node: Node) -> StagedCopy:
    """Return what an interrupted or complete copy has left."""
    for path in (part(node), part(node).with_name("Data.fs.part")):
        if path.exists():
            blobs = sum(each.bytes for each in node_files.blobs_in(path.parent))
            return StagedCopy(path.stat().st_size + blobs, complete=path == part(node))
    return StagedCopy(0, complete=False)


def stage(
    cluster: Cluster,
    installation: Installation,
    node: Node,
    source: Node,
    on_progress: Callable[[Progress], None] | None,
    *,
    seconds: float,
) -> Copy:
    """Copy another node's data into a folder of the node's; an interrupted copy continues."""
    target = part(node)
    target.parent.mkdir(mode=0o700, exist_ok=True)
    if target.exists():  # complete, but of another time: what is the same of it is kept
        target.rename(target.with_name(f"{target.name}.part"))
    if cluster.is_here(source):
        return _from_here(installation, data_fs(source), target, on_progress, seconds)
    from indico_zodbrepl.host import remote_copy  # noqa: PLC0415 - they need more
    from indico_zodbrepl.host.remote.node_data import NodeData  # noqa: PLC0415

    return remote_copy.copy(
        installation, NodeData(cluster, source), target, on_progress, seconds=seconds
    )


def _from_here(
    installation: Installation,
    origin: Path,
    target: Path,
    on_progress: Callable[[Progress], None] | None,
    seconds: float,
) -> Copy:
    before = origin.stat().st_ino
    # Copied before the data, the index that the server saved last says nothing of what the copy
    # lacks; with it the new server reads less.
    _copy_beside(origin, target, "index")
    done = datafs.copy(installation, origin, target, on_progress, seconds=seconds)
    if origin.stat().st_ino != before:  # packed meanwhile: it is another file's index
        target.with_name(f"{target.name}.index").unlink(missing_ok=True)
    _copy_beside(origin, target, "packed")
    return done


def swap(cluster: Cluster, node: Node, kept: Path) -> bool:
    """Put the copy in its place, and the old data in a folder; return False if there was none.

    Raises OperatorError: exit 8, the node's server runs; exit 1, the copy can't be moved.
    """
    try:
        if part(node).exists():
            # This process may have been frozen while another one started the server.
            with fencing.held(node):
                _swap(cluster, node, kept)
        new = part(node)
        if new.parent.exists():
            shutil.rmtree(new.parent)
    except OSError as error:
        raise OperatorError(
            f"the copy can't be put in its place: {error.strerror}",
            str(error.filename),
            exit_code=ExitCode.FAILED,
        ) from error
    if not data_fs(node).exists():
        raise OperatorError(
            f"the copy for {node.name} is gone",
            str(new),
            Commands.here(cluster).zodbrepl("clone", node.name),
        )
    return kept.exists()


def _swap(cluster: Cluster, node: Node, kept: Path) -> None:
    """Swap the data of a server that does not run.  Raises OperatorError, OSError."""
    data, new = node.data_directory, part(node)
    confirmed_commits.distrust(cluster, node, "a copy took the place of its data")
    old = [name for name in WITH_DATA if data_fs(node).exists() or (new.parent / name).exists()]
    # The copy is moved last, the old file last of the old ones.
    move(data, kept, (*BESIDE, *old, new.name))
    move(new.parent, data, (*WITH_DATA, new.name))


def move(source: Path, target: Path, names: Iterable[str]) -> None:
    """Rename the existing ones of ``names``, in this order; on disk afterwards.  Raises OSError."""
    present = [name for name in names if (source / name).exists()]
    if not present:
        return
    target.mkdir(mode=0o700, exist_ok=True)
    for name in present:
        (source / name).rename(target / name)
    for folder in (source, target, target.parent):
        sync_folder(folder)


def _copy_beside(source: Path, target: Path, kind: str) -> None:
    """Copy the file that a server keeps beside its data file; one of an earlier copy is removed."""
    new = target.with_name(f"{target.name}.{kind}")
    new.unlink(missing_ok=True)
    try:
        shutil.copyfile(source.with_name(f"{source.name}.{kind}"), new)
    except FileNotFoundError:
        return  # a server that has not stopped yet may have no index, and one never packed no note
