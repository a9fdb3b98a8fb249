"""Rules about the disks of nodes and of the control host, and about writes that fail."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.host.disks import Disk, Room
from indico_zodbrepl.monitor.host_status import FileSystem, file_systems
from indico_zodbrepl.monitor.node_status import NodeStatus
from indico_zodbrepl.monitor.rules.facts import Facts
from indico_zodbrepl.monitor.words import listed
from indico_zodbrepl.probing import times
from indico_zodbrepl.probing.answers import Alert, Level

NO_ROOM = frozenset(map(os.strerror, (errno.ENOSPC, errno.EDQUOT)))
"""The errors by which a server reports a full disk."""


def warnings(facts: Facts) -> Iterator[Alert]:
    for node in facts.nodes:
        yield from _failing(facts, node)
        yield from _without_files(facts, node)
    yield from _little_room(facts)


def _failing(facts: Facts, node: NodeStatus) -> Iterator[Alert]:
    failed = node.write_failure
    if failed is None:
        return
    folder = facts.commands.path(facts.cluster.node(node.name).data_directory)
    writes = "1 write has" if failed.count == 1 else f"{failed.count} writes have"
    room = "" if node.disk is None else f"; its disk has {node.disk}"
    yield Alert(
        Level.CRITICAL,
        node.name,
        f"{facts.called(node)} can't write: {failed.error}",
        f"{writes} failed since {times.moment(failed.since)}{room}.",
        _hint(facts, [node], [folder], node.disk) if _lacks_room(node) else _look(facts, node),
    )


def _lacks_room(node: NodeStatus) -> bool:
    failed, disk = node.write_failure, node.disk
    return (disk is not None and disk.room is not Room.ENOUGH) or (
        failed is not None and failed.error in NO_ROOM
    )


def _look(facts: Facts, node: NodeStatus) -> str:
    log = facts.commands.path(
        Layout(facts.cluster).program_log(facts.cluster.node(node.name).program)
    )
    return _or_hand_over(facts, [node], f"see what its server says in {log}")


def _without_files(facts: Facts, node: NodeStatus) -> Iterator[Alert]:
    folder = node.missing_blob_folder
    if folder is None:
        return
    hint = f"put {folder} back, for example by mounting its disk"
    if facts.can("clone"):
        again = f"`{facts.commands.zodbrepl('clone', node.name)}`"
        hint = _or_hand_over(facts, [node], f"{hint}; if it is lost: {again}")
    yield Alert(
        Level.CRITICAL,
        node.name,
        f"the folder of uploaded files of {facts.called(node)} is gone",
        f"{folder} was there when its server started. It can neither read nor save such files.",
        hint,
    )


def _little_room(facts: Facts) -> Iterator[Alert]:
    """Yield one alert for each file system, whatever lies on it."""
    for found in file_systems(facts.nodes, facts.findings.control_disk, facts.cluster.here):
        if found.disk.room is Room.ENOUGH:
            continue
        if any(node.write_failure for node in found.nodes) and found.disk.room is Room.FULL:
            continue  # that says it already
        yield _alert(facts, found)


def _alert(facts: Facts, found: FileSystem) -> Alert:
    disk, nodes = found.disk, found.nodes
    names = [f"node {node.name}" for node in nodes]
    folders: list[Path] = [facts.cluster.node(node.name).data_directory for node in nodes]
    if found.has_control:
        names.append("the var directory")
        folders.append(facts.cluster.var_directory)
    is_full = disk.room is Room.FULL
    consequence = (
        "Without room a server can save nothing."
        if nodes
        else "Without room no operation can begin, and no log and no event is kept."
    )
    return Alert(
        Level.CRITICAL if is_full else Level.WARNING,
        nodes[0].name if len(nodes) == 1 else "",
        f"the disk of {listed(names)} is {'full' if is_full else 'nearly full'}",
        f"{disk}. {consequence}",
        _hint(facts, nodes, [facts.commands.path(folder) for folder in folders], disk),
    )


def _hint(facts: Facts, nodes: Sequence[NodeStatus], folders: list[str], disk: Disk | None) -> str:
    """Return how to make room, and where the role of primary can go meanwhile."""
    of_disk = f"on the disk of {listed(folders)}"
    hint = f"make room {of_disk}: `df -h {' '.join(folders)}`"
    if disk is not None and disk.has_few_files:
        hint = f"remove or pack small files {of_disk}: `df -i {' '.join(folders)}`"
    return _or_hand_over(facts, nodes, hint)


def _or_hand_over(facts: Facts, nodes: Sequence[NodeStatus], hint: str) -> str:
    fit = [
        node.name
        for node in facts.nodes
        if node not in nodes
        and node.connected
        and not (node.is_full or node.out_of_line or node.missing_blob_folder)
    ]
    primary = next((node for node in nodes if node.writable_primary), None)
    if primary is None or not fit or not facts.can("switchover"):
        return hint
    return (
        f"{hint}; or hand the role of primary over to node {fit[0]}: "
        f"`{facts.commands.zodbrepl('switchover', fit[0])}`"
    )
