"""The clock of all decisions, and the times that follow from the length of a lease."""

from __future__ import annotations

import dataclasses
import time

COLD_SECONDS = 15.0
"""Seconds for a leader to come back after a start of all hosts, before others replace it."""
YIELD_SECONDS = 0.8
"""Seconds that a candidate gives each better one to take the role."""
ASK_SECONDS = 0.3
"""Seconds for the answers of other candidates."""
ASK_DATABASE_SECONDS = 3.0
"""The same for database servers, which apply what they have received and are asked in SQL.

MariaDB leaves an upstream on a lost host only after its present attempt to connect, 2 s at most.
"""
ORDER_SECONDS = 0.3
"""Seconds for the server's answer to a renewal of its lease."""
STOPPED_SECONDS = 0.25
"""Seconds after which a stopped server is killed; a debugger's or fencing's pause is shorter."""
SILENT_ATTEMPTS = 3
"""Unanswered orders before a running server counts as hung, besides the length of a lease."""


def now() -> float:
    """Return the seconds since the host started, which no change of its date affects.

    The clock runs on while the host is suspended.
    """
    return time.clock_gettime(time.CLOCK_BOOTTIME)


@dataclasses.dataclass(frozen=True)
class Timing:
    """The times of a cluster.

    Attributes:
        lease: seconds without a renewal after which others may replace a leader.
    """

    lease: float

    @property
    def margin(self) -> float:
        """Return by how much a server's lease ends earlier, for clocks of different speed."""
        return self.lease / 6

    @property
    def renewal(self) -> float:
        """Return the time between two renewals."""
        return self.lease / 7

    @property
    def slow_order(self) -> float:
        """Return the seconds for the server's answer after it has missed `ORDER_SECONDS` once.

        A server that is always a little slower than that is not silent.
        """
        return max(ORDER_SECONDS, self.lease / 4)

    @property
    def poll(self) -> float:
        """Return the time between two reads of a key that nobody renews."""
        return self.lease / 14

    @property
    def detached(self) -> float:
        """Return for how long candidates stay away from their upstream while one takes over."""
        return 2 * self.lease + 5.0

    def until(self, sent: float) -> float:
        """Return when a server's lease ends whose renewal was sent at a moment."""
        return sent + self.lease - self.margin
