"""Periodic comparisons of followers with the primary, one at a time, beside the probes."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Mapping

from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.host.history import Condition
from indico_zodbrepl.host.verifying import Verified
from indico_zodbrepl.monitor.node_status import NodeStatus
from indico_zodbrepl.monitor.snapshot import Snapshot
from indico_zodbrepl.monitord.events import Event, Kind, Weight
from indico_zodbrepl.probing.comparison import Membership

logger = logging.getLogger(__name__)

EVERY = 180.0
"""Seconds between two comparisons of a node."""

Verify = Callable[[str, str], Verified | None]


def due(snapshot: Snapshot, last: Mapping[str, tuple[float, int]], now: float) -> NodeStatus | None:
    """Return the follower to compare now: the one that has waited longest.  Pure.

    Args:
        last: when each was compared, and its last transaction then.
        now: on the same clock.
    """
    if snapshot.primary is None or any(each.at_work for each in snapshot.operations):
        return None
    fit = [
        node
        for node in snapshot.nodes
        if node.name != snapshot.primary
        and _is_fit(node)
        and (
            node.name not in last
            or (now - last[node.name][0] >= EVERY and node.last_tid != last[node.name][1])
        )
    ]
    return min(fit, key=lambda node: last.get(node.name, (0.0, 0))[0], default=None)


def _is_fit(node: NodeStatus) -> bool:
    """Return True if a follower has everything the primary has, as far as probes can tell."""
    return (
        node.reachable
        and node.connected is True
        and node.lag_transactions == 0
        and node.membership is Membership.HELD
        and node.condition is Condition.OK
    )


class Verifier:
    """A scheduler that starts a comparison when one is due.

    Args:
        verify: compares a node with the primary, see ``node.verifying``; may take minutes.
        commands: for hints.

    Threads: ``look`` is for one thread; it never waits.
    """

    def __init__(self, verify: Verify, commands: Commands) -> None:
        self._verify = verify
        self._commands = commands
        self._last: dict[str, tuple[float, int]] = {}
        self._found: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._worker: threading.Thread | None = None

    def look(self, snapshot: Snapshot) -> list[Event]:
        """Process a snapshot; return what comparisons found since the last one."""
        found = []
        while not self._found.empty():
            found.append(self._found.get())
        if self._worker is None or not self._worker.is_alive():
            node = due(snapshot, self._last, time.monotonic())
            if node is not None and snapshot.primary is not None:
                self._last[node.name] = time.monotonic(), node.last_tid or 0
                self._worker = threading.Thread(
                    target=self._compare,
                    name="verifier",
                    daemon=True,
                    args=(node.name, snapshot.primary),
                )
                self._worker.start()
        return found

    def _compare(self, name: str, primary: str) -> None:
        try:
            verified = self._verify(name, primary)
        except OperatorError as error:
            logger.warning(
                "node %s was not compared with %s: %s: %s",
                name,
                primary,
                error.notice,
                error.detail,
            )
            return
        if verified is not None and verified.diverged:
            self._found.put(
                Event(
                    time.time(),
                    Kind.LINEAGE,
                    Weight.CRITICAL,
                    name,
                    f"node {name} diverged from primary {primary}",
                    verified.diverged,
                    f"export its divergent transactions and make it follow: "
                    f"`{self._commands.zodbrepl('rejoin', name)}`",
                )
            )
