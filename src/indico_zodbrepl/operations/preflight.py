"""Check before an operation that its nodes and the control host can write, and have room.

An operation that can't write after its point of no return leaves a cluster without a primary, so
this is verified before the first step, by writing.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping

from indico_zodbrepl.cluster import Cluster
from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host.disks import PROBE_BYTES, Disk, Room, mib
from indico_zodbrepl.host.interface import Host, host_of
from indico_zodbrepl.host.peers import of_nodes
from indico_zodbrepl.monitor.findings import Results
from indico_zodbrepl.operations.facts import Situation
from indico_zodbrepl.operations.model import Finding, Verdict
from indico_zodbrepl.probing.race import Race

WRITE_SECONDS = 5.0
"""For the test file of each node; a disk that takes longer is broken."""


def refuse_unwritable(cluster: Cluster) -> None:
    """Raise OperatorError (exit 8) if too few hosts answer or can keep an operation's progress.

    Its file, the journal and the epoch records are in the var directory.
    """
    why = host_of(cluster).why_control_unwritable()
    if why:
        commands = Commands.here(cluster)
        var = commands.path(Layout(cluster).var)
        raise OperatorError(
            "the control host can't write, so nothing was changed",
            f"{why}; an operation needs {mib(PROBE_BYTES)} for its progress, the journal and the "
            "epoch records",
            f"make room there, then retry: df -h {var}",
            ExitCode.REFUSED,
        )


def refuse_node(cluster: Cluster, name: str, *, needs_room: bool) -> None:
    """Raise OperatorError (exit 8) if a node can't write its state.

    Args:
        needs_room: refuse as well if its disk is full, as the node is about to receive data.
    """
    host, folder = host_of(cluster), cluster.node(name).data_directory
    disk = host.disk(name)
    why = host.why_unwritable(name)
    if not why and not (needs_room and disk is not None and disk.room is Room.FULL):
        return
    raise OperatorError(
        f"node {name} can't {'write its state' if why else 'take any data: its disk is full'}; "
        "nothing was changed",
        "; ".join(filter(None, (why, _shown(disk)))),
        f"make room there, then retry: df -h {Commands.here(cluster).path(folder)}",
        ExitCode.REFUSED,
    )


def unwritable(host: Host, names: Iterable[str]) -> dict[str, str]:
    """Return why nodes can't write their state, by name; without those that can.

    Each writes a file that vanishes; a disk that hangs counts after WRITE_SECONDS.
    """
    race, names = Race(), list(names)
    for name in names:
        race.start(name, lambda name=name: _try(host, name))  # type: ignore[misc]
    found = race.wait(time.monotonic() + WRITE_SECONDS)
    late = f"its disk took no file within {WRITE_SECONDS:g} s"
    said = {name: str(found.get(("unwritable", name), late)) for name in names}
    return {name: why for name, why in said.items() if why}


def _try(host: Host, name: str) -> Results:
    yield ("unwritable", name), host.why_unwritable(name)


def disks(cluster: Cluster, names: Iterable[str]) -> dict[str, Disk]:
    """Return the disks of nodes whose data directories exist, by name."""
    found = of_nodes(cluster, names, host_of(cluster).disk)
    return {name: disk for name, disk in found.items() if disk is not None}


def target(situation: Situation, node: str, size: int | None) -> Iterator[Finding]:
    """Yield if a node's disk has room for a primary, and accepts its new state."""
    found = situation.disks.get(node)
    if found is None:
        yield Finding(Verdict.WARNING, node, "the free space of its disk is unknown")
    elif found.room is Room.FULL:
        yield Finding(Verdict.AGAINST, node, "its disk is full", str(found))
    elif size is not None and found.free < size:
        yield Finding(
            Verdict.WARNING,
            node,
            "its disk has too little room to pack the database",
            f"{found}, the data file has {mib(size)}",
        )
    else:
        yield Finding(Verdict.FINE, node, "its disk has room", f"{mib(found.free)} free")
    yield from _unwritable(situation, node, Verdict.AGAINST)


def followers(situation: Situation, names: Iterable[str], unfit: Verdict) -> Iterator[Finding]:
    """Yield which other nodes can't write their new state, or can't follow for want of room.

    Args:
        unfit: of a node that cannot write its state.
    """
    for name in names:
        yield from _unwritable(situation, name, unfit)
        found = situation.disks.get(name)
        if found is not None and found.room is Room.FULL and name not in situation.unwritable:
            yield Finding(
                Verdict.WARNING,
                name,
                "its disk is full: it gets no new transaction until there is room",
                _shown(found),
            )


def _unwritable(situation: Situation, name: str, verdict: Verdict) -> Iterator[Finding]:
    why = situation.unwritable.get(name)
    if why is not None:
        shown = _shown(situation.disks.get(name))
        yield Finding(
            verdict, name, "its state can't be written", "; ".join(filter(None, (why, shown)))
        )


def _shown(disk: Disk | None) -> str:
    return "" if disk is None else str(disk)


def hint(unwritable: Mapping[str, str], cluster: Cluster, commands: Commands) -> str:
    """Return how to make room where nodes can't write; empty if all can."""
    if not unwritable:
        return ""
    folders = [commands.path(cluster.node(name).data_directory) for name in unwritable]
    return f"make room for {mib(PROBE_BYTES)} at least, then retry: df -h {' '.join(folders)}"
