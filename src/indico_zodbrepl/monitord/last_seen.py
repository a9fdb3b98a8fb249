"""``VAR/watch/last-seen.json``: the cluster when it last had a writable primary.

A start of the primary, a failover and a restore read from it which transactions existed;
``host.last_seen`` reads it.
"""

from __future__ import annotations

import datetime
from typing import Any

from indico_zodbrepl.monitor.snapshot import Snapshot

DIGITS = 16


def last_seen(snapshot: Snapshot) -> dict[str, Any] | None:
    """Return the file's content; None if the snapshot has no single writable primary.

    ``at`` is ISO 8601 in UTC; transactions are 16 hex digits.
    """
    if snapshot.primary is None:
        return None
    primary = snapshot.node(snapshot.primary)
    at = datetime.datetime.fromtimestamp(snapshot.taken_at, datetime.UTC)
    return {
        "at": at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "primary": primary.name,
        "epoch": primary.epoch,
        "last_tid": _digits(primary.last_tid),
        "nodes": {
            node.name: {
                "last_tid": _digits(node.last_tid),
                "role": None if node.actual_role is None else node.actual_role.value,
                "connected": node.connected,
                "lag_transactions": node.lag_transactions,
            }
            for node in snapshot.nodes
        },
    }


def _digits(number: int | None) -> str | None:
    return None if number is None else f"{number:0{DIGITS}x}"
