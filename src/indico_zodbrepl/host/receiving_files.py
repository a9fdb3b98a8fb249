"""Receive many files of another host: small ones together, large ones alone."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from indico_zodbrepl.cluster.files import sync_folder
from indico_zodbrepl.host.datafs_answers import Progress
from indico_zodbrepl.host.node_files import BLOBS, BLOCK, NodeFile, Range
from indico_zodbrepl.host.part_file import PartFile
from indico_zodbrepl.host.receiving import Receiving, Streams, sizes

AT_ONCE = 200
LARGE = 8 << 20
"""Bytes from which a file comes alone, and is continued where the connection broke."""


class FilesReceiver(Receiving):
    """The receiver of files into a folder, each of which appears when it is complete and on disk.

    Args:
        folder: of the files.
        on_progress, deadline: as of ``Receiving``.
    """

    def __init__(
        self,
        streams: Streams,
        folder: Path,
        on_progress: Callable[[Progress], None] | None,
        deadline: float,
    ) -> None:
        super().__init__(streams, on_progress, deadline)
        self._folder = folder
        self._files_done = self._files_total = 0

    def report(self, stage: str, done: int, total: int | None, *, now: bool = False) -> None:
        """Report progress as ``Receiving``; that of one of the files as progress of all of them."""
        if stage == BLOBS:
            done, total = self._files_done + done, self._files_total
        super().report(stage, done, total, now=now)

    def lacking(self, files: Sequence[NodeFile]) -> list[NodeFile]:
        """Return the files that are not in the folder yet, by name and size."""
        return [each for each in files if not _has(self._folder / each.name, each.bytes)]

    def fetch(self, files: Sequence[NodeFile]) -> bool:
        """Receive the files that are lacking; return False if one does not exist any more.

        Raises OperatorError: ReplacedError, a large one does not exist any more; TIMED_OUT.
        """
        wanted = self.lacking(files)
        self._files_total = sum(each.bytes for each in files)
        self._files_done = self._files_total - sum(each.bytes for each in wanted)
        small = [each for each in wanted if each.bytes < LARGE]
        for at in range(0, len(small), AT_ONCE):
            some = small[at : at + AT_ONCE]
            if not self.again(self._fetch_lacking, some):
                return False
            self._files_done += sum(each.bytes for each in some)
        for each in wanted:
            if each.bytes >= LARGE:
                with _received(self._folder / each.name) as new:
                    self.grow(new, Range(each.name, 0, each.bytes), BLOBS)
                self._files_done += each.bytes
        if files:
            self.report(BLOBS, 0, None, now=True)
        return True

    def _fetch_lacking(self, files: Sequence[NodeFile]) -> bool:
        """Receive small files; a repeated call takes those that are not there yet."""
        return self.fetch_ranges(
            [(Range(each.name), self._folder / each.name) for each in self.lacking(files)]
        )

    def fetch_ranges(self, wanted: Sequence[tuple[Range, Path]]) -> bool:
        """Receive some small files; return False if one does not exist."""
        complete, buffer = True, memoryview(bytearray(BLOCK))
        with self._streams.stream([each for each, _ in wanted]) as stream:
            for _, path in wanted:
                length = stream.length()
                if length is None:
                    complete = False
                    continue
                with _received(path) as new:
                    for size in sizes(length):
                        self.check_time()
                        new.append(buffer[:size], stream.block(buffer[:size]))
        return complete


@contextlib.contextmanager
def _received(path: Path) -> Iterator[PartFile]:
    """Yield an empty file that takes this place, on disk, unless an error is raised."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    new = PartFile(path.with_name(f"{path.name}.part"))
    try:
        new.cut(0)
        yield new
        new.sync()
    finally:
        new.close()
    new.path.rename(path)
    sync_folder(path.parent)


def _has(path: Path, size: int) -> bool:
    return path.exists() and path.stat().st_size == size
