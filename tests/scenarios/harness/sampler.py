"""Asks all nodes, many times a second, whether they are writable; finds two that are at once."""

from __future__ import annotations

import dataclasses
import itertools
import threading
import time
from collections.abc import Iterable
from types import TracebackType

from indico_zodbrepl.backends import backend_of
from indico_zodbrepl.cluster import Cluster, Node
from indico_zodbrepl.probing.answers import ServerAnswer, ServerRole
from indico_zodbrepl.probing.wire import ProbeError

PAUSE = 0.05
ENGINE_PAUSE = 0.3  # each question is a session of a database server
PATIENCE = 1.0


@dataclasses.dataclass
class Writable:
    """A time through which one server process was a primary that takes writes.

    It had answered so by ``since``, and did so to all questions until the one asked at ``until``.
    """

    node: str
    pid: int
    epoch: int | None
    since: float
    until: float


def overlaps(times: Iterable[Writable]) -> list[tuple[Writable, Writable]]:
    """The pairs of different nodes that were writable at the same moment."""
    return [
        (one, other)
        for one, other in itertools.combinations(times, 2)
        if one.node != other.node and max(one.since, other.since) < min(one.until, other.until)
    ]


class Sampler:
    """Asks until the ``with`` block ends; one thread a node."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._pause = ENGINE_PAUSE if backend_of(cluster).fenced_by_folder else PAUSE
        self._ended = threading.Event()
        self._found: list[Writable] = []
        self._threads = [
            threading.Thread(target=self._watch, args=(node,), daemon=True)
            for node in cluster.nodes
        ]

    def __enter__(self) -> Sampler:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join()

    def double_primaries(self) -> list[tuple[Writable, Writable]]:
        """The pairs of different nodes that were seen writable at the same moment."""
        return overlaps(list(self._found))

    def primaries(self) -> list[str]:
        """The nodes that were seen writable, the first one first."""
        return list(
            dict.fromkeys(each.node for each in sorted(self._found, key=lambda each: each.since))
        )

    def ask(self, node: Node) -> ServerAnswer | None:
        """What a node's server says of itself; None when it says nothing in time."""
        try:
            return backend_of(self._cluster).ask(self._cluster, node, time.monotonic() + PATIENCE)
        except ProbeError:
            return None

    def _watch(self, node: Node) -> None:
        present: Writable | None = None
        while not self._ended.wait(self._pause):
            asked = time.monotonic()
            found = self.ask(node)
            answer = found and found.replication
            if not (
                answer
                and answer.role is ServerRole.PRIMARY
                and not answer.read_only
                and answer.held is None
            ):
                present = None
            elif present and (present.pid, present.epoch) == (answer.pid, answer.epoch):
                present.until = asked
            else:
                present = Writable(node.name, answer.pid, answer.epoch, time.monotonic(), asked)
                self._found.append(present)
