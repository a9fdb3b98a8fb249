"""Give the role of a leader whose disk is full to a node with room.

The server of such a leader runs, and nobody can save: a storage server and PostgreSQL refuse
commits, and MariaDB waits in the middle of one and answers no query.  So the host of the leader
gives the role away, as if the server had died, and the others elect a successor.  It does so only
if their election can prove that no acknowledged commit is lost, and if one of them has room.

A MariaDB server, also that of a follower, waits for up to a minute when its disk has room again.
It is killed then, and starts again at once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping

from indico_zodbrepl.automation import promises
from indico_zodbrepl.automation.calm import Calm
from indico_zodbrepl.automation.log import Once, say
from indico_zodbrepl.automation.renewal import Reign
from indico_zodbrepl.automation.reports import Report
from indico_zodbrepl.automation.server import ServerProcess
from indico_zodbrepl.automation.threads import Repeated
from indico_zodbrepl.automation.timing import now
from indico_zodbrepl.automation.view import View
from indico_zodbrepl.backends import backend_of, native_of
from indico_zodbrepl.cluster import Cluster, Node, Role
from indico_zodbrepl.etcd.keys import Sync
from indico_zodbrepl.host.disks import disk_of, mib

INTERVAL_SECONDS = 1.0
LEAST_BYTES = 1 << 20
"""With less free space a leader can't save.

`status` calls a disk full much earlier, and a node with such a disk is no successor.  So the role
does not move to and fro between disks of about the same free space.
"""
FULL_SECONDS = 5.0
"""A disk that is full for less time moves no role."""
SILENT_SECONDS = 4.0
"""For the answer of a server whose disk has room again."""
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
    """Looks at the disks of this host's nodes, in ``thread``.

    Args:
        reign: returns the reign of this host's node, if it leads.
    """

    def __init__(
        self, cluster: Cluster, view: View, calm: Calm, reign: Callable[[], Reign | None]
    ) -> None:
        self._cluster = cluster
        self._view = view
        self._calm = calm
        self._reign = reign
        self._since: dict[str, float] = {}
        self._not_before = 0.0
        self._once = Once()
        self.thread = Repeated("full-disk", INTERVAL_SECONDS, self._look_at_all)

    def _look_at_all(self) -> None:
        for node in self._cluster.local.nodes:
            if node.managed:
                self.look(node)

    def look(self, node: Node) -> None:
        """Give the role of a node away whose disk is full; end a server that waits in vain."""
        disk = disk_of(node.data_directory)
        at, name, reign = now(), node.name, self._reign_of(node)
        # An operation may wait for a follower that waits.
        acts = self._calm.acts() if reign else not self._calm.leaves_alone(name)
        if disk is None or not acts:
            return
        if disk.free >= LEAST_BYTES:
            if name in self._since:
                del self._since[name]
                self._once.say(name, "")
                self._end_wait(node)
            return
        since = self._since.setdefault(name, at)
        if reign is None or not reign.leads or at - since < FULL_SECONDS:
            return
        if self._has_successor(reign):
            if at >= self._not_before:
                self._not_before = at + AGAIN_SECONDS
                reign.give_up(f"its disk is full ({mib(disk.free)} free)")
        else:
            self._once.say(
                name,
                f"the disk of node {name} is full, and it keeps its role: no node with room would "
                "replace it with all acknowledged commits",
            )

    def _reign_of(self, node: Node) -> Reign | None:
        reign = self._reign()
        return None if reign is None or reign.over or reign.node.name != node.name else reign

    def _has_successor(self, reign: Reign) -> bool:
        known = self._view.known
        return has_successor(
            reign.node.name,
            [node.name for node in self._cluster.nodes],
            known.reports,
            known.sync,
            configured=self._cluster.synchronous.count,
            epoch=reign.epoch,
            now=now(),
        )

    def _end_wait(self, node: Node) -> None:
        """Kill a database server that does not notice that its disk has room again.

        MariaDB looks for room once a minute.  A leader is killed only if all that it has
        acknowledged is on other nodes.
        """
        if not backend_of(self._cluster).needs_guard:
            return
        deadline = time.monotonic() + SILENT_SECONDS
        if not native_of(self._cluster).waits_for_room(node, deadline):
            return
        why = "its server waited for room on its disk, which has some again"
        reign, sync = self._reign_of(node), self._view.known.sync
        if reign is None:
            process = ServerProcess(self._cluster, node, lambda: None)
            if process.kill():
                say(f"killed process {process.pid} of node {node.name}: {why}")
            process.close()
        elif not reign.leads or sync is None or sync.epoch != reign.epoch:
            return  # it is being promoted
        elif sync.count and not sync.alone:
            reign.give_up(why)
