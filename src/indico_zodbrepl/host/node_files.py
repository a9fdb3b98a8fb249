"""The files of a node, as its host sends them to another one for a copy.

A file is sent as blocks, each with its digest.  What a server appends meanwhile is not sent; a pack
replaces the data file, which then has another identity.
"""

from __future__ import annotations

import dataclasses
import os
import struct
from collections.abc import Callable, Generator, Iterator, Sequence
from pathlib import Path, PurePosixPath

import xxhash

from indico_zodbrepl.cluster import Node
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.cluster.layout import data_fs
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host import data_end, datafs

DATA = "Data.fs"
INDEX, PACKED = f"{DATA}.index", f"{DATA}.packed"
BLOBS, LAYOUT, SUFFIX = "blobs", "blobs/.layout", ".blob"
BLOCK = 1 << 18
"""Bytes that have one digest; the last block of a range may be shorter.  It stays in the cache of a
processor from one step to the next.
"""
AHEAD = 4
"""Blocks that are read at once."""
DIGEST_BYTES = 16
LENGTH = struct.Struct(">Q")
"""Precedes the blocks of a range: its bytes, or MISSING for a file that does not exist."""
MISSING = (1 << 64) - 1
ATTEMPTS = 5
MOST_BLOCKS = 4096
"""Blocks whose digests are in one answer."""


class ReplacedError(OperatorError):
    """The data file is another one than before: it was packed, or the node's data were replaced."""


@dataclasses.dataclass(frozen=True)
class Origin:
    """A data file that is to be copied.

    Attributes:
        identity: changes when another file takes its place, not when it grows.
        end: position after the last complete transaction.
        tid: of that transaction; None if there is none.
    """

    identity: str
    end: int
    tid: str | None


@dataclasses.dataclass(frozen=True)
class NodeFile:
    """A file of a node: its path in the data directory, and its size."""

    name: str
    bytes: int


@dataclasses.dataclass(frozen=True)
class Range:
    """A part of a file.

    Attributes:
        name: as of a NodeFile.
        begin, end: positions; an end of None is that of the file.
        identity: of the file; empty for any.
    """

    name: str
    begin: int = 0
    end: int | None = None
    identity: str = ""


def digest(block: bytes | memoryview) -> bytes:
    """Return the digest of a block, which detects damage.

    XXH3, because TLS protects the way between the hosts, and any cryptographic digest would take
    both of them as long as the encryption does.
    """
    return xxhash.xxh3_128_digest(block)


def digests(blocks: bytes) -> bytes:
    """Return the digests of some blocks."""
    view = memoryview(blocks)
    return b"".join(digest(view[at : at + BLOCK]) for at in range(0, len(view), BLOCK))


def origin(installation: Installation, node: Node) -> Origin:
    """Return a node's data file.  Raises OperatorError as ``datafs.last``."""
    file = data_fs(node)
    for _ in range(ATTEMPTS):
        before = _identity(file)
        last = end(installation, file)
        if before == _identity(file):
            return Origin(before, *last)
    raise ReplacedError(datafs.FAILURES["copy"], f"{file} is replaced again and again")


def end(installation: Installation, file: Path) -> tuple[int, str | None]:
    """Return the end of the last complete transaction of a data file, and its tid.

    Raises OperatorError as ``datafs.last``, which is asked where the file ends with anything else.
    """
    try:
        complete = data_end.complete(file)
    except OSError:
        complete = None  # the program says why
    if complete is not None and complete.bytes >= data_end.START:
        return complete.bytes, f"{complete.tid:016x}" if complete.tid else None
    last = datafs.last(installation, file)
    return last.end, last.tid


def block_digests(node: Node, identity: str, begin: int, end: int) -> list[str]:
    """Return the digests of the blocks of a part of a node's data file, as hexadecimal digits.

    Raises OperatorError: ReplacedError, the file has another identity or is shorter.
    """
    wanted = Range(DATA, begin, min(end, begin + MOST_BLOCKS * BLOCK), identity)
    folder = node.data_directory
    parts = sent(folder, found(folder, [wanted]))
    found_digests = b"".join(part[0] for part in parts if len(part) > 1)
    step = DIGEST_BYTES
    return [found_digests[at : at + step].hex() for at in range(0, len(found_digests), step)]


