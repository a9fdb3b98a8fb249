"""The end of a Data.fs that no server serves: its last transaction, or that it can't be read.

The end of a complete file is read here, which takes some microseconds.  Any other end is left to
the data plane's program: a server that was killed leaves an unfinished transaction, which is fine.
"""

from __future__ import annotations

import dataclasses
import functools
import struct
from pathlib import Path
from typing import BinaryIO

from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.probing import tid

START = 4
"""Bytes before the first transaction."""
NUMBER = struct.Struct(">Q")
TRANSACTION = struct.Struct(">8sQc3H")
"""Id, length, status and the lengths of three texts; the length is repeated at the end."""
RECORD = struct.Struct(">8s8sQQHQ")
"""Object, transaction, position of its previous record, of its transaction, version, length."""
COMPLETE = (b" ", b"p", b"u")
SECONDS = 1.0


@dataclasses.dataclass(frozen=True)
class DataEnd:
    """The end of a node's data file.

    Attributes:
        last_tid: the last transaction; 0 if there is none, also without a file; None if unknown.
        damage: why the end can't be read, one line; empty if it can.
        in_primary: True if the primary has the last transaction; None if that is unknown.
    """

    last_tid: int | None
    damage: str = ""
    in_primary: bool | None = None

    @property
    def is_empty(self) -> bool:
        return self.last_tid == tid.EMPTY


def read(installation: Installation, file: Path, seconds: float = SECONDS) -> DataEnd | None:
    """Return the end of a data file; None if it is unknown: the disk does not answer.

    Args:
        seconds: for the program that reads an end that is not complete.
    """
    try:
        ended = complete(file)
    except FileNotFoundError:
        return DataEnd(tid.EMPTY)
    except OSError as error:
        return DataEnd(None, f"{file}: {error.strerror}")
    if ended is not None:
        return DataEnd(ended.tid)
    from indico_zodbrepl.host import datafs  # noqa: PLC0415 - most ends need no program

    found = datafs.found(file)
    if found is None:
        return None
    try:
        return _examined(installation, file, found.identity, seconds)
    except OperatorError:
        return None  # not remembered: the program may just have been slow


@functools.lru_cache(maxsize=64)
def _examined(installation: Installation, file: Path, _identity: str, seconds: float) -> DataEnd:
    """Return the end of a file, which is remembered.  Raises OperatorError if it is unknown."""
    from indico_zodbrepl.host import datafs  # noqa: PLC0415 - as above

    try:
        last = datafs.last(installation, file, seconds).tid
    except OperatorError as error:
        if error.exit_code is not ExitCode.REFUSED:
            raise
        return DataEnd(None, error.detail)
    return DataEnd(tid.EMPTY if last is None else tid.parse(last))


@dataclasses.dataclass(frozen=True)
class Complete:
    """A data file that ends with a complete transaction.

    Attributes:
        bytes: its size.
        tid: its last transaction; 0 if it has none.
    """

    bytes: int
    tid: int


def complete(file: Path) -> Complete | None:
    """Return the end of a data file that ends with a complete transaction; None for all others.

    Raises OSError.
    """
    with file.open("rb") as opened:
        return _complete(opened)


def _complete(file: BinaryIO) -> Complete | None:
    size = file.seek(0, 2)
    if size <= START:
        return Complete(size, tid.EMPTY)
    if size < START + TRANSACTION.size + NUMBER.size:
        return None
    file.seek(size - NUMBER.size)
    (length,) = NUMBER.unpack(file.read(NUMBER.size))
    begin = size - NUMBER.size - length
    if begin < START or length < TRANSACTION.size:
        return None
    file.seek(begin)
    name, again, status, *texts = TRANSACTION.unpack(file.read(TRANSACTION.size))
    if again != length or status not in COMPLETE:
        return None
    records = TRANSACTION.size + sum(texts)
    if records < length:
        file.seek(begin + records)
        record = file.read(RECORD.size)
        # Only records hold the position where their transaction begins.
        if len(record) < RECORD.size or RECORD.unpack(record)[3] != begin:
            return None
    return Complete(size, int.from_bytes(name, "big"))
