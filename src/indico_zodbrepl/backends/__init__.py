"""The storages a cluster can have, one module each, imported when a cluster has it.

Drivers of database servers take longer to import than most commands take to do their work.
"""

from __future__ import annotations

import functools
import importlib
from typing import TYPE_CHECKING, TypeAlias

from ..cluster import Cluster
from ..cluster.commands import Commands
from ..errors import ExitCode, OperatorError
from .electing import Electing
from .interfaces import OPERATIONS, Engine, IBackend, SQLFiles

if TYPE_CHECKING:
    from .filestorage import FileStorage
    from .mariadb import MariaDB
    from .neo import NEO
    from .oracle import Oracle
    from .postgresql import PostgreSQL
    from .sqlite import SQLite
    from .zeo import ZEO
    from .zrs import ZRS

    # Every class here provides IBackend; a further backend joins this union and the table, and
    # says in ``cluster.shapes`` what a cluster file of it looks like.
    Backend: TypeAlias = ZRS | ZEO | FileStorage | SQLite | PostgreSQL | MariaDB | Oracle | NEO

# The name of each: the module of this package that has it, and its class.
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
    """The names that ``backend`` in a cluster file can have."""
    return tuple(_BACKENDS)


@functools.cache
def named(name: str) -> Backend:
    """The backend of that name; KeyError when there is none."""
    module, kind = _BACKENDS[name]
    backend: Backend = getattr(importlib.import_module(f"{__name__}.{module}"), kind)()
    return backend


def backend_of(cluster: Cluster) -> Backend:
    """The backend of a cluster; OperatorError (exit 2) when there is none of that name."""
    try:
        return named(cluster.backend)
    except KeyError:
        raise OperatorError(
            f"unknown backend {cluster.backend!r}",
            f"{cluster.where(None, key='backend')}: known are {', '.join(names())}",
            exit_code=ExitCode.BAD_CONFIG) from None


def engine_of(cluster: Cluster) -> Engine | None:
    """The backend of a cluster when its servers replicate by themselves, else None."""
    backend = backend_of(cluster)
    return backend if isinstance(backend, Engine) else None


def electing_of(cluster: Cluster) -> Electing | None:
    """The backend of a cluster when its masters elect who leads, else None."""
    backend = backend_of(cluster)
    return backend if isinstance(backend, Electing) else None


def sql_files_of(cluster: Cluster) -> SQLFiles | None:
    """The backend of a cluster when its database is some files of SQLite, else None."""
    backend = backend_of(cluster)
    return backend if isinstance(backend, SQLFiles) else None


def limit(cluster: Cluster, feature: str) -> str | None:
    """Why a cluster can't do something, and what to do instead, one sentence; None when it can.

    Its backend can't, or a server of somebody else would have to change its role.  Commands in
    it work as they are printed, for this cluster.

    Args:
        feature: a key of ``interfaces.OPERATIONS`` or ``FEATURES``, such as ``switchover``.
    """
    found = backend_of(cluster).limits.get(feature)
    foreign = next((node for node in cluster.nodes if not node.managed), None)
    if found is None and foreign is not None and feature in OPERATIONS:
        return (f"node {foreign.name} is not managed here: whoever runs it changes roles and data; "
                f"then say in {cluster.source} which role each node has")
    return found and found.replace("`bin/zodbrepl ", f"`{Commands.here(cluster).zodbrepl()} ")


def can(cluster: Cluster, feature: str) -> bool:
    """Whether there is no ``limit``."""
    return limit(cluster, feature) is None


def require(cluster: Cluster, feature: str) -> None:
    """Raise OperatorError (exit 8) when a command can't do its work; see ``limit``."""
    reason = limit(cluster, feature)
    if reason is not None:
        raise OperatorError(f"{feature} is not for this cluster, of backend {cluster.backend}",
                            reason, exit_code=ExitCode.REFUSED)


__all__ = ["Electing", "Engine", "IBackend", "SQLFiles", "backend_of", "can", "electing_of",
           "engine_of", "limit", "named", "names", "require", "sql_files_of"]
