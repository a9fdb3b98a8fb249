"""Notice when a node's last transaction proves again what was acknowledged.

What it had confirmed before its data were changed was acknowledged by then.  So it suffices that it
reaches all that the leader has at any moment after that.  A database server loses no data, but may
have another history: it suffices that the leader sends it its log.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from functools import partial

from indico_zodbrepl.automation.log import say
from indico_zodbrepl.automation.timing import ORDER_SECONDS, now
from indico_zodbrepl.backends import backend_of
from indico_zodbrepl.cluster import Cluster, Node, NodeState, Role
from indico_zodbrepl.cluster.places import Address
from indico_zodbrepl.etcd.keys import Leader
from indico_zodbrepl.host import confirmed_commits
from indico_zodbrepl.host.confirmed_commits import Record
from indico_zodbrepl.host.engine_control import has_joined
from indico_zodbrepl.host.history import Condition, Lineage
from indico_zodbrepl.host.server_control import ServerStatus
from indico_zodbrepl.probing.answers import ServerAnswer, ServerRole
from indico_zodbrepl.probing.probes import probe_server
from indico_zodbrepl.probing.wire import ProbeError

REFRESH_SECONDS = 30.0
"""Between two records of the last transaction of a node that holds everything."""


def goal(found: ServerAnswer, leader: Leader, cluster: str = "") -> int | None:
    """Return what the leader has, acknowledged or not; None for another server.  Pure.

    After a loss of power it may not know of the last commits that it had acknowledged.

    Args:
        cluster: its name; empty if it does not matter.
    """
    server = found.replication
    if (
        server is None
        or (server.node, server.epoch) != (leader.node, leader.epoch)
        or server.cluster != (cluster or server.cluster)
        or server.role is not ServerRole.PRIMARY
        or (server.lease_left is not None and server.lease_left <= 0)
    ):
        return None
    return found.last_tid


@dataclasses.dataclass(frozen=True)
class Seen:
    """A node as its host sees it.

    Attributes:
        record: read before the server was asked for ``status``, which else may be that of data that
            were replaced meanwhile.
        present: its state.
        known: its history.
    """

    record: Record | None
    status: ServerStatus
    present: NodeState
    known: Lineage


class Settler:
    """The looks at the nodes of this host; for one thread.

    Args:
        ask: asks a server; see ``probe_server``.
        clock: returns seconds.
        joined: see ``engine_control.has_joined``.
    """

    def __init__(
        self,
        cluster: Cluster,
        ask: Callable[[Address, float], ServerAnswer] = probe_server,
        clock: Callable[[], float] = now,
        joined: Callable[[Cluster, Node, Node], bool] = has_joined,
    ) -> None:
        self._cluster = cluster
        self._ask = ask
        self._clock = clock
        self._joined = partial(joined, cluster)
        self._goals: dict[str, tuple[Record | None, int, int]] = {}
        self._recorded: dict[str, float] = {}

    def look(
        self,
        node: Node,
        seen: Seen,
        leader: Leader | None,
    ) -> None:
        """Record that a node's data hold everything, if they do.

        Args:
            leader: as etcd has it; None if it is unknown.

        Raises OperatorError if that can't be recorded.
        """
        if backend_of(self._cluster).needs_guard:
            self._look_at_database(node, seen, leader)
            return
        record, status = seen.record, seen.status
        if record is not None and record.tid is not None:
            self._refresh(node, record, record.tid, status.last_tid)
            return
        if leader is None or leader.released or not _takes_part(seen, leader):
            return
        if leader.node != node.name:
            if not _follows(seen):
                return
            wanted = self._goal(node, record, leader)
            if wanted is None or status.last_tid < wanted:
                return
        elif status.role != Role.PRIMARY:
            return
        if self._settle(node, record, status.last_tid):
            self._goals.pop(node.name, None)
            say(f"node {node.name} has every commit that it has confirmed: {status.last_tid:016x}")

    def _look_at_database(self, node: Node, seen: Seen, leader: Leader | None) -> None:
        """Look at a database server; its status has no position, and no epoch of a redirection."""
        record, present = seen.record, seen.present
        if record is None or record.tid is not None or leader is None or leader.released:
            return
        if present.epoch != leader.epoch or seen.known.condition is not Condition.OK:
            return
        if node.name != leader.node:
            upstream = present.upstream
            if upstream != leader.node or not self._joined(node, self._cluster.node(upstream)):
                return
        if self._settle(node, record, 0):
            say(f"node {node.name} has nothing that node {leader.node} lacks")

    def _goal(self, node: Node, record: Record | None, leader: Leader) -> int | None:
        """Return what a node has to reach since a record was written; None if that is unknown.

        Each leader is asked once: one may lack commits of a former one that were not acknowledged.
        """
        known = self._goals.get(node.name)
        if known is not None and known[:2] == (record, leader.epoch):
            return known[2]
        try:
            found = self._ask(
                self._cluster.node(leader.node).storage_address, time.monotonic() + ORDER_SECONDS
            )
        except (ProbeError, KeyError):
            return None
        wanted = goal(found, leader, self._cluster.name)
        if wanted is not None:
            self._goals[node.name] = record, leader.epoch, wanted
        return wanted

    def _refresh(self, node: Node, record: Record, recorded: int, last_tid: int) -> None:
        """Record later transactions of a node, so that older data in their place are noticed."""
        due = self._recorded.get(node.name, 0.0) + REFRESH_SECONDS
        if last_tid > recorded and self._clock() >= due:
            self._settle(node, record, last_tid)

    def _settle(self, node: Node, record: Record | None, last_tid: int) -> bool:
        self._recorded[node.name] = self._clock()
        return confirmed_commits.settle(self._cluster, node, record, last_tid)


def _takes_part(seen: Seen, leader: Leader) -> bool:
    """Return True if a node is in the leader's epoch."""
    return seen.status.epoch == seen.present.epoch == leader.epoch


def _follows(seen: Seen) -> bool:
    return (
        seen.status.role in (Role.SECONDARY, Role.RELAY)
        and seen.status.connected is True
        and not seen.known.was_writable
        and seen.known.condition is Condition.OK
    )
