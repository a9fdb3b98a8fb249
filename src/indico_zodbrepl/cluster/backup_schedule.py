"""The schedule of the daily backup: when one is due, and how old the last one may be.  Pure.

Times are in UTC.  A local time may not exist on the day on which clocks change, and systemd then
starts nothing; and hosts of one cluster may have different time zones.
"""

from __future__ import annotations

import datetime

from indico_zodbrepl.cluster.model import Cluster

DAY = 24 * 3600
GRACE = 2 * 3600
"""Seconds after which a backup is late: one may take longer than that of the day before."""


def shown(at: datetime.time) -> str:
    """Return the time of the daily backup for people."""
    return f"{at:%H:%M} UTC"


def calendar(at: datetime.time) -> str:
    """Return the calendar expression of systemd.time(7)."""
    return f"*-*-* {at:%H:%M}:00 UTC"


def unit(cluster: Cluster, kind: str) -> str:
    """Return the name of systemd's ``service`` of scheduled backups, or of their ``timer``.

    It exists on the host that has the folder of backups.
    """
    return f"zodbrepl-{cluster.name}-backup.{kind}"


def due_after(at: datetime.time, moment: float) -> float:
    """Return when the next backup after a moment is due, seconds since 1970."""
    day = datetime.datetime.fromtimestamp(moment, datetime.UTC).date()
    due = datetime.datetime.combine(day, at, datetime.UTC).timestamp()
    return due if due > moment else due + DAY


def is_late(last: float, now: float) -> bool:
    """Return True if the last good backup is older than a daily one may be.

    Args:
        last: when it ended, seconds since 1970.
    """
    return now - last > DAY + GRACE
