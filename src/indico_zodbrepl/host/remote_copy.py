"""Copy a node's data from another host; an interrupted copy continues.

The data file grows as TARGET.part.  What is there is verified against the source's digests before
it is continued, and each block that arrives before it is written.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Protocol, TypeVar

from indico_zodbrepl.cluster.files import sync_folder
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host import datafs, node_files
from indico_zodbrepl.host.datafs import FAILURES, Copy, Progress
from indico_zodbrepl.host.interface import HostAwayError
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
from indico_zodbrepl.host.part_file import GarbledError, PartFile, check_space

CLOSE = 1 << 20
"""Bytes that are left to replication."""
PASSES = 20
"""Rounds; each copies what was written during the previous one."""
REPORT_EACH = 0.5
COMPARED = 1024 * BLOCK
"""Bytes whose digests are asked for at once."""
TRIES = 4
"""Tries without a new block before a copy is given up; PAUSE between two of them."""
PAUSE = 0.5
BLOBS_AT_ONCE = 200
Value = TypeVar("Value")


class Stream(Protocol):
    """The content of some ranges, in their order.  All methods raise HostAwayError."""

    def length(self) -> int | None:
        """Return the length of the next range; None if its file does not exist."""

    def block(self, into: memoryview) -> bytes:
        """Receive the next block of the range; return its digest."""


class Source(Protocol):
    """The data of a node of another host.  All methods raise OperatorError, HostAwayError."""

    def origin(self) -> Origin:
        """Return the data file."""

    def block_digests(self, identity: str, begin: int, end: int) -> Sequence[str]:
        """Return the digests of the blocks of a part of the data file."""

    def blobs(self) -> Sequence[NodeFile]:
        """Return the committed blobs."""

    def stream(self, ranges: Sequence[Range]) -> contextlib.AbstractContextManager[Stream]:
        """Send parts of files."""


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
            raise _failed(f"{target} exists already", ExitCode.REFUSED)
        part = PartFile(target.with_name(f"{target.name}.part"))
        try:
            resumed, blobs = job.run(part)
        finally:
            part.close()
        end, tid = node_files.end(installation, part.path)
        if end != part.size:
            raise _failed(f"{part.path} ends within a transaction, at {end} of {part.size}")
        part.path.rename(target)
        sync_folder(target.parent)
    done = time.monotonic() - began
    return Copy(tid, part.size, resumed, blobs[0], blobs[1], round(done, 3))


class _Job:
    """One copy."""

    def __init__(
        self,
        source: Source,
        target: Path,
        on_progress: Callable[[Progress], None] | None,
        deadline: float,
    ) -> None:
        self._source = source
        self._target = target
        self._on_progress = on_progress
        self._deadline = deadline
        self._reported = 0.0

    def run(self, part: PartFile) -> tuple[int, tuple[int, int]]:
        """Copy everything; return the bytes that were there, and the blobs and their bytes."""
        for _ in range(ATTEMPTS):
            with contextlib.suppress(ReplacedError):
                resumed, origin = self._data(part)
                blobs = self._blobs()
                if blobs is not None and self.origin().identity == origin.identity:
                    self._beside(PACKED)
                    return resumed, blobs
        raise _failed(f"the source of {self._target} is packed again and again")

    def origin(self) -> Origin:
        return self._again(self._source.origin)

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
        self._report("data", part.size, part.size, now=True)
        return resumed, origin

    def _take_over(self, part: PartFile, origin: Origin) -> int:
        """Truncate the part to the blocks that it has in common with the source."""
        end = min(part.size, origin.end)
        same = 0
        while same < end:
            limit = min(end, same + COMPARED)
            wanted = self._again(self._source.block_digests, origin.identity, same, limit)
            for ours, theirs in zip(part.digests(same, limit), wanted, strict=True):
                if ours.hex() != theirs:
                    part.cut(same)
                    return same
                same = min(limit, same + BLOCK)
            self._report("data", same, origin.end)
        part.cut(same)
        return same

    def _append(self, part: PartFile, origin: Origin) -> None:
        """Copy from the end of the part to that of the source; continue after a failure."""
        failures = 0
        while part.size < origin.end:
            before = part.size
            try:
                self._receive(part, origin)
            except (HostAwayError, GarbledError) as error:
                failures = 1 if part.size > before else failures + 1
                if failures >= TRIES:
                    raise self._given_up(error) from error
                self._pause()

    def _receive(self, part: PartFile, origin: Origin) -> None:
        wanted = Range(DATA, part.size, origin.end, origin.identity)
        with self._source.stream([wanted]) as stream:
            length = stream.length()
            if length != origin.end - part.size:
                raise ReplacedError(FAILURES["copy"], "the source's data file is gone")
            buffer = memoryview(bytearray(BLOCK))
            for size in _sizes(length):
                self._check_time()
                part.append(buffer[:size], stream.block(buffer[:size]))
                self._report("data", part.size, origin.end)

    def _beside(self, name: str) -> None:
        """Copy a file that the source's server keeps beside the data; an earlier one is removed."""
        target = self._target.with_name(self._target.name + name.removeprefix(DATA))
        target.unlink(missing_ok=True)
        self._again(self._fetch, [(Range(name), target)])

    def _blobs(self) -> tuple[int, int] | None:
        """Copy the blobs; return their number and bytes; None if a pack removed some meanwhile."""
        folder = self._target.parent
        found = [each for each in self._again(self._source.blobs) if is_sent(each.name)]
        wanted = [each for each in found if not _has(folder / each.name, each.bytes)]
        if found and not (folder / LAYOUT).exists():
            self._again(self._fetch, [(Range(LAYOUT), folder / LAYOUT)])
        check_space(self._target, sum(each.bytes for each in wanted))
        copied = 0
        for at in range(0, len(wanted), BLOBS_AT_ONCE):
            some = wanted[at : at + BLOBS_AT_ONCE]
            job = [(Range(each.name), folder / each.name) for each in some]
            if not self._again(self._fetch, job):
                return None
            copied += sum(each.bytes for each in some)
            self._report("blobs", copied, None)
        return len(found), copied

    def _fetch(self, wanted: Sequence[tuple[Range, Path]]) -> bool:
        """Copy small files, those that are not there yet; return False if one does not exist."""
        complete, buffer = True, memoryview(bytearray(BLOCK))
        with self._source.stream([each for each, _ in wanted]) as stream:
            for _, path in wanted:
                length = stream.length()
                if length is None:
                    complete = False
                    continue
                path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                new = PartFile(path.with_name(f"{path.name}.part"))
                try:
                    new.cut(0)
                    for size in _sizes(length):
                        self._check_time()
                        new.append(buffer[:size], stream.block(buffer[:size]))
                    new.sync()
                finally:
                    new.close()
                new.path.rename(path)
                sync_folder(path.parent)
        return complete

    def _again(self, do: Callable[..., Value], *arguments: object) -> Value:
        """Do something that may be repeated, a few times while the host is away."""
        for _ in range(TRIES - 1):
            try:
                return do(*arguments)
            except (HostAwayError, GarbledError):
                self._pause()
        try:
            return do(*arguments)
        except GarbledError as error:
            raise self._given_up(error) from error

    def _given_up(self, error: Exception) -> OperatorError:
        if isinstance(error, OperatorError):
            return error
        return _failed("blocks arrive garbled again and again: is the memory of a host broken?")

    def _pause(self) -> None:
        self._check_time()
        time.sleep(PAUSE)

    def _check_time(self) -> None:
        if time.monotonic() >= self._deadline:
            raise OperatorError(
                FAILURES["copy"],
                "it did not finish in time; what is there is kept",
                "repeat the command: the copy continues",
                ExitCode.TIMED_OUT,
            )

    def _report(self, stage: str, done: int, total: int | None, *, now: bool = False) -> None:
        moment = time.monotonic()
        if self._on_progress is not None and (now or moment >= self._reported + REPORT_EACH):
            self._reported = moment
            self._on_progress(Progress(stage, done, total))


def _sizes(length: int) -> Iterator[int]:
    for position in range(0, length, BLOCK):
        yield min(BLOCK, length - position)


def _has(path: Path, size: int) -> bool:
    return path.exists() and path.stat().st_size == size


def _failed(why: str, code: ExitCode = ExitCode.FAILED) -> OperatorError:
    return OperatorError(FAILURES["copy"], why, exit_code=code)


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold the lock that a server holds on a data file."""
    file = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        if not take(file):
            raise _failed(f"a server has {path} open; stop it first", ExitCode.REFUSED)
        note_pid(file)
        yield
    finally:
        os.close(file)
