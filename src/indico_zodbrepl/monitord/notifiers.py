"""Delivery of events to each recipient, in a thread of its own."""

from __future__ import annotations

import collections
import dataclasses
import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Protocol

from indico_zodbrepl.monitord.events import Event

logger = logging.getLogger(__name__)

BACKOFF = (1.0, 2.0, 5.0, 10.0, 30.0)
"""Seconds between attempts; the last one repeats."""
GIVE_UP_AFTER = 600.0
"""Seconds for which a delivery is tried."""
MOST_WAITING = 100
"""Batches; if more are waiting, the oldest is dropped."""


class DeliveryError(Exception):
    """A delivery failed; the text says why."""


class Recipient(Protocol):
    """A recipient of events.

    Attributes:
        name: for messages and metrics.
    """

    name: str

    def deliver(self, events: Sequence[Event]) -> None:
        """Deliver the events of one moment in a few seconds.  Raises DeliveryError."""
        ...


@dataclasses.dataclass
class Counts:
    """Deliveries so far, in batches."""

    delivered: int = 0
    failed: int = 0
    retried: int = 0


class Notifier:
    """A thread that delivers to one recipient, in order, and retries.

    Args:
        recipient: of the events.
        lost: called with its name, the events that were given up, and the reason; in any thread.
        backoff: seconds between attempts; the last one repeats.
        give_up_after: seconds for which a delivery is tried.

    Threads: ``take`` and ``counts`` are for any; ``start`` once.
    """

    def __init__(
        self,
        recipient: Recipient,
        lost: Callable[[str, Sequence[Event], str], None],
        backoff: Sequence[float] = BACKOFF,
        give_up_after: float = GIVE_UP_AFTER,
    ) -> None:
        self.name = recipient.name
        self.counts = Counts()
        self._recipient = recipient
        self._lost = lost
        self._backoff = backoff
        self._give_up_after = give_up_after
        self._waiting: collections.deque[tuple[float, Sequence[Event]]] = collections.deque()
        self._changed = threading.Condition()

    def start(self) -> None:
        threading.Thread(target=self._run, name=f"notifier-{self.name}", daemon=True).start()

    def take(self, events: Sequence[Event]) -> None:
        """Queue events of one moment for delivery; return at once."""
        dropped = None
        with self._changed:
            if len(self._waiting) >= MOST_WAITING:
                dropped = self._waiting.popleft()[1]
                self.counts.failed += 1
            self._waiting.append((time.monotonic(), events))
            self._changed.notify()
        if dropped is not None:
            self._lost(self.name, dropped, f"more than {MOST_WAITING} deliveries wait")

    def undelivered(self) -> int:
        """Return the number of batches that wait or are under way."""
        with self._changed:
            return len(self._waiting)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting)
                batch = self._waiting[0]
            self._deliver(*batch)
            with self._changed:
                if self._waiting and self._waiting[0] is batch:
                    self._waiting.popleft()

    def _deliver(self, taken: float, events: Sequence[Event]) -> None:
        attempt = 0
        while True:
            try:
                self._recipient.deliver(events)
            except DeliveryError as error:
                if time.monotonic() - taken >= self._give_up_after:
                    self.counts.failed += 1
                    self._lost(self.name, events, str(error))
                    return
                if attempt == 0:
                    logger.warning("%s: %s; it is tried again", self.name, error)
                self.counts.retried += 1
                time.sleep(self._backoff[min(attempt, len(self._backoff) - 1)])
                attempt += 1
            else:
                self.counts.delivered += 1
                return
