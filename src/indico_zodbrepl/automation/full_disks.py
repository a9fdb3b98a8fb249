"""Give the role of a leader whose disk is full to a node with room.

The server of such a leader runs, and nobody can save: a storage server and PostgreSQL refuse
commits, and MariaDB waits in the middle of one and answers no query.  So the host of the leader
gives the role away, as if the server had died, and the others elect a successor.  It does so only
if their election can prove that no acknowledged commit is lost, and if one of them has room.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping

from indico_zodbrepl.automation import promises
from indico_zodbrepl.automation.log import say
from indico_zodbrepl.automation.renewal import Reign
from indico_zodbrepl.automation.reports import Report
from indico_zodbrepl.automation.threads import thread
from indico_zodbrepl.automation.timing import now
from indico_zodbrepl.automation.view import View
from indico_zodbrepl.cluster import Cluster, Role
from indico_zodbrepl.etcd.keys import Leader, Sync
from indico_zodbrepl.host.disks import disk_of, mib

INTERVAL_SECONDS = 1.0
LEAST_BYTES = 1 << 20
"""With less free space a leader can't save.

`status` calls a disk full much earlier, and a node with such a disk is no successor.  So the role
does not move to and fro between disks of about the same free space.
"""
FULL_SECONDS = 5.0
"""A disk that is full for less time moves no role."""
AGAIN_SECONDS = 60.0
"""After the role was given away, and nobody took it, until it is given away again."""


def has_successor(
    leader: str,
    nodes: Collection[str],
    reports: Mapping[str, Report],
    sync: Sync | None,
    *,
    configured: int,
    epoch: int,
    now: float,
) -> bool:
    """Return True if a node with room will be elected, and no acknowledged commit be lost.  Pure.

    Args:
        leader: the node that leads.
        nodes: all nodes.
        reports: by node.
        sync: the record of acknowledged commits.
        configured: the secondaries that acknowledge a commit by the cluster file.
        epoch: of the leader key.
        now: moment of ``timing.now``.
    """
    count = promises.confirmations(sync, configured, epoch)
    if not count or (sync is not None and sync.alone):
        return False
    voters = promises.voters(nodes, sync)
    found = [
        reports[name].member
        for name in nodes
        if name != leader and name in reports and _can_lead(reports[name], now)
    ]
    is_proven = len(found) >= len(voters) - count
    return is_proven and any(not member.full for member in found)


def _can_lead(found: Report, now: float) -> bool:
    member = found.member
    return (
        found.is_recent(now)
        and member.role in (Role.SECONDARY, Role.RELAY)
        and not (member.problem or member.condition)
    )


class FullDisk:
    """A thread that looks at the disk of a leader on this host.

    Args:
        leader: as ``Calm.leader``.
        reign: returns the reign of this host's node, if it leads.
    """

    def __init__(
        self,
        cluster: Cluster,
        view: View,
        leader: Callable[[], Leader | None],
        reign: Callable[[], Reign | None],
    ) -> None:
        self._cluster = cluster
        self._view = view
        self._leader = leader
        self._reign = reign
        self._ended = threading.Event()
        self._since: float | None = None
        self._not_before = 0.0
        self._thread = thread("full-disk", self._run)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._ended.set()

    def _run(self) -> None:
        while not self._ended.wait(INTERVAL_SECONDS):
            self.look()

    def look(self) -> None:
        """Give the role away if the disk of this host's leader has been full for long enough."""
        reign = self._reign()
        if reign is None or not reign.leads or reign.over:
            self._since = None
            return
        disk = disk_of(reign.node.data_directory)
        if disk is None or disk.free >= LEAST_BYTES:
            self._since = None
            return
        at = now()
        self._since = self._since or at
        if at - self._since < FULL_SECONDS or at < self._not_before:
            return
        leader, known = self._leader(), self._view.known
        if leader is None or leader.node != reign.node.name:
            return
        if has_successor(
            leader.node,
            [node.name for node in self._cluster.nodes],
            known.reports,
            known.sync,
            configured=self._cluster.synchronous.count,
            epoch=leader.epoch,
            now=at,
        ):
            self._not_before = at + AGAIN_SECONDS
            reign.give_up(f"its disk is full ({mib(disk.free)} free)")
        else:
            self._not_before = at + AGAIN_SECONDS
            say(
                f"the disk of node {leader.node} is full ({mib(disk.free)} free), and it keeps its "
                "role: no node with room would replace it with all acknowledged commits"
            )