def blobs(node: Node) -> list[NodeFile]:
    """Return the committed blobs of a node."""
    return list(blobs_in(node.data_directory))


def blobs_in(folder: Path) -> Iterator[NodeFile]:
    """Yield the committed blobs in a folder with a data file."""
    for path, _, names in os.walk(folder / BLOBS):
        for name in names:
            if not name.endswith(SUFFIX):
                continue
            whole = os.path.join(path, name)
            try:
                size = os.stat(whole).st_size
            except FileNotFoundError:
                continue  # a pack removed it
            yield NodeFile(os.path.relpath(whole, folder), size)


def tid_of(name: str) -> int:
    """Return the transaction in the name of a blob.  Raises ValueError."""
    return int(PurePosixPath(name).name.removesuffix(SUFFIX), 16)


def is_sent(name: str) -> bool:
    """Return True if a file of this name belongs to a copy; its path stays in the folder."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or name != str(path):
        return False
    is_blob = path.parts[:1] == (BLOBS,) and path.suffix == SUFFIX
    return is_blob or name in (DATA, INDEX, PACKED, LAYOUT)


def found(
    folder: Path, ranges: Sequence[Range], allowed: Callable[[str], bool] = is_sent
) -> list[Range | None]:
    """Return the ranges with the ends and identities of their files; None for a missing file.

    Args:
        allowed: tells by its name whether a file is sent.

    Raises OperatorError: REFUSED, a file that is not sent; ReplacedError; OSError.
    """
    for each in ranges:
        if not allowed(each.name):
            raise OperatorError(
                "a file is not sent to other hosts", each.name, exit_code=ExitCode.REFUSED
            )
    return [_found(folder, each) for each in ranges]


def _found(folder: Path, wanted: Range) -> Range | None:
    path = folder / wanted.name
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    end = status.st_size if wanted.end is None else wanted.end
    replaced = wanted.identity and _text(status) != wanted.identity
    if replaced or not wanted.begin <= end <= status.st_size:
        raise _replaced(path)
    return dataclasses.replace(wanted, end=end, identity=_text(status))


def sent_bytes(ranges: Sequence[Range | None]) -> int:
    """Return the number of bytes that are sent of ``found`` ranges."""
    return sum(LENGTH.size + (0 if each is None else _bytes(each)) for each in ranges)


def _bytes(wanted: Range) -> int:
    length = (wanted.end or 0) - wanted.begin
    return length + -(-length // BLOCK) * DIGEST_BYTES


def sent(folder: Path, ranges: Sequence[Range | None]) -> Generator[tuple[bytes, ...]]:
    """Yield what is sent of ``found`` ranges: a LENGTH for each, then the digests of the next AHEAD
    blocks, and those blocks, until its end.

    Raises ReplacedError, OSError.
    """
    for each in ranges:
        if each is None:
            yield (LENGTH.pack(MISSING),)
        else:
            yield from _sent(folder / each.name, each)


def _sent(path: Path, wanted: Range) -> Iterator[tuple[bytes, ...]]:
    end = wanted.end or 0
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if _text(os.fstat(file)) != wanted.identity:
            raise _replaced(path)
        yield (LENGTH.pack(end - wanted.begin),)
        for position in range(wanted.begin, end, AHEAD * BLOCK):
            length = min(AHEAD * BLOCK, end - position)
            blocks = os.pread(file, length, position)
            if len(blocks) != length:
                raise _replaced(path)
            yield digests(blocks), blocks
    finally:
        os.close(file)


def _replaced(path: Path) -> ReplacedError:
    return ReplacedError(datafs.FAILURES["copy"], f"{path} was replaced or truncated meanwhile")


def _identity(path: Path) -> str:
    try:
        return _text(path.stat())
    except OSError:
        return ""  # the reading of it says why


def _text(status: os.stat_result) -> str:
    return f"{status.st_dev} {status.st_ino}"
