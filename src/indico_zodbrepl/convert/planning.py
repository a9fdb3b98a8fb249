"""Plan a conversion: its steps, and what speaks against it."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from indico_zodbrepl.backends import backend_of
from indico_zodbrepl.cluster import Cluster
from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.cluster.shapes import SHAPES
from indico_zodbrepl.convert.disk_space import file_bytes, refuse_too_little, source_bytes
from indico_zodbrepl.convert.sources import (
    Source,
    is_filled_directly,
    refuse_elsewhere,
    refuse_running,
    target_file,
    writable_node,
)
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host.interface import host_of


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
