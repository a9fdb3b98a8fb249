"""Copy a node's data from another host; an interrupted copy continues.

The data file grows as TARGET.part.  What is there is verified against the source's digests before
it is continued, and each block that arrives before it is written.
"""

from __future__ import annotations

import contextlib
import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

from indico_zodbrepl.cluster.files import sync_folder
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.errors import ExitCode
from indico_zodbrepl.host import datafs, node_files
from indico_zodbrepl.host.datafs import FAILURES
from indico_zodbrepl.host.datafs_answers import Copy, Progress
from indico_zodbrepl.host.locking import note_pid, take
from indico_zodbrepl.host.node_files import (
    ATTEMPTS,
    BLOCK,
    DATA,
    INDEX,
    LAYOUT,
    PACKED,
    NodeFile,
    Origin,
    Range,
    ReplacedError,
    is_sent,
)
from indico_zodbrepl.host.part_file import PartFile, check_space
from indico_zodbrepl.host.receiving import Streams, failed
from indico_zodbrepl.host.receiving_files import FilesReceiver

CLOSE = 1 << 20
"""Bytes that are left to replication."""
PASSES = 20
"""Rounds; each copies what was written during the previous one."""
COMPARED = 1024 * BLOCK
"""Bytes whose digests are asked for at once."""


class Source(Streams, Protocol):
    """The data of a node of another host.  All methods raise OperatorError, HostAwayError."""

    def origin(self) -> Origin:
        """Return the data file."""

    def block_digests(self, identity: str, begin: int, end: int) -> Sequence[str]:
        """Return the digests of the blocks of a part of the data file."""

    def blobs(self) -> Sequence[NodeFile]:
        """Return the committed blobs."""


def copy(
    installation: Installation,
    source: Source,
    target: Path,
    on_progress: Callable[[Progress], None] | None = None,
    *,
    seconds: float = datafs.COPY_SECONDS,
) -> Copy:
    """Copy a node's data file up to a complete transaction, its index, and its blobs.

    The target appears when it is complete and on disk.

    Args:
        target: the Data.fs; must not exist, and no server may have it open.
        on_progress: called about twice a second, in this thread.
        seconds: time limit.

    Raises OperatorError: TIMED_OUT, too late or the host does not answer; REFUSED, the target is in
    use or exists; FAILED, the disk is full.
    """
    began = time.monotonic()
    job = _Job(source, target, on_progress, began + seconds)
    job.origin()  # nothing is left behind if the source can't be read
    with _locked(target):
        if target.exists():
            raise failed(f"{target} exists already", ExitCode.REFUSED)
        part = PartFile(target.with_name(f"{target.name}.part"))
        try:
            resumed, blobs = job.run(part)
        finally:
            part.close()
        end, tid = node_files.end(installation, part.path)
        if end != part.size:
            raise failed(f"{part.path} ends within a transaction, at {end} of {part.size}")
        part.path.rename(target)
        sync_folder(target.parent)
    done = time.monotonic() - began
    return Copy(tid, part.size, resumed, blobs[0], blobs[1], round(done, 3))


def copy_part(
    source: Source,
    target: Path,
    origin: Origin,
    begin: int,
    on_progress: Callable[[Progress], None],
) -> None:
    """Copy a node's data file from a position to the end that ``origin`` has; no time limit.

    What an interrupted call left in the target is verified and continued.

    Raises OperatorError as ``copy``; ReplacedError, the data file is another one by now.
    """
    job = _Job(source, target, on_progress, math.inf, begin=begin, stage="copied")
    part = PartFile(target)
    try:
        job.part(part, origin)
    finally:
        part.close()


def copy_blobs(
    source: Source, folder: Path, names: Sequence[str], on_progress: Callable[[Progress], None]
) -> None:
    """Copy blobs of a node to the same paths in a folder; no time limit.

    Raises OperatorError as ``copy``; ReplacedError, the node has one of them no more.
    """
    receiver = FilesReceiver(source, folder, on_progress, math.inf)
    there = {each.name: each for each in receiver.again(source.blobs)} if names else {}
    if missing := [name for name in names if name not in there]:
        raise ReplacedError(FAILURES["copy"], f"the source's file {missing[0]} is gone")
    wanted = [there[name] for name in names]
    check_space(folder / DATA, sum(each.bytes for each in receiver.lacking(wanted)))
    if not receiver.fetch(wanted):
        raise ReplacedError(FAILURES["copy"], "the source was packed meanwhile")


def is_same(source: Source, file: Path, origin: Origin, begin: int) -> bool:
    """Return True if a file is what a node's data file has from a position on.

    Raises as ``copy_part``.
    """
    job = _Job(source, file, None, math.inf, begin=begin)
    part = PartFile(file)
    try:
        return job.is_same(part, origin)
    finally:
        part.close()


