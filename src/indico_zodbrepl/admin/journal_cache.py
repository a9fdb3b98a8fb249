"""The journal as pages read it: anew only after its file has changed."""

from __future__ import annotations

import functools
import os

from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.cluster.model import Cluster
from indico_zodbrepl.failover import journal
from indico_zodbrepl.failover.operation import Operation

Journal = tuple[tuple[Operation, ...], tuple[str, ...]]
"""Operations in the order in which they began, and a notice for each unusable line."""


def read(cluster: Cluster) -> Journal:
    """What the journal says now.  Raises OperatorError.  Threads: any."""
    try:
        found = os.stat(Layout(cluster).journal)
    except OSError:
        return _read(cluster)
    return _of_state(cluster, (found.st_ino, found.st_size, found.st_mtime_ns))


@functools.lru_cache(maxsize=2)
def _of_state(cluster: Cluster, _state: tuple[int, int, int]) -> Journal:
    return _read(cluster)


def _read(cluster: Cluster) -> Journal:
    entries, notices = journal.read(cluster)
    return tuple(entries), tuple(notices)
