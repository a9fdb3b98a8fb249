"""Let followers leave a silent leader a little before its lease has ended, where that takes long.

A MariaDB replica that leaves its primary connects to it once more.  For the answer of a lost host
it waits as long as all the rest of a take-over takes.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from indico_zodbrepl.automation.log import say
from indico_zodbrepl.automation.observed import Observed
from indico_zodbrepl.automation.threads import thread
from indico_zodbrepl.automation.timing import Timing
from indico_zodbrepl.backends import backend_of, native_of
from indico_zodbrepl.cluster import Cluster, Node
from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.host.candidacy import DATABASE_SECONDS
from indico_zodbrepl.host.engine_control import control_of

LEAST_SHARE = 0.6
"""Share of a lease after which nobody leaves yet: etcd may be choosing its own leader."""
BACK_SECONDS = 1.5
"""Seconds after the end of the lease until a follower that no candidate has asked follows again."""


def is_time(seen: Observed, timing: Timing, seconds: float) -> bool:
    """Return True if followers begin to leave a leader that does not renew its key.  Pure.

    Args:
        seconds: for which they need to leave a lost host; 0 if they leave at once.
    """
    if seen.leader is None or seen.leader.released or not seen.moved or not seconds:
        return False
    unchanged = seen.confirmed - seen.since
    return unchanged >= max(timing.lease - seconds, LEAST_SHARE * timing.lease)


class Leaver:
    """The followers of this host.  Used by one thread."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._timing = Timing(cluster.lease)
        guarded = backend_of(cluster).needs_guard
        self._seconds = native_of(cluster).leave_seconds if guarded else 0.0
        self._left = 0

    def look(self, seen: Observed, nodes: Iterable[Node]) -> None:
        """Let nodes leave the leader if it is time, once for each value of a key that is not free.

        Their answers come to the candidate that asks them when the lease has ended.  If the leader
        renews its key after all, they follow it again some moments later.
        """
        leader = seen.leader
        if leader is None or seen.revision == self._left:
            return
        if not is_time(seen, self._timing, self._seconds):
            return
        self._left = seen.revision
        left = self._timing.lease - (seen.confirmed - seen.since)
        for node in nodes:
            if node.name != leader.node:
                leave = partial(self._leave, node, leader.epoch, left + BACK_SECONDS)
                thread("leave", leave).start()

    def _leave(self, node: Node, epoch: int, seconds: float) -> None:
        try:
            control_of(self._cluster, node).detach(epoch, seconds, DATABASE_SECONDS)
        except OperatorError as error:
            say(f"node {node.name} has not left its upstream yet: {error.notice}: {error.detail}")
