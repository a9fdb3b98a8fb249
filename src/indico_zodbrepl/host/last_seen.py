"""``VAR/watch/last-seen.json``: the primary as the monitor process last saw it.

The monitor process writes it; a start of the primary, a failover and a restore read it.  It names
transactions that a data file should hold.
"""

from __future__ import annotations

import dataclasses
import datetime
import json
from typing import Any

from indico_zodbrepl.cluster import Cluster
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.probing import tid


@dataclasses.dataclass(frozen=True)
class LastSeen:
    """What the monitor process last saw of a primary that answered.

    Attributes:
        at: seconds since 1970.
        epoch: the primary's; None in a file of an earlier release.
    """

    at: float
    primary: str
    last_tid: int
    epoch: int | None = None


def read(cluster: Cluster) -> LastSeen | None:
    """Return what the monitor process saved; None if there is no usable file.

    A damaged file counts as none: it is never the only source.
    """
    try:
        return parse(json.loads(Layout(cluster).last_seen.read_text("utf-8")))
    except (OSError, ValueError):
        return None


def parse(values: Any) -> LastSeen | None:
    """Return what the monitor process saved as JSON; None if it is invalid."""
    try:
        at = datetime.datetime.fromisoformat(values["at"]).timestamp()
        epoch = values.get("epoch")
        return LastSeen(
            at,
            str(values["primary"]),
            tid.parse(values["last_tid"]),
            epoch if type(epoch) is int else None,
        )
    except (AttributeError, KeyError, TypeError, ValueError):
        return None
