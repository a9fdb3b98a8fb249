"""Exported tails as one file to download, packed while it is sent."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.cluster.model import Cluster
from indico_zodbrepl.failover.operation import Operation

CHUNK = 1 << 20
"""Bytes that are read at a time; some such pieces are all that is in memory."""


def exported(entry: Operation) -> list[Path]:
    """The folders to which an operation says that it exported something, in its order."""
    told = [figures.get("exported_to") for figures in (
        entry.told, *(record.figures for record in entry.records))]
    return list(dict.fromkeys(Path(each) for each in told if isinstance(each, str) and each))


def kept(cluster: Cluster, folder: Path) -> bool:
    """Whether a folder is an exported tail where those are kept, and nowhere else."""
    tails = Layout(cluster).lost_tails
    return (folder.name not in ("", ".", "..") and folder.parent == tails
            and not folder.is_symlink() and (folder / "tail.json").is_file())


def packed(folder: Path) -> Iterator[bytes]:
    """A zip file of a folder and all regular files in it, piece by piece.

    No link is followed.  Raises OSError when a file can't be read; the zip file then has no end.
    """
    sink = _Sink()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for path, _, names, opened in os.fwalk(folder, onerror=_give_up):
            for name in sorted(names):
                try:
                    descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK,
                                         dir_fd=opened)
                except OSError:
                    if (Path(path) / name).is_symlink():
                        continue
                    raise
                with open(descriptor, "rb") as file:
                    inside = os.path.join(folder.name, os.path.relpath(path, folder), name)
                    yield from _added(archive, sink, file, os.path.normpath(inside))
    yield sink.take()


def _added(archive: zipfile.ZipFile, sink: _Sink, file: BinaryIO, inside: str) -> Iterator[bytes]:
    entry = zipfile.ZipInfo(inside)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = 0o100600 << 16
    with archive.open(entry, "w", force_zip64=True) as target:
        while chunk := file.read(CHUNK):
            target.write(chunk)
            yield sink.take()


def _give_up(error: OSError) -> None:
    raise error


class _Sink:
    """A file that can only be written to, and gives away what was written."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []

    def write(self, data: bytes) -> int:
        self._pieces.append(bytes(data))
        return len(data)

    def flush(self) -> None:
        """Nothing is held back."""

    def close(self) -> None:
        """There is nothing to close."""

    def take(self) -> bytes:
        """What was written since the last time."""
        taken, self._pieces = b"".join(self._pieces), []
        return taken
