"""A disk of one node that can be full: a tmpfs, which takes root."""

from __future__ import annotations

import contextlib
import os
import subprocess
from pathlib import Path

import pytest

SIZE = 400_000_000
ROOM = 100_000  # bytes that still fit on a disk that is full soon


class SmallDisk:
    """A file system of its own for a node's data directory.

    Args:
        node: whose.
        folder: where it is mounted; it is made. The data directory is this folder or inside.
        size: bytes.
    """

    def __init__(self, node: str, folder: Path, size: int) -> None:
        self.node = node
        self.folder = folder
        self._size = size
        folder.mkdir(parents=True)
        subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={size},mode=0700", "tmpfs", folder],
            check=True,
            capture_output=True,
        )

    def fill(self) -> None:
        """Leave little room."""
        found = os.statvfs(self.folder)
        used = (found.f_blocks - found.f_bfree) * found.f_frsize
        self._resize(used + ROOM)

    def free(self) -> None:
        """Make room again."""
        self._resize(self._size)

    def close(self) -> None:
        subprocess.run(["umount", "--lazy", self.folder], check=True)

    def _resize(self, size: int) -> None:
        subprocess.run(["mount", "-o", f"remount,size={size}", self.folder], check=True)


def small_disk(node: str, folder: Path, size: int = SIZE) -> SmallDisk | None:
    """A small disk, or None if this process may not mount."""
    try:
        return SmallDisk(node, folder, size)
    except (subprocess.CalledProcessError, FileNotFoundError):
        return None


def small_disk_or_skip(node: str, folder: Path, size: int) -> SmallDisk:
    """A small disk; the test is skipped if this process may not mount."""
    disk = small_disk(node, folder, size)
    if disk is None:
        pytest.skip("only root can mount a small disk")
    return disk


def fill(folder: Path) -> Path:
    """Fill the disk of a folder up to its last block; return the file that does."""
    ballast = folder / "ballast"
    with contextlib.suppress(OSError), ballast.open("ab", buffering=0) as file:
        while True:
            file.write(bytes(4096))
    return ballast
