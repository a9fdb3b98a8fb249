"""One thread that probes for everybody: ten open pages cost the servers no more than one."""

from __future__ import annotations

import dataclasses
import logging
import threading
import time
from collections.abc import Callable

from indico_zodbrepl.monitor.snapshot import Snapshot

logger = logging.getLogger(__name__)

INTERVAL = 1.0
STALE_AFTER = 5.0
"""Seconds; a round takes two at most, so an older snapshot means that the watcher fails."""


@dataclasses.dataclass(frozen=True)
class Sighting:
    """A snapshot and how long ago it was complete, in seconds.

    ``number`` counts the watcher's snapshots: what was made of one can be kept by it.
    """

    snapshot: Snapshot
    age: float
    number: int = 0

    @property
    def stale(self) -> bool:
        return self.age > STALE_AFTER


class Watcher:
    """Takes a snapshot each second in a daemon thread of its own.

    Args:
        take: takes one snapshot; what it raises is logged, and the last snapshot grows stale.
        interval: seconds from the start of a round to the start of the next.

    Threads: ``latest`` may be called from any; ``start`` once.
    """

    def __init__(self, take: Callable[[], Snapshot], interval: float = INTERVAL) -> None:
        self._take = take
        self._interval = interval
        self._changed = threading.Condition()
        self._latest: tuple[Snapshot, float, int] | None = None
        self._ended = threading.Event()

    def start(self) -> None:
        threading.Thread(target=self._run, name="watcher", daemon=True).start()

    def end(self) -> None:
        """Take no further snapshot; a round under way is not waited for."""
        self._ended.set()

    def latest(self, patience: float = 3.0) -> Sighting | None:
        """The last snapshot; None when even the first one fails to come in ``patience`` seconds."""
        with self._changed:
            self._changed.wait_for(lambda: self._latest is not None, timeout=patience)
            if self._latest is None:
                return None
            snapshot, completed, number = self._latest
        return Sighting(snapshot, time.monotonic() - completed, number)

    def _run(self) -> None:
        while not self._ended.is_set():
            started = time.monotonic()
            try:
                snapshot = self._take()
            except Exception:  # whatever it was, the next round may succeed
                logger.exception("no snapshot could be taken")
            else:
                with self._changed:
                    number = 1 if self._latest is None else self._latest[2] + 1
                    self._latest = snapshot, time.monotonic(), number
                    self._changed.notify_all()
            self._ended.wait(max(0.0, started + self._interval - time.monotonic()))
