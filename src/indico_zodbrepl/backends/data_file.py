"""What can be read off a Data.fs that another process may be writing to."""

from __future__ import annotations

import contextlib
import os
import struct
import time
from pathlib import Path
from typing import BinaryIO

from ..probing import tid
from ..probing.wire import FailureKind, ProbeError

MAGIC = b"FS21"
COMPLETE = b" up"
"""Status of a transaction that counts: nothing special, undone, packed; others are under way."""
HEADER = struct.Struct(">QQc")
LENGTH = struct.Struct(">Q")
POLL_SECONDS = 0.01


def last_tid(path: Path, deadline: float) -> int:
    """The last complete transaction; ``tid.EMPTY`` when there is none.

    Each transaction has its length at both ends.  While one is being written the file ends in
    the middle of it, which passes.

    Args:
        deadline: a moment of ``time.monotonic``.

    Raises:
        ProbeError: it is no such file, or does not end with a transaction.
        OSError: it can't be read.
    """
    while True:
        with path.open("rb") as file:
            found = _last(file)
        if found is not None:
            return found
        if time.monotonic() + POLL_SECONDS > deadline:
            raise ProbeError(FailureKind.MALFORMED, f"{path} does not end with a transaction")
        time.sleep(POLL_SECONDS)


def _last(file: BinaryIO) -> int | None:
    if file.read(len(MAGIC)) != MAGIC:
        raise ProbeError(FailureKind.MALFORMED, f"{file.name} is no Data.fs of Python 2.7")
    end = file.seek(0, os.SEEK_END)
    while end > len(MAGIC):
        file.seek(end - LENGTH.size)
        (length,) = LENGTH.unpack(file.read(LENGTH.size))
        begin = end - LENGTH.size - length
        if begin < len(MAGIC):
            return None
        file.seek(begin)
        raw = file.read(HEADER.size)
        if len(raw) < HEADER.size:
            return None
        transaction, same_length, status = HEADER.unpack(raw)
        if same_length != length:
            return None
        if status in COMPLETE:
            return int(transaction)
        end = begin
    return tid.EMPTY


def opened_by(path: Path) -> int | None:
    """The process that has the file open for writing; None when there is none on this host.

    It wrote its number into ``Data.fs.lock``.  The lock itself is not tried: whoever tries it
    has it for a moment, and an Indico that starts just then would be refused.
    """
    lock = path.with_name(f"{path.name}.lock")
    try:
        pid = int(lock.read_text().split()[0])
        descriptors = os.listdir(f"/proc/{pid}/fd")
    except (FileNotFoundError, ProcessLookupError, ValueError, IndexError):
        return None
    except PermissionError:
        return pid  # another user's, and it runs
    same = os.path.realpath(lock)
    for descriptor in descriptors:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError, PermissionError):
            if os.readlink(f"/proc/{pid}/fd/{descriptor}") == same:
                return pid
    return None
