"""Recovery exports of this host: find them, compare them with a data file, list and pack them."""

from __future__ import annotations

import filecmp
import json
import os
import re
import shutil
import tempfile
import time
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

import msgspec

from indico_zodbrepl.cluster import Cluster, Node
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.cluster.layout import Layout, data_fs
from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.host import datafs
from indico_zodbrepl.host.exports_interface import KeptExport, Listed, RecoveryExport
from indico_zodbrepl.probing import typed_json

MOST = 10
"""Objects that are named; the list in the folder has all."""
KNOWN = (
    "Conference",
    "Contribution",
    "AcceptedContribution",
    "SubContribution",
    "Category",
    "Avatar",
    "Session",
    "Abstract",
    "Registrant",
    "LocalFile",
    "Link",
    "Room",
    "Reservation",
)
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,150}")
LIST = "tail.json"
TRUNCATED = "cut.json"
RECOVERED = "salvaged.json"
NEW_SECONDS = 7 * 86400.0
"""How long a recovery export is reported that nobody has recovered."""
MAX_BYTES = 64 << 20
"""Longest list that is read to show it."""
CHUNK = 1 << 20
"""Bytes of a download that are in memory at a time."""


def exported_before(
    cluster: Cluster, installation: Installation, node: Node, after: str
) -> Path | None:
    """Return the newest folder with all that a node's file holds after a transaction.

    A failover exports what only the old primary has; a rejoin need not do it again.
    """
    folders = sorted(
        Layout(cluster).lost_tails.glob(f"{node.name}-*/{LIST}"),
        reverse=True,
        key=lambda path: path.stat().st_mtime,
    )
    return next(
        (path.parent for path in folders if covers(installation, node, path.parent, after)), None
    )


def covers(installation: Installation, node: Node, folder: Path, after: str) -> bool:
    """Return True if a folder has exactly the transactions after one of a node's file.

    It compares their number, and the contents of the first and the last one; a file only grows at
    its end.  The blob files that its list names must be there.  False also if that cannot be
    checked, for example while a server has the file open.
    """
    file = data_fs(node)
    try:
        kept = json.loads((folder / LIST).read_text("utf-8"))
        tids = [str(each["tid"]) for each in kept["transactions"]]
        objects = [found for each in kept["transactions"] for found in each["objects"]]
        blobs = [str(each["blob"]) for each in objects if each.get("blob")]
        if not tids or (kept["file"], kept["after"]) != (os.path.abspath(file), after):
            return False
        if not all((folder / each).is_file() for each in blobs):
            return False
        there = datafs.truncate(installation, file, after, folder, dry_run=True)
        same = (there.transactions, there.first, there.last) == (len(tids), tids[0], tids[-1])
        return same and all(
            datafs.digest(installation, file, tid)
            == datafs.digest(installation, folder / "tail.fs", tid)
            for tid in {tids[0], tids[-1]}
        )
    except (OSError, ValueError, KeyError, TypeError, OperatorError):
        return False  # transactions without a proven export are exported


def unrecovered(cluster: Cluster) -> tuple[str, ...]:
    """Return the names of the exports of the last days from which nothing was recovered.

    Nothing of them is read: the status asks for it every second.
    """
    since = time.time() - NEW_SECONDS
    found = []
    for path in Layout(cluster).lost_tails.glob(f"*/{LIST}"):
        try:
            made = path.stat().st_mtime
        except OSError:
            continue  # it is being moved away
        if made >= since and not path.with_name(RECOVERED).exists():
            found.append(path.parent.name)
    return tuple(sorted(found))


def kept(folder: Path) -> KeptExport | None:
    """Return what a folder holds; None if there is no such folder."""
    if not folder.is_dir():
        return None
    count: int | None
    try:
        found = json.loads((folder / LIST).read_text("utf-8"))
        count, after = len(found["transactions"]), str(found["after"])
    except (OSError, ValueError, KeyError, TypeError):
        count, after = None, ""
    return KeptExport(count, after, tuple(contents(folder)), (folder / TRUNCATED).exists())


