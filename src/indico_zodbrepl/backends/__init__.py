"""The storages that a cluster can have, one module each, imported when needed.

Drivers of database servers take longer to import than most commands take to do their work.
"""

from __future__ import annotations

import functools
import importlib
from typing import TYPE_CHECKING, TypeAlias

from indico_zodbrepl.backends.interfaces import OPERATIONS, Family, IBackend, NativeReplication
from indico_zodbrepl.cluster import Cluster
from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.errors import ExitCode, OperatorError

if TYPE_CHECKING:
    from indico_zodbrepl.backends.consensus import Consensus
    from indico_zodbrepl.backends.filestorage import FileStorage
    from indico_zodbrepl.backends.mariadb import MariaDB
    from indico_zodbrepl.backends.neo import NEO
    from indico_zodbrepl.backends.oracle import Oracle
    from indico_zodbrepl.backends.postgresql import PostgreSQL
    from indico_zodbrepl.backends.sqlite import SQLite
    from indico_zodbrepl.backends.zeo import ZEO
    from indico_zodbrepl.backends.zrs import ZRS

    # Every class here provides IBackend.  A new backend is added to this union and the table, and
    # its cluster files are described in ``cluster.shapes``.
    Backend: TypeAlias = ZRS | ZEO | FileStorage | SQLite | PostgreSQL | MariaDB | Oracle | NEO

# Name: the module in this package, and the class.
_BACKENDS = {
    "zrs": ("zrs", "ZRS"),
    "zeo": ("zeo", "ZEO"),
    "filestorage": ("filestorage", "FileStorage"),
    "relstorage-sqlite": ("sqlite", "SQLite"),
    "relstorage-postgresql": ("postgresql", "PostgreSQL"),
    "relstorage-mariadb": ("mariadb", "MariaDB"),
    "relstorage-oracle": ("oracle", "Oracle"),
    "neo": ("neo", "NEO"),
}


def names() -> tuple[str, ...]:
    """Return the names that ``backend`` in a cluster file can have."""
    return tuple(_BACKENDS)


@functools.cache
def named(name: str) -> Backend:
    """Return the backend of that name; raise KeyError if there is none."""
    module, kind = _BACKENDS[name]
    backend: Backend = getattr(importlib.import_module(f"{__name__}.{module}"), kind)()
    return backend


def backend_of(cluster: Cluster) -> Backend:
    """Return the backend of a cluster; raise OperatorError (exit 2) if its name is unknown."""
    try:
        return named(cluster.backend)
    except KeyError:
        raise OperatorError(
            f"unknown backend {cluster.backend!r}",
            f"{cluster.where(None, key='backend')}: known are {', '.join(names())}",
            exit_code=ExitCode.BAD_CONFIG,
        ) from None


def native_of(cluster: Cluster) -> NativeReplication:
    """Return the native replication backend of a cluster.

    Raises OperatorError if it has another backend: the plan is for another cluster.
    """
    from indico_zodbrepl.backends.native_replication import (  # noqa: PLC0415  # seldom used
        NativeServers,
    )

    backend = backend_of(cluster)
    if not isinstance(backend, NativeServers):
        raise _no_such_step(cluster)
    return backend


def consensus_of(cluster: Cluster) -> Consensus:
    """Return the consensus backend of a cluster; raise OperatorError as ``native_of``."""
    from indico_zodbrepl.backends.consensus import ConsensusServers  # noqa: PLC0415  # as above

    backend = backend_of(cluster)
    if not isinstance(backend, ConsensusServers):
        raise _no_such_step(cluster)
    return backend


def _no_such_step(cluster: Cluster) -> OperatorError:
    return OperatorError(
        f"the backend {cluster.backend} has no such step",
        "the operation was planned for another one",
    )


def limit(cluster: Cluster, feature: str) -> str | None:
    """Return why a cluster cannot do something, and what to do instead; None if it can.

    Either its backend cannot, or a server managed elsewhere would have to change its role. Commands
    in the text work as printed, for this cluster.

    Args:
        feature: a key of ``interfaces.OPERATIONS`` or ``FEATURES``, such as ``switchover``.
    """
    found = backend_of(cluster).limits.get(feature)
    foreign = next((node for node in cluster.nodes if not node.managed), None)
    if found is None and foreign is not None and feature in OPERATIONS:
        return (
            f"node {foreign.name} is not managed here: whoever runs it changes roles and data; "
            f"then say in {cluster.source} which role each node has"
        )
    return found and found.replace("`bin/zodbrepl ", f"`{Commands.here(cluster).zodbrepl()} ")


def can(cluster: Cluster, feature: str) -> bool:
    """Return True if the cluster can do something; see ``limit``."""
    return limit(cluster, feature) is None


def require(cluster: Cluster, feature: str) -> None:
    """Raise OperatorError (exit 8) if a cluster cannot do something; see ``limit``."""
    reason = limit(cluster, feature)
    if reason is not None:
        raise OperatorError(
            f"{feature} is not for this cluster, of backend {cluster.backend}",
            reason,
            exit_code=ExitCode.REFUSED,
        )


__all__ = [
    "Family",
    "IBackend",
    "NativeReplication",
    "backend_of",
    "can",
    "consensus_of",
    "limit",
    "named",
    "names",
    "native_of",
    "require",
]
