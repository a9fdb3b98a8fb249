"""Measure a snapshot: one value for each series.  Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from indico_zodbrepl.monitor.snapshot import Snapshot
from indico_zodbrepl.monitord.series import UNKNOWN, Kind, Series


def measured(
    snapshot: Snapshot, lags: Mapping[str, float | None]
) -> Iterator[tuple[Series, float]]:
    """Yield the series that a snapshot has, with their values; lags in seconds, sizes in bytes.

    Args:
        lags: lag of each follower in seconds; None if unknown.
    """
    for name, seconds in lags.items():
        behind = snapshot.node(name).lag_transactions
        yield Series(Kind.LAG, name), UNKNOWN if seconds is None else seconds
        yield Series(Kind.LAG_TRANSACTIONS, name), UNKNOWN if behind is None else behind
    for node in snapshot.nodes:
        if node.size is not None:
            yield Series(Kind.DATA_SIZE, node.name), node.size
    for found in snapshot.file_systems:
        yield Series(Kind.DISK_FREE, ", ".join(found.names)), found.disk.free
