"""Reports of the hosts about their nodes, as they arrive from etcd.  Pure."""

from __future__ import annotations

import dataclasses

from indico_zodbrepl.etcd.keys import Member

REPEAT_SECONDS = 5.0
"""An unchanged report is written again after this time, to show that it is up to date."""


@dataclasses.dataclass(frozen=True)
class Report:
    """The last report about a node.

    Attributes:
        heard: when it arrived, on this host's ``timing.now``; None of one that was there before,
            and may be old.
    """

    member: Member
    heard: float | None

    def is_recent(self, now: float) -> bool:
        """Return True if its host certainly made it a moment ago."""
        return self.heard is not None and now - self.heard < 3 * REPEAT_SECONDS


def reported(before: Report | None, member: Member, at: float) -> Report:
    """Return the report that is read at a moment; ``before`` is the last one, None without one.

    Each has the time at which it was made, so one that says the same as before is the same.
    """
    if before is None:
        return Report(member, None)
    return before if before.member == member else Report(member, at)
