"""What a node's host can tell of its process: by supervisor, or without it by the data file's lock.

Changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..backends import backend_of
from ..cluster import Cluster, Node
from ..monitor.snapshot import NodeStatus
from ..node import data_lock, supervisor
from ..probing.process_state import FROZEN, state_of
from .evidence import Process


def look(cluster: Cluster, nodes: Iterable[NodeStatus]) -> tuple[dict[str, Process],
                                                               dict[str, int]]:
    """The processes of nodes, and who has their data files where supervisor could not be asked.

    Where the nodes have no data files, only supervisor can tell.

    A supervisord that is there and silent may start a node again at any moment, so the lock
    counts only while none is there.
    """
    nodes = list(nodes)
    processes = {node.name: process_of(node.program.pid) for node in nodes if node.program}
    holders = {}
    unknown = [node for node in nodes if node.program is None and not node.reachable
               and backend_of(cluster).data_files]
    if unknown and supervisor.is_away(cluster):
        for node in unknown:
            process, pid = by_lock(cluster.node(node.name))
            processes[node.name] = process
            if pid is not None:
                holders[node.name] = pid
    return processes, holders


def process_of(pid: int) -> Process:
    """What the kernel says of a supervised process; ``pid`` is 0 when supervisor has none."""
    state = state_of(pid) if pid else ""
    if not state:
        return Process.NONE
    return Process.FROZEN if state in FROZEN else Process.RUNS


def by_lock(node: Node) -> tuple[Process, int | None]:
    """What the lock of a node's data file tells: of its process, and its pid if it has one.

    Nothing when there is no lock: its disk may be away.
    """
    try:
        if not data_lock.path_of(node).exists():
            return Process.UNKNOWN, None
        held = data_lock.look(node)
    except OSError:
        return Process.UNKNOWN, None
    if not held.is_held:
        return Process.NONE, None
    if held.pid is None or not held.is_node:
        return Process.UNKNOWN, None
    return process_of(held.pid), held.pid
