"""Operations that were interrupted, and keep nodes from rejoining.

A command whose terminal or host was lost leaves its operation open, and no other one begins before
it has ended.  Nobody may be there to type ``resume``, and each commit may need the follower that
waits.
"""

from __future__ import annotations

from indico_zodbrepl.automation.timing import now
from indico_zodbrepl.cluster import Cluster
from indico_zodbrepl.operations import store
from indico_zodbrepl.operations.operation import Operation
from indico_zodbrepl.operations.takeover import ACTOR

CONTINUE_SECONDS = 20.0
"""For a person to continue an operation, before the automation ends what it can end."""
CLOSE_SECONDS = 60.0
"""For a node's host to end its restart, rejoin or clone, before the hosts of others close it."""


def to_continue(left: Operation, node: str, waited: float, *, leads: bool, rejoins: bool) -> bool:
    """Return True if the host of a node continues an operation of that node.  Pure.

    Args:
        waited: seconds for which this host has seen it open while no command worked on it.
        leads: True if the node leads; its restart would interrupt writes.
        rejoins: True if the node has to rejoin, which a restart is no part of.
    """
    if left.plan.target != node:
        return False
    if left.actor == ACTOR:
        return left.plan.operation == "rejoin"
    if waited < CONTINUE_SECONDS or leads:
        return False
    return left.plan.operation == "rejoin" or (left.plan.operation == "restart" and not rejoins)


def to_close(left: Operation, waited: float, epoch: int) -> bool:
    """Return True if an operation gives way to a rejoin that needs it closed.  Pure.

    What is restarted, rejoined or cloned can be so again in any state.  A failover or switchover of
    a person is left to that person until a node leads in its epoch: what is left then is to let the
    other nodes follow, as rejoins do.

    Args:
        waited: as ``to_continue``.
        epoch: of the leader.
    """
    if left.plan.operation in ("failover", "switchover"):
        return left.actor != ACTOR and epoch >= left.plan.epoch and waited >= CONTINUE_SECONDS
    return left.plan.operation in ("restart", "rejoin", "clone") and waited >= CLOSE_SECONDS


class Interrupted:
    """The open operation of a cluster, and for how long this program has seen it.

    Used by one thread, which looks while no operation runs.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._identifier = ""
        self._since = 0.0
        self.tried = ""
        """The operation of another actor that was continued here last; it is not tried again."""

    def look(self) -> tuple[Operation | None, float]:
        """Return the open operation, and for how many seconds it has been seen.

        Raises OperatorError as ``store.unfinished``.
        """
        left = store.unfinished(self._cluster)
        identifier = "" if left is None else left.identifier
        if identifier != self._identifier:
            self._identifier, self._since = identifier, now()
        return left, now() - self._since
