"""The hosts that do not answer: calls to them fail at once, and threads look if they are back."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

PROBE_SECONDS = 0.5
"""Time between two attempts to reach a host that is away."""
FORGET_SECONDS = 10.0
"""Time after which a host that nobody asks for is not tried any more; the next call tries it."""


class _Away:
    def __init__(self, why: str) -> None:
        self.why = why
        self.asked = time.monotonic()


class AwayHosts:
    """The hosts of this process's calls that are away, by the addresses of their agents.

    Any thread may call.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[str, _Away] = {}

    def why(self, address: str) -> str:
        """Return why a host is away; empty if it is not, or if that is not known."""
        with self._lock:
            known = self._known.get(address)
            if known is None:
                return ""
            known.asked = time.monotonic()
            return known.why

    def all_of(self) -> dict[str, str]:
        """Return why each host is away."""
        with self._lock:
            return {address: known.why for address, known in self._known.items()}

    def add(self, address: str, why: str, look: Callable[[], str]) -> None:
        """Take a host for away until it answers again.

        Args:
            look: returns why it does not answer now, or nothing if it does; called in a thread.
        """
        with self._lock:
            if address in self._known:
                self._known[address].why = why
                return
            self._known[address] = _Away(why)
        job = (address, look)
        threading.Thread(target=self._watch, args=job, name=f"away-{address}", daemon=True).start()

    def forget(self) -> None:
        """Take no host for away."""
        with self._lock:
            self._known.clear()

    def _watch(self, address: str, look: Callable[[], str]) -> None:
        while True:
            time.sleep(PROBE_SECONDS)
            why = look()
            with self._lock:
                known = self._known.get(address)
                if known is None:
                    return
                if not why or time.monotonic() > known.asked + FORGET_SECONDS:
                    del self._known[address]
                    return
                known.why = why  # a host whose agent has stopped may lose its power
