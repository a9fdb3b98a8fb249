"""A folder on a disk that can have faults: full, slow, failing, and without power."""

from __future__ import annotations

import ctypes.util
import os
import subprocess
import sys
from pathlib import Path

PROGRAM = Path(__file__).parents[1] / "disk/mount.py"


def missing() -> str:
    """Return why there can be no such disk here; empty if there can."""
    if os.geteuid() != 0:
        return "only root can mount a file system for other users"
    if not Path("/dev/fuse").exists():
        return "the kernel has no FUSE"
    if ctypes.util.find_library("fuse3") is None:
        return "no libfuse3 here; as root: apt-get install libfuse3-3"
    return ""


class Disk:
    """A mounted folder; ``close`` ends it.

    Attributes:
        path: where it is mounted.
        content: where its files are, beside the faults.

    Args:
        mount_point: an existing folder.  Its content is in the folder of the same name with
            ``.disk`` at its end, which is made.
    """

    def __init__(self, mount_point: Path) -> None:
        self.path = mount_point
        self.content = folder = mount_point.with_name(f"{mount_point.name}.disk")
        removed = mount_point.with_name(f"{mount_point.name}.removed")
        for each in (folder, removed):
            each.mkdir(exist_ok=True)
        self._process = subprocess.Popen(
            [sys.executable, PROGRAM, folder, removed, mount_point],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._answer() == "mounted"

    def _answer(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def _ask(self, command: str) -> str:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{command}\n")
        self._process.stdin.flush()
        answer = self._answer()
        if not answer:
            raise RuntimeError("the program of the disk has ended")
        return answer

    @property
    def pid(self) -> int:
        """Return the process that serves it."""
        return self._process.pid

    def fill(self) -> None:
        """Leave no room."""
        assert self._ask("full on") == "ok"

    def slow_down(self, seconds: float) -> None:
        """Let each synchronisation take so much longer."""
        assert self._ask(f"slow {seconds}") == "ok"

    def fail(self) -> None:
        """Let each synchronisation fail."""
        assert self._ask("failing on") == "ok"

    def repair(self) -> None:
        """End the faults."""
        for command in ("full off", "slow 0", "failing off"):
            assert self._ask(command) == "ok"

    def lose(self) -> int:
        """Undo what was not synchronised; return how many changes that were.

        No program may use the folder meanwhile.
        """
        return int(self._ask("lose"))

    def close(self) -> None:
        """Unmount it; programs that have files open get errors."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()
