"""The replicating storages a cluster can have, one module each."""

from __future__ import annotations

from ..cluster import Cluster
from ..errors import ExitCode, OperatorError
from .interfaces import IBackend
from .zrs import ZRS

# Every class here provides IBackend; a further backend joins this union and the table.
Backend = ZRS

_BACKENDS: dict[str, Backend] = {backend.name: backend for backend in (ZRS(),)}


def names() -> tuple[str, ...]:
    """The names that ``backend`` in a cluster file can have."""
    return tuple(_BACKENDS)


def backend_of(cluster: Cluster) -> Backend:
    """The backend of a cluster; OperatorError (exit 2) when there is none of that name."""
    try:
        return _BACKENDS[cluster.backend]
    except KeyError:
        raise OperatorError(
            f"unknown backend {cluster.backend!r}",
            f"{cluster.where(None, key='backend')}: known are {', '.join(names())}",
            exit_code=ExitCode.BAD_CONFIG) from None


__all__ = ["Backend", "IBackend", "backend_of", "names"]
