"""The operation that has begun and not ended, as pages ask for it: often, and in nobody's way."""

from __future__ import annotations

import dataclasses

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
    at_work = store.is_at_work(cluster)
    try:
        return Opened(store.unfinished(cluster), at_work)
    except OperatorError as error:
        return Opened(None, at_work, error)
