"""The operation that has begun and not ended, as pages ask for it: often, and in nobody's way."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.cluster.model import Cluster
from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.failover import store
from indico_zodbrepl.failover.operation import Operation


@dataclasses.dataclass(frozen=True)
class Opened:
    """What has not ended.

    Attributes:
        operation: None when every operation has ended, or when one's file can't be used.
        at_work: whether a process works on it now.
        problem: why the files of operations can't be used; None when they can.
    """

    operation: Operation | None
    at_work: bool
    problem: OperatorError | None = None


def opened(cluster: Cluster) -> Opened:
    """What has not ended; never raises."""
    at_work = is_at_work(cluster)
    try:
        return Opened(store.unfinished(cluster), at_work)
    except OperatorError as error:
        return Opened(None, at_work, error)


def is_at_work(cluster: Cluster) -> bool:
    """Whether a process holds the lock of operations.

    To find out takes the lock for an instant, in which nobody else could begin.  So it is tried
    only while the process that noted itself in it lives: then that is most likely the holder.
    """
    try:
        pid = int(Layout(cluster).operation_lock.read_text("ascii"))
    except (OSError, ValueError):
        return False
    if not Path(f"/proc/{pid}").exists():
        return False
    try:
        store.refuse_at_work(cluster)
    except OperatorError:
        return True
    return False
