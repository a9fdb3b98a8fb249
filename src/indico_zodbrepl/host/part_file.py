"""The growing copy of a file of another host: blocks are verified, then written."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host.datafs import FAILURES
from indico_zodbrepl.host.node_files import BLOCK, digest

SYNC_EACH = 64 << 20
"""Bytes after which the disk is made to write, so that a server beside never waits long."""


class GarbledError(Exception):
    """A block is not what its digest says."""


class PartFile:
    """A file that grows until it is complete, and stays after a failure.

    Raises OperatorError from every method when the disk is full.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self.size = os.fstat(self._file).st_size
        self._syncer = ThreadPoolExecutor(1)
        self._syncing: Future[None] | None = None
        self._unsynced = 0

    def close(self) -> None:
        self._syncer.shutdown()
        os.close(self._file)

    def digests(self, begin: int, end: int) -> Iterator[bytes]:
        """Yield the digests of the blocks of a part that is there."""
        for position in range(begin, end, BLOCK):
            yield digest(os.pread(self._file, min(BLOCK, end - position), position))

    def cut(self, size: int) -> None:
        """Truncate it."""
        os.ftruncate(self._file, size)
        self.size = size

    def append(self, block: memoryview, wanted: bytes) -> None:
        """Write a block if it has this digest.  Raises GarbledError."""
        if digest(block) != wanted:
            raise GarbledError
        with full_disk(self.path):
            done = 0
            while done < len(block):
                done += os.pwrite(self._file, block[done:], self.size + done)
        self.size += done
        self._unsynced += done
        if self._unsynced >= SYNC_EACH:
            self._wait_for_sync()
            self._syncing = self._syncer.submit(os.fdatasync, self._file)
            self._unsynced = 0

    def sync(self) -> None:
        """Return when everything is on disk."""
        self._wait_for_sync()
        with full_disk(self.path):
            os.fsync(self._file)

    def _wait_for_sync(self) -> None:
        if self._syncing is not None:
            with full_disk(self.path):
                self._syncing.result()


def check_space(path: Path, needed: int) -> None:
    """Raise OperatorError if the disk of a file has too little room for so many more bytes."""
    system = os.statvfs(path.parent)
    free = system.f_bavail * system.f_frsize
    if free < needed:
        raise _no_space(path, f"{needed >> 20} MB are needed for it, {free >> 20} MB are free")


@contextlib.contextmanager
def full_disk(path: Path) -> Iterator[None]:
    """Turn the error of a full disk into an OperatorError."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise _no_space(path, error.strerror or "") from error


def _no_space(path: Path, why: str) -> OperatorError:
    return OperatorError(
        FAILURES["copy"],
        f"{path}: {why}",
        "make room there, then repeat the command: the copy continues",
        ExitCode.FAILED,
    )
