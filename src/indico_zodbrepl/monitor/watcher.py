"""The loop that takes a snapshot each second, for every reader in a process."""

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
class Taken:
    """A snapshot and its source.

    Attributes:
        age: seconds since it was complete.
        shared: whether the monitor process took it, and not this one.
    """

    snapshot: Snapshot
    age: float = 0.0
    shared: bool = False


@dataclasses.dataclass(frozen=True)
class TimestampedSnapshot:
    """The latest snapshot.

    Attributes:
        age: seconds since it was complete.
        number: counts the watcher's snapshots, as a key for what is made of one.
        shared: whether the monitor process took it, and not this one.
    """

    snapshot: Snapshot
    age: float
    number: int = 0
    shared: bool = False

    @property
    def stale(self) -> bool:
        return self.age > STALE_AFTER


class Watcher:
    """A daemon thread that takes a snapshot each second.

    Args:
        take: takes one snapshot; its errors are logged, and the last snapshot grows stale.
        interval: seconds from the start of a round to the start of the next.

    Threads: ``latest`` may be called from any; ``start`` once.
    """

    def __init__(self, take: Callable[[], Snapshot | Taken], interval: float = INTERVAL) -> None:
        self._take = take
        self._interval = interval
        self._changed = threading.Condition()
        self._latest: tuple[Taken, float, int] | None = None
        self._ended = threading.Event()

    def start(self) -> None:
        threading.Thread(target=self._run, name="watcher", daemon=True).start()

    def end(self) -> None:
        """Take no further snapshot; do not wait for a round under way."""
        self._ended.set()

    def latest(self, patience: float = 3.0) -> TimestampedSnapshot | None:
        """Return the last snapshot; None if there is none yet after ``patience`` seconds."""
        with self._changed:
            self._changed.wait_for(lambda: self._latest is not None, timeout=patience)
            if self._latest is None:
                return None
            taken, completed, number = self._latest
        return TimestampedSnapshot(
            taken.snapshot, time.monotonic() - completed, number, taken.shared
        )

    def _run(self) -> None:
        while not self._ended.is_set():
            started = time.monotonic()
            try:
                found = self._take()
                taken = found if isinstance(found, Taken) else Taken(found)
            except Exception:  # whatever it was, the next round may succeed
                logger.exception("no snapshot could be taken")
            else:
                with self._changed:
                    number = 1 if self._latest is None else self._latest[2] + 1
                    self._latest = taken, time.monotonic() - taken.age, number
                    self._changed.notify_all()
            self._ended.wait(max(0.0, started + self._interval - time.monotonic()))
