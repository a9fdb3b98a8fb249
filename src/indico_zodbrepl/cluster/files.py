"""Atomic file writes and lock files."""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from indico_zodbrepl.errors import OperatorError


def write_atomically(path: Path, text: str, mode: int = 0o644) -> None:
    """Replace a file; after a crash it has the old or the new content.

    The new content is on disk when this returns.  Raises OSError.
    """
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".new", dir=path.parent)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
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
            if not path.exists() or path.read_bytes() != text.encode():
                write_atomically(path, text)
        except OSError as error:
            raise OperatorError(
                "a generated file can't be written",
                f"{path}: {error.strerror}",
                "make room there, or see whose it is; then try again",
            ) from error
