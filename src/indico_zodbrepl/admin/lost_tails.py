"""Exported tails as their lists tell them: what was lost, without a look at the database."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path
from typing import Any

from flask_babel import gettext as _

from indico_zodbrepl.admin.tails import kept
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.cluster.model import Cluster
from indico_zodbrepl.failover.contents import contents

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,150}")
MOST_BYTES = 64 << 20
"""A longer list is not read for a page."""


@dataclasses.dataclass(frozen=True)
class Listed:
    """A transaction of a tail.

    Attributes:
        time: when it was committed, ISO 8601 in UTC.
        objects: how many it wrote.
        named: those of them that Indico's users know by name.
    """

    tid: str
    time: str
    user: str
    description: str
    objects: int
    named: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class LostTail:
    """A folder of lost tails.

    Attributes:
        at: when it was exported, in seconds since 1970.
        file: the data file that it comes from.
        after: the last transaction that the cluster has.
        names: what it holds, by name; the last one may count the others.
        problem: why its list can't be read; empty when it can.
    """

    folder: Path
    at: float
    file: str = ""
    after: str = ""
    transactions: tuple[Listed, ...] = ()
    names: tuple[str, ...] = ()
    problem: str = ""

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def objects(self) -> int:
        return sum(each.objects for each in self.transactions)


def find(cluster: Cluster, name: str) -> LostTail | None:
    """The tail of that name; None when there is none, or the name is that of something else."""
    folder = Layout(cluster).lost_tails / name
    if NAME.fullmatch(name) is None or not kept(cluster, folder):
        return None
    return _read(folder)


def every(cluster: Cluster) -> list[LostTail]:
    """All tails, the newest first.  Raises OSError when their folder can't be read."""
    folder = Layout(cluster).lost_tails
    if not folder.is_dir():
        return []
    found = [find(cluster, each.name) for each in folder.iterdir()]
    return sorted((each for each in found if each is not None), key=lambda each: each.at,
                  reverse=True)


def _read(folder: Path) -> LostTail:
    path = folder / "tail.json"
    at = 0.0
    try:
        about = path.stat()
        at = about.st_mtime
        if about.st_size > MOST_BYTES:
            return LostTail(folder, at, problem=_(
                "%(path)s has %(count)s bytes: too long for a page", path=path,
                count=f"{about.st_size:,}"))
        told = json.loads(path.read_text("utf-8"))
        return LostTail(folder, at, str(told["file"]), str(told["after"]),
                        tuple(map(_listed, told["transactions"])), tuple(contents(folder)))
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        return LostTail(folder, at, problem=f"{path}: {type(error).__name__}: {error}")


def _listed(told: dict[str, Any]) -> Listed:
    named = [str(each["what"]) for each in told["objects"] if each["what"]]
    return Listed(str(told["tid"]), str(told["time"]), str(told["user"]),
                  str(told["description"]), len(told["objects"]),
                  tuple(dict.fromkeys(each for each in named if '"' in each)))
