"""Whether a conversion may begin, and what it will do, step by step."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from ..backends import backend_of
from ..cluster import Cluster
from ..cluster.commands import Commands
from ..cluster.layout import Layout
from ..errors import ExitCode, OperatorError
from ..node import converting
from . import space
from .sides import Source, refuse_running, target_file, writable_node


@dataclasses.dataclass(frozen=True)
class Conversion:
    """A conversion that may begin.

    Attributes:
        opened: what is filled: a Data.fs, or the ZODB configuration of its servers.
        size: about how many bytes the source takes; None when unknown.
        not_kept: what the target can't keep, a sentence each.
        steps: what will be done, a line each.
        command: what begins it, and lets it go on.
    """

    source: Source
    target: Cluster
    opened: Path
    size: int | None
    not_kept: tuple[str, ...]
    steps: tuple[str, ...]
    command: str


def plan(source: Source, target: Cluster, commands: Commands) -> Conversion:
    """Look at both sides; nothing is changed.

    Args:
        commands: of the source's cluster, or of the target's for a file alone.

    Raises:
        OperatorError: exit 8, one of them runs, they share data, other nodes of the target hold
            data, or there is too little room.
    """
    _refuse_shared(source, target)
    if source.cluster is not None:
        refuse_running(source.cluster, "source")
        converting.refuse_unfinished(source.cluster)
    refuse_running(target, "target")
    _refuse_other_nodes(target)
    size = space.source_bytes(source)
    if size is not None:
        space.refuse_too_little(target, size)
    opened = target_file(target)
    where = str(target.source)
    command = (commands.zodbrepl("convert", "--to", where) if source.cluster is not None else
               Commands(target, commands.home).zodbrepl("convert", "--from", str(source.opened),
                                                        "--to", where))
    return Conversion(source, target, opened, size, not_kept(target),
                      _steps(source, target, opened), command)


def not_kept(target: Cluster) -> tuple[str, ...]:
    """What a cluster's storage can't keep of another one's history, a sentence each; pure."""
    if backend_of(target).data_files:
        return ("transactions that a pack left nothing of",)
    if not getattr(target.settings, "keep_history", True):
        return ("older revisions of objects, and who changed what, so that nothing can be undone",)
    pointers = "where an undo took its data from (the data themselves are kept)"
    if target.backend == "neo":
        return (pointers, "the mark of packed transactions",
                "transactions that a pack left nothing of")
    return (pointers,)


def _steps(source: Source, target: Cluster, opened: Path) -> tuple[str, ...]:
    steps = []
    if source.cluster is not None and source.served:
        steps.append(f"start the storage of the source, cluster {source.cluster.name}, "
                     "without Indico")
    if backend_of(target).data_files:
        steps.append(f"fill {opened.name}.part of node {writable_node(target).name}: "
                     f"{opened.parent}")
    else:
        steps.append(f"start the storage of the target, cluster {target.name}, without Indico")
    steps += ["compare what the target holds already, if anything, with the source's beginning",
              "copy what follows, transaction by transaction, under the same transaction ids",
              "read it again on both sides and compare it"]
    if backend_of(target).data_files:
        steps.append(f"name it {opened.name}")
    if source.served or not backend_of(target).data_files:
        steps.append("end the storage that was started")
    return tuple(steps)


def _refuse_shared(source: Source, target: Cluster) -> None:
    theirs = {node.data_directory.resolve() for node in target.nodes}
    if source.cluster is None:
        mine = {source.opened.resolve().parent}
    else:
        theirs.add(Layout(target).var.resolve())
        mine = {Layout(source.cluster).var.resolve(),
                *(node.data_directory.resolve() for node in source.cluster.nodes)}
    for folder in mine & theirs:
        raise OperatorError("the source and the target of the conversion share a folder",
                            f"{folder} is used by both",
                            f"give the target folders of its own in {target.source}",
                            ExitCode.REFUSED)


def _refuse_other_nodes(target: Cluster) -> None:
    backend = backend_of(target)
    if not backend.data_files:
        return
    filled = writable_node(target)
    for node in target.nodes:
        if node is not filled and backend.has_data(target, node):
            raise OperatorError(
                "the target holds other data",
                f"node {node.name} has data in {node.data_directory}; only the primary, "
                f"{filled.name}, is filled, and the others follow it from the start",
                "move them away if nobody needs them", ExitCode.REFUSED)
