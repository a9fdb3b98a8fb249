"""Recovery exports: folders with the divergent transactions of a node.

Pages list them without reading the database; downloads are packed while they are sent.
"""

from __future__ import annotations

import dataclasses
import os
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import msgspec
from flask_babel import gettext as _

from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.cluster.model import Cluster
from indico_zodbrepl.operations.exports import contents
from indico_zodbrepl.operations.operation import Operation
from indico_zodbrepl.probing import typed_json

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,150}")
LIST = "tail.json"
MAX_BYTES = 64 << 20
"""Longest list that pages read."""
CHUNK = 1 << 20
"""Bytes of a download that are in memory at a time."""


class _Object(msgspec.Struct):
    what: str | None


class _Transaction(msgspec.Struct):
    tid: str
    time: str
    user: str
    description: str
    objects: list[_Object]


class _List(msgspec.Struct):
    """The content of a folder's list."""

    file: str
    after: str
    transactions: list[_Transaction]


@dataclasses.dataclass(frozen=True)
class Listed:
    """A transaction of an export.

    Attributes:
        time: of its commit, ISO 8601 in UTC.
        objects: number of objects that it wrote.
        named: the objects that have a title.
    """

    tid: str
    time: str
    user: str
    description: str
    objects: int
    named: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Export:
    """A recovery export.

    Attributes:
        at: seconds since 1970.
        file: the data file that it comes from.
        after: the last transaction that the cluster has.
        names: names of its objects; the last item may count further ones.
        problem: why its list is unusable; empty if it is usable.
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


def find(cluster: Cluster, name: str) -> Export | None:
    """Return the export of that name; None if there is none."""
    folder = Layout(cluster).lost_tails / name
    if NAME.fullmatch(name) is None or not kept(cluster, folder):
        return None
    return _read(folder)


def every(cluster: Cluster) -> list[Export]:
    """Return all exports, newest first.  Raises OSError if their folder is unreadable."""
    folder = Layout(cluster).lost_tails
    if not folder.is_dir():
        return []
    found = [find(cluster, each.name) for each in folder.iterdir()]
    return sorted(
        (each for each in found if each is not None), key=lambda each: each.at, reverse=True
    )


def kept(cluster: Cluster, folder: Path) -> bool:
    """Return True if a folder is an export in the cluster's folder of exports."""
    return (
        folder.name not in ("", ".", "..")
        and folder.parent == Layout(cluster).lost_tails
        and not folder.is_symlink()
        and (folder / LIST).is_file()
    )


def exported(entry: Operation) -> list[Path]:
    """Return the folders to which an operation exported, in its order."""
    told = [
        figures.get("exported_to")
        for figures in (entry.told, *(record.figures for record in entry.records))
    ]
    return list(dict.fromkeys(Path(each) for each in told if isinstance(each, str) and each))


def _read(folder: Path) -> Export:
    path = folder / LIST
    at = 0.0
    try:
        about = path.stat()
        at = about.st_mtime
        if about.st_size > MAX_BYTES:
            size = f"{about.st_size:,}"
            problem = _("%(path)s is too long for a page: %(count)s bytes", path=path, count=size)
            return Export(folder, at, problem=problem)
        found = typed_json.decode(path.read_bytes(), _List)
        return Export(
            folder,
            at,
            found.file,
            found.after,
            tuple(map(_listed, found.transactions)),
            tuple(contents(folder)),
        )
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        return Export(folder, at, problem=f"{path}: {type(error).__name__}: {error}")


def _listed(found: _Transaction) -> Listed:
    named = [each.what for each in found.objects if each.what and '"' in each.what]
    return Listed(
        found.tid,
        found.time,
        found.user,
        found.description,
        len(found.objects),
        tuple(dict.fromkeys(named)),
    )


def packed(folder: Path) -> Iterator[bytes]:
    """Yield a zip file of a folder and all its regular files; links are not followed.

    Raises OSError if a file is unreadable; the zip file is then incomplete.
    """
    sink = _Sink()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for path, _, names, opened in os.fwalk(folder, onerror=_give_up):
            for name in sorted(names):
                try:
                    descriptor = os.open(
                        name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=opened
                    )
                except OSError:
                    if (Path(path) / name).is_symlink():
                        continue
                    raise
                with open(descriptor, "rb") as file:
                    inside = os.path.join(folder.name, os.path.relpath(path, folder), name)
                    yield from _added(archive, sink, file, os.path.normpath(inside))
    yield sink.take()


def _added(archive: zipfile.ZipFile, sink: _Sink, file: BinaryIO, inside: str) -> Iterator[bytes]:
    entry = zipfile.ZipInfo(inside)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = 0o100600 << 16
    with archive.open(entry, "w", force_zip64=True) as target:
        while chunk := file.read(CHUNK):
            target.write(chunk)
            yield sink.take()


def _give_up(error: OSError) -> None:
    raise error


class _Sink:
    """A write-only file that returns what was written."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []

    def write(self, data: bytes) -> int:
        self._pieces.append(bytes(data))
        return len(data)

    def flush(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""

    def take(self) -> bytes:
        """Return what was written since the last call."""
        taken, self._pieces = b"".join(self._pieces), []
        return taken