def contents(folder: Path) -> list[str]:
    """Return what an export holds, such as ``Conference 12 "Title"``, and how many more objects.

    Empty if the folder's list is unreadable: the export has already checked it.
    """
    try:
        found = json.loads((folder / LIST).read_text("utf-8"))
        objects = [
            (str(each["oid"]), str(each["class"]), each["what"])
            for transaction in found["transactions"]
            for each in transaction["objects"]
        ]
    except (OSError, ValueError, KeyError, TypeError):
        return []
    return _names(objects)


def _names(objects: Sequence[tuple[str, str, str | None]]) -> list[str]:
    """Return the names of objects, given by oid, class and name, and how many more there are."""
    named = {oid: (_rank(kind, what), what) for oid, kind, what in objects if what}
    texts = list(dict.fromkeys(what for _, what in sorted(named.values(), key=lambda one: one[0])))
    more = len({oid for oid, _, _ in objects}) - len(texts[:MOST])
    return texts[:MOST] + ([f"and {more} more object{'s' * (more != 1)}"] if more > 0 else [])


def _rank(kind: str, what: str) -> tuple[bool, int]:
    name = kind.rpartition(".")[2]
    return '"' not in what, KNOWN.index(name) if name in KNOWN else len(KNOWN)


def names_after(cluster: Cluster, installation: Installation, node: Node, after: str) -> list[str]:
    """Return the names of the objects that a node's file has after a transaction.

    They are exported to a temporary folder.  Raises OperatorError.
    """
    var = Layout(cluster).var
    try:
        with tempfile.TemporaryDirectory(dir=var, prefix="at-stake-") as folder:
            tail = Path(folder) / "tail"
            done = datafs.export(installation, data_fs(node), after, tail, with_blobs=False)
            return contents(done.folder)
    except OSError as error:
        raise OperatorError(f"{var}: {error.strerror}") from error


def same(node: str, folder: Path) -> Path:
    """Return an earlier export with the same content, and remove this one; else this one."""
    for other in sorted(folder.parent.glob(f"{node}-*")):
        if other != folder and all(
            (other / name).is_file() and filecmp.cmp(folder / name, other / name, shallow=False)
            for name in ("tail.fs", LIST)
        ):
            shutil.rmtree(folder)
            return other
    return folder


class _Object(msgspec.Struct):
    what: str | None
    oid: str = ""
    kind: str = msgspec.field(default="", name="class")


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


def find(cluster: Cluster, name: str) -> RecoveryExport | None:
    """Return the export of that name on this host; None if there is none."""
    folder = Layout(cluster).lost_tails / name
    if NAME.fullmatch(name) is None or folder.is_symlink() or not (folder / LIST).is_file():
        return None
    return _read(folder, cluster.here or "")


def every(cluster: Cluster) -> list[RecoveryExport]:
    """Return all exports of this host, newest first.  Raises OperatorError."""
    folder = Layout(cluster).lost_tails
    try:
        if not folder.is_dir():
            return []
        found = [find(cluster, each.name) for each in folder.iterdir()]
    except OSError as error:
        raise OperatorError(
            "the recovery exports can't be read", f"{folder}: {error.strerror}"
        ) from error
    return sorted(
        (each for each in found if each is not None), key=lambda each: each.at, reverse=True
    )


def _read(folder: Path, host: str) -> RecoveryExport:
    path = folder / LIST
    at = 0.0
    try:
        about = path.stat()
        at = about.st_mtime
        if about.st_size > MAX_BYTES:
            problem = f"{path} is too long for a page: {about.st_size:,} bytes"
            return RecoveryExport(folder, at, problem=problem, host=host)
        found = typed_json.decode(path.read_bytes(), _List)
        objects = [each for transaction in found.transactions for each in transaction.objects]
        return RecoveryExport(
            folder,
            at,
            found.file,
            found.after,
            tuple(map(_listed, found.transactions)),
            tuple(_names([(each.oid, each.kind, each.what) for each in objects])),
            host=host,
        )
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        return RecoveryExport(
            folder, at, problem=f"{path}: {type(error).__name__}: {error}", host=host
        )


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
