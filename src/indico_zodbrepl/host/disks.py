"""The free space of a disk, and the proof that a small file can be written."""

from __future__ import annotations

import dataclasses
import enum
import os
import shutil
import tempfile
from pathlib import Path

from indico_zodbrepl.cluster.files import is_full, spare_of

LOW_SHARE, LOW_BYTES = 0.10, 5 << 30
"""Below the smaller of the two a disk is low: 2 GiB of 20 GiB, 5 GiB of 2 TiB.  There is time to
make room on a working day."""
FULL_SHARE, FULL_BYTES = 0.01, 100 << 20
"""Below the smaller of the two a disk is full: 100 MiB from 10 GiB on.  A pack, an import or a log
file uses that up within minutes."""
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
    """

    free: int
    size: int
    device: int

    @property
    def room(self) -> Room:
        """Return the level of the free space."""
        if self.free < self.full_below:
            return Room.FULL
        return Room.LOW if self.free < min(LOW_SHARE * self.size, LOW_BYTES) else Room.ENOUGH

    @property
    def full_below(self) -> int:
        """Return the free bytes below which it is full."""
        return int(min(FULL_SHARE * self.size, FULL_BYTES))

    def __str__(self) -> str:
        return f"{gib(self.free)} free of {gib(self.size)}"


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
        usage = shutil.disk_usage(folder)
        return Disk(usage.free, usage.total, os.stat(folder).st_dev)
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
