"""What is told of an operation that was cut short, by commands that go on nevertheless."""

from __future__ import annotations

from ..cluster import Cluster
from ..cluster.commands import Commands
from ..errors import OperatorError
from ..failover import store


def what_is_open(cluster: Cluster) -> list[str]:
    """What has begun and not ended, and how it is ended; nothing while one is at work."""
    try:
        store.refuse_at_work(cluster)
        found = store.unfinished(cluster)
    except OperatorError:
        return []  # who begins the next operation is told
    if found is None:
        return []
    return [f"{found.plan.name} has begun and not ended ({found.identifier})",
            f"end it first: {Commands.here(cluster).zodbrepl('resume')}"]


def with_what_is_open(cluster: Cluster, error: OperatorError) -> OperatorError:
    """An error with the right hint: a node may have refused because of what is open."""
    lines = what_is_open(cluster)
    if not lines:
        return error
    return OperatorError(error.notice, "\n".join(filter(None, [error.detail, lines[0]])), lines[1],
                         error.exit_code)
