"""The last statistics of the database, kept in VAR/statistics.json for who asks later."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..cluster import Cluster
from ..cluster.commands import Commands
from ..cluster.files import write_atomically
from ..cluster.layout import Layout
from ..errors import OperatorError
from .statistics import HISTORY, Source

FORMAT = 1
SUMS = {"name": str, "objects": int, "bytes": int, "revisions": int, "revision_bytes": int}
OBJECT = {"oid": str, "class": str, "bytes": int}
TOTALS = {"objects": int, "bytes": int, "revisions": int, "revision_bytes": int,
          "records": int, "seconds": int | float}


@dataclasses.dataclass(frozen=True)
class Kept:
    """What was found, where, and when.

    Attributes:
        at: seconds since 1970, when all was read.
        found: as ``statistics.statistics`` returned it.
    """

    at: float
    where: Source
    found: Mapping[str, Any]


def keep(cluster: Cluster, kept: Kept) -> None:
    """Put statistics in the place of the last ones.  Raises OperatorError."""
    path = Layout(cluster).statistics
    where = dataclasses.asdict(kept.where) | {"path": str(kept.where.path)}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, json.dumps({
            "format": FORMAT, "at": kept.at, "where": where, "found": kept.found}) + "\n", 0o640)
    except OSError as error:
        raise OperatorError("the statistics can't be kept", f"{path}: {error.strerror}",
                            "make room there, or see whose it is") from error


def last(cluster: Cluster) -> Kept | None:
    """The last ones; None when there are none.

    Raises OperatorError when the file can't be read or is something else.
    """
    path = Layout(cluster).statistics
    again = f"have them made anew: {Commands.here(cluster).zodbrepl('stats')}"
    try:
        values = json.loads(path.read_bytes())
        if values["format"] != FORMAT:
            raise ValueError(f"its format is {values['format']!r}, this program knows {FORMAT}")
        where = values["where"]
        kept = Kept(values["at"], Source(where["kind"], Path(where["path"]), where["node"]),
                    values["found"])
        _check(kept)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise OperatorError("the last statistics can't be read",
                            f"{path}: {error.strerror}", again) from error
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise OperatorError("the last statistics can't be used",
                            f"{path}: {type(error).__name__}: {error}", again) from error
    return kept


def _check(kept: Kept) -> None:
    """Raise KeyError or TypeError where something is missing or of another kind."""
    found = kept.found
    _of(kept.__dict__, {"at": int | float})
    _of(kept.where.__dict__, {"kind": str, "node": str | None})
    _of(found, TOTALS | {"transactions": int | None, "file_bytes": int | None})
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
