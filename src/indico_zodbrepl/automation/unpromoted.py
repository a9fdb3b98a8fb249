"""Promote a leader whose database server still follows, because its promotion was interrupted.

The node has the role and its state, but nobody can save until its server is promoted.
"""

from __future__ import annotations

from indico_zodbrepl.automation.log import say
from indico_zodbrepl.automation.timing import now
from indico_zodbrepl.backends import backend_of
from indico_zodbrepl.cluster import Cluster, Node, Role
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.etcd.keys import Leader
from indico_zodbrepl.host import state
from indico_zodbrepl.host.roles import complete_promotion
from indico_zodbrepl.operations.facts import replication_of
from indico_zodbrepl.probing.answers import ServerRole
from indico_zodbrepl.probing.wire import ProbeError

LOOK_SECONDS = 5.0
PATIENCE_SECONDS = 30.0
"""Longer than any promotion takes, so that one that is under way is left alone."""
PROMOTE_SECONDS = 20.0


class Unpromoted:
    """Promotes the leader of this host if that was not done.  Used by one thread."""

    def __init__(self, cluster: Cluster, installation: Installation) -> None:
        self._cluster = cluster
        self._installation = installation
        self._next_look = 0.0
        self._since: tuple[int, float] | None = None

    def look(self, node: Node, leader: Leader) -> None:
        """Promote a node's server that has followed for too long although it leads.

        Call it while no operation runs.  Raises OperatorError if its state can't be read.
        """
        if leader.node != node.name or not backend_of(self._cluster).needs_guard:
            return
        if now() < self._next_look:
            return
        self._next_look = now() + LOOK_SECONDS
        present = state.current(self._cluster, node)
        if (present.role, present.epoch) != (Role.PRIMARY, leader.epoch) or not self._follows(node):
            self._since = None
            return
        if self._since is None or self._since[0] != leader.epoch:
            self._since = leader.epoch, now()
        if now() - self._since[1] < PATIENCE_SECONDS:
            return
        say(f"node {node.name} leads in epoch {leader.epoch}, and its server still follows")
        try:
            complete_promotion(self._cluster, self._installation, present, PROMOTE_SECONDS)
        except OperatorError as error:
            say(f"it could not be promoted: {error.notice}: {error.detail}".rstrip(": "))
        else:
            say(f"the server of node {node.name} is the primary")

    def _follows(self, node: Node) -> bool:
        try:
            found = replication_of(self._cluster, node)
        except ProbeError:
            return False  # it does not run, or hangs; others see to that
        return found is not None and found.role is not ServerRole.PRIMARY
