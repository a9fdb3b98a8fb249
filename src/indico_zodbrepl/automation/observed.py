"""The leader key as this host has observed it, and the time since which it is free.  Pure.

Only changes of the key count, timed by the observer's own clock.  Times that other hosts write into
keys are for people, because the clocks of hosts differ.
"""

from __future__ import annotations

import dataclasses

from indico_zodbrepl.automation.timing import COLD_SECONDS, Timing
from indico_zodbrepl.etcd.keys import Leader


@dataclasses.dataclass(frozen=True)
class Observed:
    """The newest known value of the leader key.

    Attributes:
        leader: None if there is no key.
        revision: of that value; 0 without a key.
        since: when this host first saw it.
        confirmed: when the last read was sent that still found it.
        moved: True if this program has seen the key change.  False after a start of all hosts, when
            nobody has renewed it yet.
    """

    leader: Leader | None
    revision: int
    since: float
    confirmed: float
    moved: bool = False

    def is_free(self, timing: Timing) -> bool:
        """Return True if its holder can have no lease any more.

        The last read counts, not the present time: a program that was frozen knows nothing of the
        time in between.
        """
        if self.leader is None:
            return False
        return self.leader.released or self.confirmed - self.since >= self.patience(timing)

    def patience(self, timing: Timing) -> float:
        """Return for how long the key has to stay unchanged until it is free."""
        return timing.lease if self.moved else max(timing.lease, COLD_SECONDS)

    def next_read(self, timing: Timing) -> float:
        """Return when the key is to be read again, while changes arrive by themselves."""
        free_at = self.since + self.patience(timing)
        late_at = self.since + 2 * timing.renewal
        due = max(self.confirmed + timing.poll, late_at)
        return min(due, free_at) if self.confirmed < free_at else due


def after(
    known: Observed | None, leader: Leader | None, revision: int, sent: float, received: float
) -> Observed:
    """Return what is known of the key after an answer or a reported change.

    Args:
        sent: when the read was sent; for a reported change also when it was received.
        received: when the answer arrived.
    """
    if known is None:
        return Observed(leader, revision, received, sent)
    if (leader, revision) == (known.leader, known.revision):
        return dataclasses.replace(known, confirmed=max(known.confirmed, sent))
    if revision < known.revision and sent < known.since:
        return known  # an answer that a later change has overtaken
    return Observed(leader, revision, received, sent, moved=True)
