"""Atomic file writes, lock files and digests."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from indico_zodbrepl.errors import OperatorError

SPARE_BYTES = 4096
"""One block: a state file or a history file has a few hundred bytes."""


def write_atomically(path: Path, text: str, mode: int = 0o644) -> None:
    """Replace a file; after a crash it has the old or the new content.

    The new content is on disk when this returns.  On a full disk, a small file takes the blocks of
    the folder's spare file; see ``keep_spare``.  Raises OSError.
    """
    try:
        _write(path, text, mode, *_temporary(path))
    except OSError as error:
        if not is_full(error) or len(text.encode()) > SPARE_BYTES:
            raise
        name = _take_spare(path)
        if name is None:
            raise
        _write(path, text, mode, os.open(name, os.O_WRONLY), name)
        keep_spare(path.parent)


def digest(path: Path) -> str:
    """Return the SHA-256 of a small file, in hexadecimal.  Raises OSError."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def read_end(path: Path, most: int) -> tuple[bytes, bool]:
    """Return the last bytes of a file, at most ``most``, and if these are all.  Raises OSError."""
    with path.open("rb") as stream:
        begin = max(0, stream.seek(0, os.SEEK_END) - most)
        stream.seek(begin)
        return stream.read(most), not begin


def put_aside(path: Path) -> Path:
    """Rename a damaged file, so that a new one can replace it; return its new path.

    Raises OSError.
    """
    aside = path.with_name(f"{path.name}.damaged-{time.time():.0f}")
    path.rename(aside)
    return aside


def keep_spare(folder: Path) -> None:
    """Make the spare file of a folder, if it is missing and the disk has room for it.

    Its blocks let ``write_atomically`` replace a small file of that folder on a full disk, so that
    a node whose disk is full can still be given another role.
    """
    path = spare_of(folder)
    if path.exists():
        return
    with contextlib.suppress(OSError):  # it is not needed now
        _write(path, "\n" * SPARE_BYTES, 0o600, *_temporary(path))


def spare_of(folder: Path) -> Path:
    """Return the path of a folder's spare file."""
    return folder / ".spare"


def is_full(error: OSError) -> bool:
    """Return True if a write failed for lack of space."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


def may_pass(error: OSError) -> bool:
    """Return True if a later write may succeed, because the disk is full now, or fails."""
    return is_full(error) or error.errno == errno.EIO


def _take_spare(path: Path) -> str | None:
    """Rename the spare file beside ``path`` to a temporary one; None if there is none.

    Of several processes one gets it.
    """
    name = f"{path.parent}/.{path.name}.{os.getpid()}.new"
    try:
        os.rename(spare_of(path.parent), name)
    except FileNotFoundError:
        return None
    return name


def _temporary(path: Path) -> tuple[int, str]:
    return tempfile.mkstemp(prefix=f".{path.name}.", suffix=".new", dir=path.parent)


def _write(path: Path, text: str, mode: int, descriptor: int, name: str) -> None:
    """Write ``text`` over the beginning of an open file, and rename it to ``path``."""
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            stream.truncate()
            os.fchmod(stream.fileno(), mode)
            os.fsync(stream.fileno())
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)
        raise
    sync_folder(path.parent)


@contextlib.contextmanager
def alone(path: Path) -> Iterator[None]:
    """Hold a lock file; wait for another holder.  Raises OSError."""
    with path.open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def sync_folder(folder: Path) -> None:
    """Flush a folder to disk, for example after a rename.  Raises OSError."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_all(files: Mapping[Path, str]) -> None:
    """Write files whose content differs, and create their folders.

    Raises OperatorError; each existing file then still has its old or its new content.
    """
    for path, text in files.items():
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if differs(path, text):
                write_atomically(path, text)
        except OSError as error:
            raise OperatorError(
                "a generated file can't be written",
                f"{path}: {error.strerror}",
                "make room there, or see whose it is; then try again",
            ) from error


def differs(path: Path, text: str) -> bool:
    """Return True if a file is missing or has another content.  Raises OSError."""
    return not path.exists() or path.read_bytes() != text.encode()
