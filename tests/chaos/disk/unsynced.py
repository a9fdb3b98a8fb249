"""What a machine loses with its power: the changes of files that were not synchronised.

Each change is applied at once, and noted with what undoes it.  `lose` undoes what is noted, the
latest first.  A change is noted no more

- of a file's content: when the file is synchronised;
- of names (a file was made, renamed or removed): when any file or folder is synchronised, as a
  journal of ext4 or XFS is written as a whole;
- when it is as old as `AGE_SECONDS`: the kernel writes back what is old.

After a synchronisation that failed, Linux considers the content clean although it is not on the
disk, and a later one succeeds.  So such changes stay noted until all of the same part of the file
is written again and synchronised, at once or by and by, or cut off.  What remains leaves zeros, or
is missing at the end of the file.

Not thread-safe.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import os
import time
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

AGE_SECONDS = 30.0
"""As dirty_expire_centisecs of Linux has it."""


Part = tuple[int, int]
"""Offsets of the beginning and the end of a part of a file."""
ALL_AFTER = 1 << 62


@dataclasses.dataclass
class _Change:
    """Something to undo.

    Attributes:
        undo: called with ``lost``.
        settle: called when it is noted no more.
        file: the number of the file whose content changed; 0 for a change of names.
        covers: what is as this change made it once this is on the disk: what was written, or all
            after the end of a file that was cut.
        lost: the parts that a failed synchronisation has not written; None without one.
    """

    at: float
    undo: Callable[[Sequence[Part] | None], None]
    settle: Callable[[], None]
    file: int = 0
    covers: Part = (0, 0)
    lost: list[Part] | None = None


def _nothing() -> None:
    pass


class Unsynced:
    """The changes of a folder that are not on its disk.

    Args:
        removed: an empty folder of the same file system for files that were removed, until that is
            synchronised.
    """

    def __init__(self, removed: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._removed = removed
        self._clock = clock
        # Both by a number that grows, so in their order.  A copy of a database makes ten thousand
        # changes before it synchronises any.
        self._changes: OrderedDict[int, _Change] = OrderedDict()
        self._of: defaultdict[int, dict[int, _Change]] = defaultdict(dict)  # by file
        self._failed: defaultdict[int, dict[int, _Change]] = defaultdict(dict)  # by file
        self._made = 0
        self._descriptors: dict[int, tuple[int, int]] = {}
        self._kept = 0

    def __len__(self) -> int:
        return len(self._changes)

    # Before a change

    def writes(self, descriptor: int, offset: int, length: int) -> None:
        """Note that a part of an open file is about to be overwritten, or that it grows."""
        status = os.fstat(descriptor)
        known = min(status.st_size - offset, length)
        part = offset, offset + length
        self._note_content(descriptor, status.st_ino, offset, known, part)

    def truncates(self, descriptor: int, length: int) -> None:
        """Note that an open file is about to get another length."""
        status = os.fstat(descriptor)
        removed = status.st_size - length
        self._note_content(descriptor, status.st_ino, length, removed, (length, ALL_AFTER))

    def _note_content(
        self, descriptor: int, number: int, offset: int, length: int, covers: Part
    ) -> None:
        size = os.fstat(descriptor).st_size
        before = os.pread(descriptor, max(length, 0), offset)
        kept = self._hold(number, descriptor)

        def undo(lost: Sequence[Part] | None) -> None:
            if lost is None:
                os.ftruncate(kept, size)
                os.pwrite(kept, before, offset)
            else:
                _lose(kept, size, before.ljust(covers[1] - covers[0], b"\0"), offset, lost)
            self._release(number)

        def settle() -> None:
            self._release(number)

        self._note(_Change(self._clock(), undo, settle, number, covers))

    def _hold(self, number: int, descriptor: int) -> int:
        """Return a descriptor of a file that stays open; all changes of the file share it."""
        kept, users = self._descriptors.get(number) or (os.dup(descriptor), 0)
        self._descriptors[number] = kept, users + 1
        return kept

    def _release(self, number: int) -> None:
        kept, users = self._descriptors.pop(number)
        if users > 1:
            self._descriptors[number] = kept, users - 1
        else:
            os.close(kept)

    # After, or instead of, a change

    def made(self, path: Path) -> None:
        """Note that a file or a folder was made."""

        def undo(_lost: Sequence[Part] | None) -> None:
            path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()

        self._note(_Change(self._clock(), undo, _nothing))

    def removes_folder(self, path: Path) -> None:
        """Remove an empty folder."""
        status = path.stat()
        path.rmdir()

        def undo(_lost: Sequence[Part] | None) -> None:
            path.mkdir()
            os.chown(path, status.st_uid, status.st_gid)
            path.chmod(status.st_mode)

        self._note(_Change(self._clock(), undo, _nothing))

    def removes(self, path: Path) -> None:
        """Remove a file."""
        kept = self._aside(path)

        def undo(_lost: Sequence[Part] | None) -> None:
            kept.rename(path)

        self._note(_Change(self._clock(), undo, kept.unlink))

    def renames(self, old: Path, new: Path) -> None:
        """Rename a file or a folder; an existing one is replaced."""
        replaced = None
        if new.is_symlink() or new.is_file():
            replaced = self._aside(new)
        old.rename(new)

        def undo(_lost: Sequence[Part] | None) -> None:
            new.rename(old)
            if replaced is not None:
                replaced.rename(new)

        settle = _nothing if replaced is None else replaced.unlink
        self._note(_Change(self._clock(), undo, settle))

    def _aside(self, path: Path) -> Path:
        self._kept += 1
        kept = self._removed / str(self._kept)
        path.rename(kept)
        return kept

    def _note(self, change: _Change) -> None:
        self._expire()
        self._made += 1
        self._changes[self._made] = self._of[change.file][self._made] = change

    # Afterwards

    def has(self, number: int) -> bool:
        """Return True if a synchronisation of a file has something to write.

        Args:
            number: as of ``synced``.
        """
        return bool(self._of.get(number) or self._of.get(0))

    def synced(self, number: int) -> None:
        """Forget the changes of a file and of all names: they are on the disk.

        Args:
            number: the file's inode; 0 for a folder.
        """
        if not self.has(number):
            return
        self._settle([item for each in {number, 0} for item in self._of.get(each, {}).items()])

    def sync_failed(self, number: int) -> None:
        """Note that the changes of a file's content can't get to the disk any more.

        Those of names, and of a file's length, stay in the journal, which is written with the next
        synchronisation.

        Args:
            number: as of ``synced``.
        """
        for key, each in self._of.get(number, {}).items():
            if number and each.covers[1] != ALL_AFTER and each.lost is None:
                each.lost = [each.covers]
                self._failed[number][key] = each

    def _expire(self) -> None:
        oldest = self._clock() - AGE_SECONDS
        self._settle(
            list(itertools.takewhile(lambda each: each[1].at < oldest, self._changes.items()))
        )

    def _settle(self, changes: Iterable[tuple[int, _Change]]) -> None:
        """Forget changes that are on the disk, and what they have replaced of earlier ones."""
        for number, each in changes:
            if each.lost is not None:
                continue
            self._forget(number, each)
            for earlier, failed in list(self._failed.get(each.file, {}).items()):
                if earlier < number and failed.lost is not None:
                    failed.lost = _without(failed.lost, each.covers)
                    if not failed.lost:
                        self._forget(earlier, failed)

    def _forget(self, number: int, change: _Change) -> None:
        change.settle()
        del self._changes[number]
        for found in (self._of, self._failed):
            found[change.file].pop(number, None)
            if not found[change.file]:
                del found[change.file]

    def lose(self) -> int:
        """Undo all that is not on the disk; return how many changes that were."""
        self._expire()
        count = len(self._changes)
        for each in reversed(self._changes.values()):
            # A name may depend on one whose change is on the disk.
            with contextlib.suppress(FileNotFoundError, FileExistsError):
                each.undo(each.lost)
        self._changes.clear()
        self._of.clear()
        self._failed.clear()
        return count


def _lose(kept: int, size: int, before: bytes, offset: int, lost: Sequence[Part]) -> None:
    """Undo parts of what was written to an open file.

    Args:
        size: of the file, before.
        before: what was there, beginning at the offset.
        lost: in their order, not empty.
    """
    now = os.fstat(kept).st_size
    for first, end in lost:
        last = min(end, now)
        if first < last:
            os.pwrite(kept, before[first - offset : last - offset], first)
    first, end = lost[-1]
    if end >= now:  # nothing that follows is on the disk
        os.ftruncate(kept, max(size, first))


def _without(parts: Sequence[Part], covered: Part) -> list[Part]:
    """Return what remains of parts of a file without another one."""
    first, end = covered
    return [
        (begin, until)
        for part in parts
        for begin, until in ((part[0], min(part[1], first)), (max(part[0], end), part[1]))
        if begin < until
    ]
