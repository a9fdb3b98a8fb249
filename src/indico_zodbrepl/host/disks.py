"""The free space of a disk, and the proof that a small file can be written."""

from __future__ import annotations

import dataclasses
import enum
import os
import tempfile
from pathlib import Path

from indico_zodbrepl.cluster.files import is_full, spare_of

LOW_SHARE, LOW_BYTES = 0.10, 5 << 30
"""Below the smaller of the two a disk is low: 2 GiB of 20 GiB, 5 GiB of 2 TiB.  There is time to
make room on a working day."""
FULL_SHARE, FULL_BYTES = 0.01, 100 << 20
"""Below the smaller of the two a disk is full: 100 MiB from 10 GiB on.  A pack, an import or a log
file uses that up within minutes."""
FEW_SHARE, FEW_FILES = 0.05, 10_000
"""Below the smaller of the two a disk has few free inodes."""
NO_FILES = 100
"""Below this number of free inodes a disk is full: an operation creates some dozen files."""
PROBE_BYTES = 256 << 10
"""More than an operation writes: state files, epoch records, its progress and the journal."""


class Room(enum.StrEnum):
    """The level of a disk's free space."""

    ENOUGH = "enough"
    LOW = "low"
    FULL = "full"


@dataclasses.dataclass(frozen=True)
class Disk:
    """The file system of a folder.

    Attributes:
        free: bytes that the user of the cluster can still write.
        size: bytes of the whole file system.
        device: the same number for two folders on one file system.
        free_files: inodes that the user of the cluster can still use.
        files: inodes of the whole file system; 0 if it has no fixed number, as Btrfs.
    """

    free: int
    size: int
    device: int
    free_files: int = 0
    files: int = 0

    @property
    def room(self) -> Room:
        """Return the level of the free space."""
        if self.free < self.full_below or self._lacks_files(min(FULL_SHARE * self.files, NO_FILES)):
            return Room.FULL
        if self.free < min(LOW_SHARE * self.size, LOW_BYTES) or self.has_few_files:
            return Room.LOW
        return Room.ENOUGH

    @property
    def has_few_files(self) -> bool:
        """Return True if few inodes are free."""
        return self._lacks_files(min(FEW_SHARE * self.files, FEW_FILES))

    def _lacks_files(self, least: float) -> bool:
        return self.files > 0 and self.free_files < least

    @property
    def full_below(self) -> int:
        """Return the free bytes below which it is full."""
        return int(min(FULL_SHARE * self.size, FULL_BYTES))

    def __str__(self) -> str:
        space = f"{gib(self.free)} free of {gib(self.size)}"
        if not self.has_few_files:
            return space
        return f"{space}, {self.free_files} free inodes of {self.files}"


def mib(count: int) -> str:
    """Return a number of bytes in MiB, with decimals if it is small."""
    exact = 0 < count < 10 << 20
    return f"{count / 2**20:.2f} MiB" if exact else f"{count / 2**20:.0f} MiB"


def gib(count: int) -> str:
    """Return a number of bytes in GiB, or in MiB if it is small."""
    return f"{count / 2**30:.1f} GiB" if count >= 1 << 30 else mib(count)


def disk_of(folder: Path) -> Disk | None:
    """Return the file system of a folder; None if it is missing or unreadable."""
    try:
        found = os.statvfs(folder)
        return Disk(
            found.f_bavail * found.f_frsize,
            found.f_blocks * found.f_frsize,
            os.stat(folder).st_dev,
            found.f_favail,
            found.f_files,
        )
    except OSError:
        return None


def why_unwritable(folder: Path) -> str:
    """Return why a small file can't be written in a folder; empty if it can.

    A file without a name is written, flushed to disk and dropped.  A full disk does not count where
    a spare file lets ``write_atomically`` do without new space.
    """
    try:
        with tempfile.TemporaryFile(dir=folder) as probe:
            probe.write(os.urandom(PROBE_BYTES))
            probe.flush()
            os.fsync(probe.fileno())
    except OSError as error:
        if is_full(error) and spare_of(folder).exists():
            return ""
        return f"{folder}: {error.strerror}"
    return ""