class _Job(FilesReceiver):
    """One copy.

    Args:
        begin: position in the data file at which the target begins.
        stage: of the data file, for the progress.
    """

    def __init__(
        self,
        source: Source,
        target: Path,
        on_progress: Callable[[Progress], None] | None,
        deadline: float,
        *,
        begin: int = 0,
        stage: str = "data",
    ) -> None:
        super().__init__(source, target.parent, on_progress, deadline)
        self._source = source
        self._target = target
        self._begin = begin
        self._stage = stage

    def run(self, part: PartFile) -> tuple[int, tuple[int, int]]:
        """Copy everything; return the bytes that were there, and the blobs and their bytes."""
        for _ in range(ATTEMPTS):
            with contextlib.suppress(ReplacedError):
                resumed, origin = self._data(part)
                blobs = self._blobs(origin)
                if blobs is not None and self.origin().identity == origin.identity:
                    self._beside(PACKED)
                    return resumed, blobs
        raise failed(f"the source of {self._target} is packed again and again")

    def part(self, part: PartFile, origin: Origin) -> None:
        """Copy a part of the data file, from ``begin`` to the end of the origin."""
        self._take_over(part, origin)
        check_space(part.path, origin.end - self._begin - part.size)
        self._append(part, origin)
        part.sync()
        self.report(self._stage, part.size, part.size, now=True)

    def is_same(self, part: PartFile, origin: Origin) -> bool:
        """Return True if a complete part is in the data file."""
        end = self._begin + part.size
        return end <= origin.end and self._same(part, origin, end) == end

    def origin(self) -> Origin:
        return self.again(self._source.origin)

    def _data(self, part: PartFile) -> tuple[int, Origin]:
        """Copy the complete transactions; return how many bytes were there, and their file."""
        origin = self.origin()
        # Copied before the data, the index that the server saved last says nothing of what the
        # copy lacks; with it the new server reads less.
        self._beside(INDEX)
        resumed = self._take_over(part, origin)
        for _ in range(PASSES):
            check_space(part.path, origin.end - part.size)
            self._append(part, origin)
            newer = self.origin()
            if newer.identity != origin.identity:
                raise ReplacedError(FAILURES["copy"], "the source was packed meanwhile")
            if newer.end - part.size <= CLOSE:
                break
            origin = newer
        part.sync()
        self.report(self._stage, part.size, part.size, now=True)
        return resumed, origin

    def _take_over(self, part: PartFile, origin: Origin) -> int:
        """Truncate the part to the blocks that it has in common with the source."""
        same = self._same(part, origin, min(self._begin + part.size, origin.end))
        part.cut(same - self._begin)
        return same - self._begin

    def _same(self, part: PartFile, origin: Origin, end: int) -> int:
        """Return the position up to which the part has the same blocks as the source."""
        same = self._begin
        while same < end:
            limit = min(end, same + COMPARED)
            wanted = self.again(self._source.block_digests, origin.identity, same, limit)
            own = part.digests(same - self._begin, limit - self._begin)
            for ours, theirs in zip(own, wanted, strict=True):
                if ours.hex() != theirs:
                    return same
                same = min(limit, same + BLOCK)
            self.report(self._stage, same - self._begin, origin.end - self._begin)
        return same

    def _append(self, part: PartFile, origin: Origin) -> None:
        """Copy from the end of the part to that of the source; continue after a failure."""
        self.grow(part, Range(DATA, self._begin, origin.end, origin.identity), self._stage)

    def _beside(self, name: str) -> None:
        """Copy a file that the source's server keeps beside the data; an earlier one is removed."""
        target = self._target.with_name(self._target.name + name.removeprefix(DATA))
        target.unlink(missing_ok=True)
        self.again(self.fetch_ranges, [(Range(name), target)])

    def _blobs(self, origin: Origin) -> tuple[int, int] | None:
        """Copy the blobs of the copied transactions; remove others that an earlier copy left.

        Returns their number and the bytes copied; None if a pack removed some of them meanwhile.
        """
        folder = self._target.parent
        found = [
            each for each in self.again(self._source.blobs) if _is_of_copy(each.name, origin.tid)
        ]
        _remove_others(folder, {each.name for each in found})
        lacking = sum(each.bytes for each in self.lacking(found))
        if not (folder / LAYOUT).exists():
            self.again(self.fetch_ranges, [(Range(LAYOUT), folder / LAYOUT)])
        check_space(self._target, lacking)
        return (len(found), lacking) if self.fetch(found) else None


def _is_of_copy(name: str, last: str | None) -> bool:
    """Return True for a blob of a transaction up to this tid."""
    return is_sent(name) and last is not None and node_files.tid_of(name) <= int(last, 16)


def _remove_others(folder: Path, names: set[str]) -> None:
    """Remove the blobs in a folder that are none of these."""
    for each in node_files.blobs_in(folder):
        if each.name not in names:
            (folder / each.name).unlink()


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold the lock that a server holds on a data file."""
    file = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        if not take(file):
            raise failed(f"a server has {path} open; stop it first", ExitCode.REFUSED)
        note_pid(file)
        yield
    finally:
        os.close(file)
