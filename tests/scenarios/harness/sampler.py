"""Asks all nodes, many times a second, whether they are writable; finds two that are at once."""

from __future__ import annotations

import dataclasses
import itertools
import threading
import time
from collections.abc import Iterable
from types import TracebackType

from indico_zodbrepl.cluster import Cluster, Node
from indico_zodbrepl.probing.answers import ServerAnswer, ServerRole
from indico_zodbrepl.probing.probes import probe_server
from indico_zodbrepl.probing.wire import ProbeError

PAUSE = 0.05
PATIENCE = 1.0


@dataclasses.dataclass(frozen=True)
class Writable:
    """A time through which one server process was a writable primary, beyond doubt.

    It had answered so by ``since``, and did so again to a question asked at ``until``.
    """

    node: str
    pid: int
    epoch: int
    since: float
    until: float


def overlaps(times: Iterable[Writable]) -> list[tuple[Writable, Writable]]:
    """The pairs of different nodes that were writable at the same moment."""
    return [(one, other) for one, other in itertools.combinations(times, 2)
            if one.node != other.node
            and max(one.since, other.since) < min(one.until, other.until)]


class Sampler:
    """Asks until the ``with`` block ends; one thread a node."""

    def __init__(self, cluster: Cluster) -> None:
        self._ended = threading.Event()
        self._found: dict[tuple[str, int, int], Writable] = {}
        self._threads = [threading.Thread(target=self._watch, args=(node,), daemon=True)
                         for node in cluster.nodes]

    def __enter__(self) -> Sampler:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 traceback: TracebackType | None) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join()

    def double_primaries(self) -> list[tuple[Writable, Writable]]:
        """The pairs of different nodes that were seen writable at the same moment."""
        return overlaps(list(self._found.values()))

    def primaries(self) -> list[str]:
        """The nodes that were seen writable, the first one first."""
        return list(dict.fromkeys(
            each.node for each in sorted(self._found.values(), key=lambda each: each.since)))

    def ask(self, node: Node) -> ServerAnswer | None:
        """A node's answer to ``ruok``; None when there is none in time."""
        try:
            return probe_server(node.storage_address, time.monotonic() + PATIENCE)
        except ProbeError:
            return None

    def _watch(self, node: Node) -> None:
        while not self._ended.wait(PAUSE):
            asked = time.monotonic()
            found = self.ask(node)
            answer = found and found.replication
            if answer and answer.role is ServerRole.PRIMARY and not answer.read_only:
                key = node.name, answer.pid, answer.epoch
                since = self._found[key].since if key in self._found else time.monotonic()
                self._found[key] = Writable(*key, since, asked)
