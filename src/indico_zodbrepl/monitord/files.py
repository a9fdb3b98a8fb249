"""The files of the monitor process: small ones replaced each second, long ones bounded.

None is forced to disk.  A crash of the machine may lose the last seconds; a forced write each
second would slow down the storage servers beside it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def replace(path: Path, values: object) -> None:
    """Replace a file by JSON; readers see the old or the new content.  Raises OSError."""
    temporary = path.with_name(f".{path.name}.new")
    temporary.write_text(json.dumps(values) + "\n", "utf-8")
    temporary.chmod(0o640)
    os.replace(temporary, path)


def read(path: Path) -> Any:
    """Return the JSON of a file; None if there is none or a crash left it unusable."""
    try:
        return json.loads(path.read_text("utf-8"))
    except (FileNotFoundError, ValueError):
        return None


class Lines:
    """A file of JSON objects, one per line, which is rotated when it is full.

    Args:
        path: the file; older lines are in ``path.1``, ``path.2`` and so on.
        most_bytes: size at which it counts as full.
        kept: how many older files are kept.

    Threads: for one at a time.
    """

    def __init__(self, path: Path, most_bytes: int, kept: int) -> None:
        self._path = path
        self._most_bytes = most_bytes
        self._kept = kept

    def append(self, values: object) -> None:
        """Add a line.  Raises OSError."""
        line = json.dumps(values, separators=(",", ":")).encode() + b"\n"
        descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o640)
        try:
            size = os.fstat(descriptor).st_size
            if os.write(descriptor, line) != len(line):
                raise OSError(0, "only a part of a line could be written", str(self._path))
        finally:
            os.close(descriptor)
        if size + len(line) >= self._most_bytes:
            self._rotate()

    def __iter__(self) -> Iterator[Any]:
        """Iterate over all kept lines, oldest first, without those that a crash left incomplete."""
        for path in [*(self._older(n) for n in range(self._kept, 0, -1)), self._path]:
            try:
                lines = path.read_bytes().splitlines()
            except FileNotFoundError:
                continue
            for line in lines:
                try:
                    yield json.loads(line)
                except ValueError:
                    continue

    def _rotate(self) -> None:
        for number in range(self._kept, 0, -1):
            newer = self._path if number == 1 else self._older(number - 1)
            if newer.exists():
                os.replace(newer, self._older(number))

    def _older(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{number}")


class Tail:
    """A reader of new lines in a file of ``Lines`` that another program writes.

    Args:
        path: the file; of the rotated files only the newest is read.

    Threads: for one at a time.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._older = path.with_name(f"{path.name}.1")
        self._inode = 0
        self._read = 0

    def new(self) -> Iterator[Any]:
        """Yield new lines, the oldest first; an incomplete line comes later.

        Raises OSError if the file exists but is unreadable.
        """
        try:
            current = self._path.stat()
        except FileNotFoundError:
            return
        if current.st_ino != self._inode or current.st_size < self._read:
            yield from self._before()
            self._inode, self._read = current.st_ino, 0
        if current.st_size > self._read:
            yield from self._from(self._path)

    def _before(self) -> Iterator[Any]:
        """Yield the rest of the file that was rotated; all of it at first."""
        try:
            older = self._older.stat()
        except FileNotFoundError:
            return
        if older.st_ino != self._inode:
            self._read = 0
        yield from self._from(self._older)

    def _from(self, path: Path) -> Iterator[Any]:
        with path.open("rb") as file:
            file.seek(self._read)
            whole = file.read()
        whole = whole[: whole.rfind(b"\n") + 1]
        self._read += len(whole)
        for line in whole.splitlines():
            try:
                yield json.loads(line)
            except ValueError:
                continue
