"""``zodbrepl pack``: which storages of a cluster are packed, in which order, and when none is."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path

from ..backends import backend_of
from ..cluster import Cluster
from ..cluster.commands import Commands
from ..cluster.installation import Installation
from ..cluster.layout import Layout
from ..errors import ExitCode, OperatorError
from ..monitor import take_snapshot
from ..monitor.snapshot import Level, Snapshot
from ..node import packing
from ..node.packing import Packed
from . import journal, store
from .steps import JsonValue

ALL = "the database"


@dataclasses.dataclass(frozen=True)
class Target:
    """One storage to be packed.

    Attributes:
        name: of the node, or ``ALL`` when the engine sees to all copies.
        zodb_conf: what opens it.
    """

    name: str
    zodb_conf: Path


def targets(cluster: Cluster, found: Snapshot) -> tuple[Target, ...]:
    """What is packed, in order: a copy after another, the primary's last, where a pack does not
    travel between servers; else the database through the storage that Indico uses."""
    layout, backend = Layout(cluster), backend_of(cluster)
    served = [node for node in backend.readable_nodes(cluster)
              if backend.programs(cluster, Installation(Path()), node)]
    if not (backend.data_files and served):
        return (Target(ALL, layout.zodb_conf),)
    primaries = {node.name for node in found.nodes if node.writable_primary}
    return tuple(Target(node.name, layout.node_zodb_conf(node))
                 for node in sorted(served, key=lambda node: node.name in primaries))


def objections(found: Snapshot) -> Iterator[str]:
    """Why this is not the moment to pack, a line each: every node has to be there and in order.

    A node that is away would miss the pack, or keep what the others dropped; and what a pack
    removes can't be compared with a node that is out of line.
    """
    for node in found.nodes:
        if not node.reachable:
            yield f"node {node.name}: {node.problem or 'it does not answer'}"
    names = {node.name for node in found.nodes if node.reachable}
    for alert in found.warnings:
        if alert.subject in names and alert.level is not Level.NOTICE:
            yield f"node {alert.subject}: {alert.text}"


def pack(cluster: Cluster, installation: Installation, days: float, reason: str,
         progress: Callable[[str], None]) -> list[tuple[Target, Packed]]:
    """Pack a cluster's storages; no other operation begins meanwhile.

    Args:
        days: what was current at any time in the last so many days is kept.
        progress: called with a line for people, also while a long pack goes on.

    Raises OperatorError: exit 8 when it is not the moment, else as ``node.packing.pack``.
    """
    done: list[tuple[Target, Packed]] = []
    with store.alone(cluster):
        store.refuse_unfinished(cluster)
        chosen = ready(cluster)
        with journal.journaled(cluster, "pack", cluster.name, reason) as told:
            told.figures["days"] = days
            for target in chosen:
                progress(f"packing {target.name}")
                try:
                    packed = packing.pack(
                        installation, target.zodb_conf, days,
                        lambda seconds, name=target.name: progress(  # type: ignore[misc]
                            f"packing {name}, for {seconds:.0f} s"))
                except OperatorError as error:
                    raise _failure(cluster, target, error, done) from error
                done.append((target, packed))
                told.figures[target.name] = _figures(done[-1][1])
    return done


def ready(cluster: Cluster) -> tuple[Target, ...]:
    """What is to be packed now; changes nothing.

    Raises OperatorError (exit 8) when it is not the moment.
    """
    found = take_snapshot(cluster)
    reasons = list(objections(found))
    if reasons:
        raise OperatorError("nothing is packed while a node is not in order", "; ".join(reasons),
                            Commands.here(cluster).zodbrepl("status"), ExitCode.REFUSED)
    return targets(cluster, found)


def _failure(cluster: Cluster, target: Target, error: OperatorError,
             done: list[tuple[Target, Packed]]) -> OperatorError:
    before = ", ".join(each.name for each, _ in done)
    hint = _stop_indico(cluster) if error.exit_code == ExitCode.REFUSED else ""
    return OperatorError(
        f"{target.name} was not packed",
        error.detail + (f"; packed before it: {before}" if before else ""), hint, error.exit_code)


def _stop_indico(cluster: Cluster) -> str:
    commands = Commands.here(cluster)
    programs = [instance.program for instance in cluster.indico]
    return (f"end it while the database is packed: {commands.supervisorctl('stop', *programs)}, "
            f"and afterwards {commands.zodbrepl('up')}")


def _figures(packed: Packed) -> dict[str, JsonValue]:
    return {"before": packed.before, "after": packed.after, "seconds": packed.seconds}
