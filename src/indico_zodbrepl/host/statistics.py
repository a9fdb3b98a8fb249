"""Database statistics by the data plane's program, which reads any storage."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from indico_zodbrepl.backends import backend_of
from indico_zodbrepl.cluster import Cluster, Node, Role, formats
from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.cluster.files import write_atomically
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.cluster.lookup import node_named
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host import peers, py27, state
from indico_zodbrepl.host.py27 import Program

PROGRAM = Program(
    "indico_zodbrepl.dataplane.stats.program",
    "the database can't be read",
    {4: ExitCode.REFUSED, 6: ExitCode.NOT_RUNNING},  # a damaged file; the storage does not answer
)
SILENCE_SECONDS = 120.0  # longer than a client waits for a server
HISTORY = {
    "counted": "",
    "not counted": "older states were not read",
    "not kept": "the storage keeps no older states",
}
"""What a walk says of older states, in words where they were not counted."""


@dataclasses.dataclass(frozen=True)
class Source:
    """The place where a database is read.

    Attributes:
        kind: ``file`` for a Data.fs, ``storage`` for the zodb.conf of a storage.
        path: of that file.
        node: that has the copy; None for the storage that Indico uses.
    """

    kind: str
    path: Path
    node: str | None


@dataclasses.dataclass(frozen=True)
class Progress:
    """The progress of a walk.

    Attributes:
        done: bytes of a file, objects of a storage.
        total: the same; None while it is unknown.
        records: number of records read, including older revisions.
    """

    done: int
    total: int | None
    records: int


def source(cluster: Cluster, name: str | None) -> Source:
    """Return where to read a node's copy of the database; without a name, Indico's.

    A Data.fs on this host is read directly, whether its server runs or not: that is much faster and
    burdens no server.  Raises OperatorError: exit 2 if the node has no copy that can be read
    directly, 6 if nothing was started yet.
    """
    backend, node = backend_of(cluster), chosen(cluster, name)
    path = backend.data_file(node) if node is not None else None
    if node is not None and path is not None and path.exists():
        return Source("file", path, node.name)
    if name is None or node is None:
        return _configured(cluster, Layout(cluster).zodb_conf, None)
    readable = [each.name for each in backend.readable_nodes(cluster)]
    if node.name not in readable:
        raise OperatorError(
            f"node {node.name} can't be read by itself",
            f"nodes that can: {', '.join(readable) or 'none'}",
            f"without --node the whole database is read: "
            f"{Commands.here(cluster).zodbrepl('stats')}",
            ExitCode.BAD_CONFIG,
        )
    return _configured(cluster, Layout(cluster).node_zodb_conf(node), node.name)


def chosen(cluster: Cluster, name: str | None) -> Node | None:
    """Return the named node; without a name the primary, or None if there is none."""
    if name:
        return node_named(cluster, name)
    states = peers.saved_states(cluster) or {
        node.name: state.initial(cluster, node) for node in cluster.nodes
    }
    primaries = [each for each in states.values() if each.role is Role.PRIMARY]
    if not primaries:
        return None
    return node_named(cluster, max(primaries, key=lambda each: each.epoch).node)


def _configured(cluster: Cluster, path: Path, node: str | None) -> Source:
    if not path.exists():
        raise OperatorError(
            "there is no database yet",
            f"{path} is written by `up`",
            Commands.here(cluster).zodbrepl("up"),
            ExitCode.NOT_RUNNING,
        )
    return Source("storage", path, node)


def statistics(
    installation: Installation,
    where: Source,
    top: int,
    *,
    history: bool = True,
    on_progress: Callable[[Progress], None] | None = None,
) -> dict[str, Any]:
    """Read the whole database and return its figures, as ``docs/reference`` lists them.

    Args:
        where: the database.
        top: number of the largest objects to list.
        history: also read the old revisions of a storage.
        on_progress: called about twice a second, in this thread.

    Raises OperatorError: also TIMED_OUT, if a storage does not answer for two minutes.
    """
    return py27.run(
        installation,
        PROGRAM,
        where.kind,
        where.path,
        "--top",
        str(top),
        *([] if history else ["--no-history"]),
        answer=dict[str, Any],
        progress=Progress,
        on_progress=on_progress,
        silence=SILENCE_SECONDS,
    )


FORMAT = formats.STATISTICS.known
SUMS = {"name": str, "objects": int, "bytes": int, "revisions": int, "revision_bytes": int}
OBJECT = {"oid": str, "class": str, "bytes": int}
BLOBS = ("files", "bytes", "old_files", "old_bytes", "missing")
TOTALS = {
    "objects": int,
    "bytes": int,
    "revisions": int,
    "revision_bytes": int,
    "records": int,
    "seconds": int | float,
}


@dataclasses.dataclass(frozen=True)
class Kept:
    """Stored statistics.

    Attributes:
        at: seconds since 1970, at the end of the walk.
        found: as ``statistics.statistics`` returned it.
    """

    at: float
    where: Source
    found: Mapping[str, Any]


def keep(cluster: Cluster, kept: Kept) -> None:
    """Replace the stored statistics.  Raises OperatorError."""
    path = Layout(cluster).statistics
    where = dataclasses.asdict(kept.where) | {"path": str(kept.where.path)}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(
            path,
            json.dumps({"format": FORMAT, "at": kept.at, "where": where, "found": kept.found})
            + "\n",
            0o640,
        )
    except OSError as error:
        raise OperatorError(
            "the statistics can't be kept",
            f"{path}: {error.strerror}",
            "make room there, or see whose it is",
        ) from error


def last(cluster: Cluster) -> Kept | None:
    """Return the stored statistics; None if there are none.

    Raises OperatorError if the file is unreadable or invalid.
    """
    path = Layout(cluster).statistics
    again = f"compute them again: {Commands.here(cluster).zodbrepl('stats')}"
    try:
        values = json.loads(path.read_bytes())
        formats.STATISTICS.refuse_newer(path, values)
        if values["format"] != FORMAT:
            raise ValueError(f"its format is {values['format']!r}, this program knows {FORMAT}")
        where = values["where"]
        kept = Kept(
            values["at"], Source(where["kind"], Path(where["path"]), where["node"]), values["found"]
        )
        _check(kept)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise OperatorError(
            "the last statistics can't be read", f"{path}: {error.strerror}", again
        ) from error
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise OperatorError(
            "the last statistics can't be used", f"{path}: {type(error).__name__}: {error}", again
        ) from error
    return kept


def _check(kept: Kept) -> None:
    """Raise KeyError or TypeError if a value is missing or of the wrong type."""
    found = kept.found
    _of(kept.__dict__, {"at": int | float})
    _of(kept.where.__dict__, {"kind": str, "node": str | None})
    _of(found, TOTALS | {"transactions": int | None, "file_bytes": int | None})
    if found.get("blobs") is not None:  # an earlier release did not count them
        _of(found["blobs"], dict.fromkeys(BLOBS, int))
    if found["history"] not in HISTORY:
        raise TypeError(f"history is {found['history']!r}")
    for name, kinds in (("classes", SUMS), ("modules", SUMS), ("largest", OBJECT)):
        for row in found[name]:
            _of(row, kinds)
    for row in found["largest"]:
        _of(row, {"what": str | None})


def _of(values: Mapping[str, Any], kinds: Mapping[str, Any]) -> None:
    for name, kind in kinds.items():
        if not isinstance(values[name], kind):
            raise TypeError(f"{name} is {values[name]!r}")
