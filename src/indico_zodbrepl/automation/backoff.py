"""The pause before a node that failed to take the role tries again.  Pure."""

from __future__ import annotations

import dataclasses

FIRST_SECONDS = 10.0
LONGEST_SECONDS = 300.0


@dataclasses.dataclass(frozen=True)
class Backoff:
    """Failures in a row; each doubles the time.

    Attributes:
        until: no attempt before this moment of CLOCK_BOOTTIME.
    """

    failures: int = 0
    until: float = 0.0

    def failed(self, now: float) -> Backoff:
        """Return the state after another failure."""
        seconds = min(FIRST_SECONDS * 2**self.failures, LONGEST_SECONDS)
        return Backoff(self.failures + 1, now + seconds)
