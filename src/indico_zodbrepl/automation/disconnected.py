"""Followers whose database server runs, but does not replicate from their upstream.

A PostgreSQL standby whose received log is damaged waits for the record that it can't read, and asks
nobody for it again until its server starts again.  One whose upstream has removed the log that it
needs to recover never answers.  The SQL thread of a MariaDB replica stops at a transaction that it
can't apply.
"""

from __future__ import annotations

from collections.abc import Callable

from indico_zodbrepl.automation.timing import now
from indico_zodbrepl.backends import backend_of, native_of
from indico_zodbrepl.cluster import Cluster, Node
from indico_zodbrepl.host import state
from indico_zodbrepl.operations.facts import replication_of
from indico_zodbrepl.probing.answers import ServerRole
from indico_zodbrepl.probing.wire import FailureKind, ProbeError

LOOK_SECONDS = 10.0
DISCONNECTED_SECONDS = 60.0
"""For a follower to connect; longer than a server needs that starts while it is busy."""
AGAIN_SECONDS = 600.0
"""From a rejoin, which may not have helped, to the next one for this reason."""


class Disconnected:
    """For how long followers of this host have not been connected.  Used by one thread."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._since: dict[str, float] = {}
        self._next_look: dict[str, float] = {}
        self._waits_in_vain: dict[str, Callable[[], bool]] = {}

    def seconds(self, node: Node) -> float:
        """Return for how long a follower has not been connected; 0 if it is, or its server is down.

        Always 0 with ZRS, whose storage servers try to connect until they succeed.
        """
        if not backend_of(self._cluster).needs_guard:
            return 0.0
        if now() >= self._next_look.get(node.name, 0.0):
            self._next_look[node.name] = now() + LOOK_SECONDS
            if self._is_connected(node):
                self._since.pop(node.name, None)
            else:
                self._since.setdefault(node.name, now())
        return max(0.0, now() - self._since.get(node.name, now()))

    def _is_connected(self, node: Node) -> bool:
        try:
            found = replication_of(self._cluster, node)
        except ProbeError as error:
            # Only a server that refuses clients shows its recovery.  Of others nothing is known;
            # another reason to rejoin may apply.
            return error.kind is not FailureKind.CLOSED or not self._watch(node)()
        if found is None or found.role is ServerRole.PRIMARY:
            return True
        return found.connected is not False and self._is_assigned(node, found.upstream)

    def _watch(self, node: Node) -> Callable[[], bool]:
        if node.name not in self._waits_in_vain:
            self._waits_in_vain[node.name] = native_of(self._cluster).recovery_watch(node)
        return self._waits_in_vain[node.name]

    def _is_assigned(self, node: Node, followed: str | None) -> bool:
        """Return True if a node should follow this address; unknown ones are taken for right.

        Its state file may have been changed while the server started.
        """
        upstream = state.current(self._cluster, node).upstream
        if followed is None or upstream is None:
            return True
        return followed == str(self._cluster.node(upstream).link_address)

    def tried(self, node: Node) -> None:
        """Note a rejoin of a node, so that the next one for this reason comes later."""
        self._since[node.name] = now() + AGAIN_SECONDS - DISCONNECTED_SECONDS

    def forget(self) -> None:
        """Measure from now on: no node led, so no follower could connect."""
        self._since.clear()
