"""The storages that benchmarks compare, as shapes of scratch clusters.  Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

from indico_zodbrepl.cluster import Cluster
from indico_zodbrepl.cluster.settings import (
    MariaDBSettings,
    NeoSettings,
    PostgreSQLSettings,
    SQLiteSettings,
)
from indico_zodbrepl.errors import ExitCode, OperatorError

IN_MEMORY = "in-memory"
RUNNING = "running"
"""The name of the current cluster itself, as it runs; it cannot be requested."""
CONFIGURED = "configured"
"""The name for a copy of the current cluster's shape."""

Nodes = Mapping[str, tuple[str, str | None]]
"""Role and upstream by name."""

_ALONE: dict[str, tuple[str, str | None]] = {"a": ("primary", None)}
_PAIR: dict[str, tuple[str, str | None]] = {**_ALONE, "b": ("secondary", "a")}
_NEO: dict[str, tuple[str, str | None]] = {"m": ("master", None), "w": ("admin", None)}


@dataclasses.dataclass(frozen=True)
class Storage:
    """A storage to measure.

    Attributes:
        name: as in ``--storages``.
        title: display name.
        backend: as in a cluster file; '' for the in-memory storage, of which each process has its
            own.
        nodes: role and upstream by name.
        settings: lines of the cluster file with the engine's settings.
    """

    name: str
    title: str
    backend: str = ""
    nodes: Nodes = dataclasses.field(default_factory=dict)
    settings: tuple[str, ...] = ()

    @property
    def one_process(self) -> bool:
        """Return True if only one process at a time can open the database."""
        return self.backend in ("", "filestorage")

    @property
    def has_servers(self) -> bool:
        return self.backend not in ("", "filestorage", "relstorage-sqlite")

    @property
    def followers(self) -> tuple[str, ...]:
        """Return the nodes with an upstream."""
        return tuple(name for name, (_, upstream) in self.nodes.items() if upstream)


def _neo(storages: int) -> Nodes:
    return _NEO | {f"s{number}": ("storage", None) for number in range(1, storages + 1)}


STORAGES: Mapping[str, Storage] = {
    each.name: each
    for each in (
        Storage(IN_MEMORY, "in memory"),
        Storage("filestorage", "FileStorage", "filestorage", _ALONE),
        Storage("zeo", "ZEO", "zeo", _ALONE),
        Storage("zrs-0", "ZRS alone", "zrs", _ALONE),
        Storage("zrs", "ZRS, 1 secondary", "zrs", _PAIR),
        Storage("zrs-sync", "ZRS, acknowledged", "zrs", _PAIR, ("synchronous 1",)),
        Storage("zrs-archive", "ZRS, files in a folder", "zrs", _PAIR, ("files archive",)),
        Storage("zrs-2-direct", "ZRS, 2 direct", "zrs", _PAIR | {"c": ("secondary", "a")}),
        Storage(
            "zrs-2-serial",
            "ZRS, 2 serial",
            "zrs",
            {**_ALONE, "b": ("relay", "a"), "c": ("secondary", "b")},
        ),
        Storage("neo", "NEO, no replica", "neo", _neo(1)),
        Storage("neo-1", "NEO, 1 replica", "neo", _neo(2), ("<neo>", "  replicas 1", "</neo>")),
        Storage("neo-2", "NEO, 2 replicas", "neo", _neo(3), ("<neo>", "  replicas 2", "</neo>")),
        Storage("sqlite", "RelStorage, SQLite", "relstorage-sqlite", _ALONE),
        Storage("postgresql", "PostgreSQL alone", "relstorage-postgresql", _ALONE),
        Storage("postgresql-async", "PostgreSQL, asynchronous", "relstorage-postgresql", _PAIR),
        Storage(
            "postgresql-sync",
            "PostgreSQL, synchronous",
            "relstorage-postgresql",
            _PAIR,
            ("synchronous 1",),
        ),
        Storage("mariadb", "MariaDB alone", "relstorage-mariadb", _ALONE),
        Storage("mariadb-async", "MariaDB, asynchronous", "relstorage-mariadb", _PAIR),
        Storage(
            "mariadb-sync",
            "MariaDB, semi-synchronous",
            "relstorage-mariadb",
            _PAIR,
            ("synchronous 1",),
        ),
    )
}


def named(names: Sequence[str], cluster: Cluster) -> tuple[Storage, ...]:
    """Return storages by name, without duplicates; ``configured`` is the current cluster's shape.

    Raises:
        OperatorError: exit 2, there is none of that name.
    """
    found = []
    for name in dict.fromkeys(names):
        if name == CONFIGURED:
            found.append(like(cluster))
        elif name in STORAGES:
            found.append(STORAGES[name])
        else:
            raise OperatorError(
                f"there is no storage {name!r} to measure",
                f"there are: {', '.join((*STORAGES, CONFIGURED))}",
                "name some of them with --storages, with commas between",
                ExitCode.BAD_CONFIG,
            )
    return tuple(found)


def like(cluster: Cluster) -> Storage:
    """Return the shape of a cluster: backend, roles and engine settings, without data.

    Raises:
        OperatorError: exit 2, its servers are managed elsewhere and cannot be duplicated.
    """
    foreign = [node.name for node in cluster.nodes if not node.managed]
    if foreign:
        raise OperatorError(
            f"cluster {cluster.name} can't be copied for a benchmark",
            f"{', '.join(foreign)}: not managed, so somebody else runs the servers",
            "name storages with --storages",
            ExitCode.BAD_CONFIG,
        )
    return Storage(
        CONFIGURED,
        f"as {cluster.name}",
        cluster.backend,
        {node.name: (node.role.value, node.upstream) for node in cluster.nodes},
        tuple(_section(cluster)),
    )


def _section(cluster: Cluster) -> Iterator[str]:
    """Return the lines of the engine's settings, without file and database names."""
    sync = cluster.synchronous
    if sync.count:
        yield from (
            f"synchronous {sync.count}",
            f"synchronous-level {sync.level}",
            f"synchronous-timeout {sync.timeout:g}",
            f"synchronous-alone {sync.alone}",
        )
    match cluster.settings:
        case NeoSettings(replicas=replicas, partitions=partitions):
            lines = [f"  replicas {replicas}", f"  partitions {partitions}"]
            kind = "neo"
        case SQLiteSettings(keep_history=kept):
            kind, lines = "sqlite", [f"  keep-history {_word(kept)}"]
        case PostgreSQLSettings() | MariaDBSettings() as settings:
            kind = "postgresql" if isinstance(settings, PostgreSQLSettings) else "mariadb"
            lines = [
                f"  keep-history {_word(settings.keep_history)}",
            ]
            if settings.bin_directory:
                lines.append(f"  bin-directory {settings.bin_directory}")
        case _:
            return
    yield from (f"<{kind}>", *lines, f"</{kind}>")


def _word(value: bool) -> str:
    return str(value).lower()
