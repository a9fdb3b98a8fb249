"""This host's copies of the files of operations, and its journal.

A file is a JSON object with a ``version``; a newer one replaces an older one and no other.  A line
of the journal is a JSON object with an ``id`` and a ``version``; for each id the line of the
highest version counts, and of several the last.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from indico_zodbrepl.cluster import Cluster
from indico_zodbrepl.cluster.files import write_atomically
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host.locking import alone_in
from indico_zodbrepl.host.operations_interface import Index, LockLostError, Texts
from indico_zodbrepl.probing import typed_json

NAME = re.compile(r"[0-9A-Za-z][0-9A-Za-z.-]{0,99}")
Stamp = tuple[int, int, int]


class Head(msgspec.Struct):
    """What a host reads of a file or a line."""

    id: str
    version: int = 0


def index(cluster: Cluster, known: str = "") -> Index:
    """Return what this host has; only the digest if that is ``known``.

    What is damaged counts as missing.  Raises OperatorError if the files can't be read.
    """
    documents = {path.stem: version for path, version in _documents(cluster) if version is not None}
    lines = {name: head.version for name, (head, _line) in _lines(cluster).items()}
    text = repr((sorted(documents.items()), sorted(lines.items())))
    digest = hashlib.sha256(text.encode()).hexdigest()[:32]
    return Index(digest, {}, {}) if digest == known else Index(digest, documents, lines)


def texts(cluster: Cluster, documents: Sequence[str], lines: Sequence[str]) -> Texts:
    """Return files and the last lines of the journal; what has vanished is left out."""
    found = {}
    for name in documents:
        with contextlib.suppress(FileNotFoundError):
            found[name] = _path(cluster, name).read_text("utf-8")
    known = _lines(cluster)
    return Texts(found, [known[each][1].decode() for each in lines if each in known])


def keep(cluster: Cluster, given: Texts) -> None:
    """Write what is newer than what this host has; it is on disk when this returns.

    Raises:
        LockLostError: a newer file is here, or another one of the same version.
        OperatorError: it can't be written, or is no file of an operation.
    """
    for name, text in given.documents.items():
        _keep_document(cluster, _path(cluster, name), text)
    if given.lines:
        _keep_lines(cluster, given.lines)


def append_line(path: Path, line: bytes) -> None:
    """Append a line to a journal; it is on disk then, and never mixed with another writer's.

    A torn line that a crash left is terminated first.  On a full disk the journal stays as it was.
    Raises OperatorError.
    """
    with _opened(path) as descriptor:
        _add(descriptor, line + b"\n")


def _keep_document(cluster: Cluster, path: Path, text: str) -> None:
    new = _head(text.encode())
    if new is None:
        raise OperatorError(f"{path.name} is no file of an operation", exit_code=ExitCode.REFUSED)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with alone_in(path.parent):
            present = path.read_bytes() if path.exists() else b""
            head = _head(present)
            if head is not None and head.version >= new.version:
                if present == text.encode():
                    return
                raise LockLostError(
                    "another command has continued this operation",
                    f"host {cluster.here} has version {head.version} of {path}",
                    exit_code=ExitCode.REFUSED,
                )
            write_atomically(path, text, 0o640)
    except OSError as error:
        raise OperatorError(
            "the operation's progress can't be written",
            f"{path}: {error.strerror}",
            "is the disk full, or the folder another user's?",
        ) from error


def _keep_lines(cluster: Cluster, lines: Sequence[str]) -> None:
    path = Layout(cluster).journal
    with _opened(path) as descriptor:
        known = {name: head.version for name, (head, _line) in _lines(cluster).items()}
        for line in lines:
            content = line.encode()
            head = None if b"\n" in content else _head(content)
            if head is None:
                raise OperatorError("that is no line of a journal", exit_code=ExitCode.REFUSED)
            if head.version > known.get(head.id, -1):
                _add(descriptor, content + b"\n")
                known[head.id] = head.version


def _path(cluster: Cluster, name: str) -> Path:
    if not NAME.fullmatch(name):
        raise OperatorError(f"no operation has the name {name!r}", exit_code=ExitCode.BAD_CONFIG)
    return Layout(cluster).operation(name)


def _documents(cluster: Cluster) -> Iterator[tuple[Path, int | None]]:
    """Yield the path of each file and its version, None if it is damaged."""
    folder = Layout(cluster).operations
    try:
        for path in sorted(folder.glob("*.json")):
            if NAME.fullmatch(path.stem):
                with contextlib.suppress(FileNotFoundError):
                    yield path, _version(path, _stamp(path))
    except OSError as error:
        raise _unreadable(Path(str(error.filename or folder)), error) from error


def _stamp(path: Path) -> Stamp:
    status = path.stat()
    return status.st_ino, status.st_size, status.st_mtime_ns


@functools.lru_cache(maxsize=4096)
def _version(path: Path, _stamp: Stamp) -> int | None:
    head = _head(path.read_bytes())
    return None if head is None else head.version


def _lines(cluster: Cluster) -> Mapping[str, tuple[Head, bytes]]:
    """Return the line that counts of each id in the journal."""
    path = Layout(cluster).journal
    try:
        return _lines_of(path, _stamp(path))
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise _unreadable(path, error) from error


@functools.lru_cache(maxsize=2)
def _lines_of(path: Path, _stamp: Stamp) -> Mapping[str, tuple[Head, bytes]]:
    found: dict[str, tuple[Head, bytes]] = {}
    for line in path.read_bytes().split(b"\n"):
        head = _head(line)
        if head is not None and (head.id not in found or head.version >= found[head.id][0].version):
            found[head.id] = head, line
    return found


def _head(content: bytes) -> Head | None:
    try:
        return typed_json.decode(content, Head)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[int]:
    """Open a journal to append to it; nobody else appends meanwhile."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o640)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield descriptor
        finally:
            os.close(descriptor)
    except OSError as error:
        raise OperatorError(
            "the journal can't be written",
            f"{path}: {error.strerror}",
            "is the disk full, or is the file another user's?",
        ) from error


def _add(descriptor: int, line: bytes) -> None:
    size = os.fstat(descriptor).st_size
    if size and os.pread(descriptor, 1, size - 1) != b"\n":
        line = b"\n" + line
    try:
        while line:
            line = line[os.write(descriptor, line) :]
        os.fsync(descriptor)
    except OSError:
        with contextlib.suppress(OSError):
            os.ftruncate(descriptor, size)
        raise


def _unreadable(path: Path, error: OSError) -> OperatorError:
    return OperatorError(
        "the files of operations can't be read",
        f"{path}: {error.strerror}",
        "is it another user's? then run this as that user",
    )
