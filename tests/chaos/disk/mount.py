"""A file system that passes everything to a folder, and has the faults of disks.

    mount.py FOLDER REMOVED MOUNT_POINT

Commands are lines of standard input, each answered by a line:

    full on|off       there is no room
    slow SECONDS      each synchronisation that writes something takes so much longer
    failing on|off    each synchronisation fails
    lose              undo what was not synchronised, as a loss of power does; the answer counts it;
                      no program may use the file system meanwhile

It ends when standard input is closed.  One thread serves all programs: a synchronisation that takes
long delays them all, and the speed is no measure.  It has real-time priority where that is
permitted, because a disk does not wait for a processor: on two busy ones, a killed PostgreSQL
server, which synchronises a thousand files, took 16 to 22 s to start again, and takes 4 s.
"""

from __future__ import annotations

import contextlib
import errno
import os
import subprocess
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import Any

import mfusepy
from unsynced import Unsynced

NOT_PASSED = os.O_APPEND | os.O_DIRECT
"""The offset of each write is known here, and buffers are not aligned."""

REMEMBERED = 0.5
"""Seconds for which the kernel remembers names and attributes.  With 0 it asks for them again and
again, which took half of this program's time.  So long, the other names of a file that is linked
hard can show the size before a change; no program here changes such files."""


class Disk(mfusepy.Operations):
    """Operations of the file system; one thread."""

    use_ns = True

    def __init__(self, folder: Path, removed: Path) -> None:
        self._folder = folder
        self._unsynced = Unsynced(removed)
        self.full = False
        self.slow = 0.0
        self.failing = False

    def lose(self) -> int:
        return self._unsynced.lose()

    def _at(self, path: str) -> Path:
        return self._folder / path.lstrip("/")

    def _need_room(self) -> None:
        if self.full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def _own(self, path: Path) -> None:
        """Give what was made to the user who made it."""
        user, group, _ = mfusepy.fuse_get_context()
        os.chown(path, user, group, follow_symlinks=False)
        self._unsynced.made(path)

    # Names

    def getattr(self, path: str, fh: int | None = None) -> dict[str, Any]:
        found = os.lstat(self._at(path)) if fh is None else os.fstat(fh)
        names = ("mode", "nlink", "uid", "gid", "size", "ino", "blocks", "blksize")
        values: dict[str, Any] = {f"st_{name}": getattr(found, f"st_{name}") for name in names}
        for name in ("atime", "mtime", "ctime"):
            values[f"st_{name}"] = getattr(found, f"st_{name}_ns")
        return values

    def readdir(self, path: str, fh: int) -> list[tuple[str, dict[str, int], int]]:
        with os.scandir(self._at(path)) as entries:
            return [(entry.name, {"st_ino": entry.inode(), "st_mode": 0}, 0) for entry in entries]

    def readlink(self, path: str) -> str:
        return os.readlink(self._at(path))

    def statfs(self, path: str) -> dict[str, int]:
        found = os.statvfs(self._at(path))
        names = ("bavail", "bfree", "blocks", "bsize", "favail", "ffree", "files", "frsize")
        values = {f"f_{name}": getattr(found, f"f_{name}") for name in (*names, "namemax")}
        if self.full:
            values["f_bavail"] = values["f_bfree"] = 0
        return values

    def chmod(self, path: str, mode: int) -> int:
        os.chmod(self._at(path), mode)
        return 0

    def chown(self, path: str, uid: int, gid: int) -> int:
        os.chown(self._at(path), uid, gid, follow_symlinks=False)
        return 0

    def utimens(self, path: str, times: tuple[int, int] | None = None) -> int:
        at = times or (time.time_ns(), time.time_ns())
        os.utime(self._at(path), ns=at, follow_symlinks=False)
        return 0

    def mkdir(self, path: str, mode: int) -> int:
        self._need_room()
        os.mkdir(self._at(path), mode)
        self._own(self._at(path))
        return 0

    def mknod(self, path: str, mode: int, dev: int) -> int:
        self._need_room()
        os.mknod(self._at(path), mode, dev)
        self._own(self._at(path))
        return 0

    def symlink(self, target: str, source: str) -> int:
        self._need_room()
        os.symlink(source, self._at(target))
        self._own(self._at(target))
        return 0

    def link(self, target: str, source: str) -> int:
        self._need_room()
        os.link(self._at(source), self._at(target), follow_symlinks=False)
        self._unsynced.made(self._at(target))
        return 0

    def unlink(self, path: str) -> int:
        self._unsynced.removes(self._at(path))
        return 0

    def rmdir(self, path: str) -> int:
        self._unsynced.removes_folder(self._at(path))
        return 0

    def rename(self, old: str, new: str) -> int:
        self._unsynced.renames(self._at(old), self._at(new))
        return 0

    # Contents

    def create(self, path: str, mode: int, fi: Any = None) -> int:
        self._need_room()
        made = os.open(self._at(path), os.O_RDWR | os.O_CREAT | os.O_EXCL, mode)
        self._own(self._at(path))
        return made

    def open(self, path: str, flags: int) -> int:
        if flags & os.O_ACCMODE == os.O_WRONLY:  # what is overwritten is read before
            flags = flags & ~os.O_ACCMODE | os.O_RDWR
        opened = os.open(self._at(path), flags & ~(NOT_PASSED | os.O_TRUNC))
        if flags & os.O_TRUNC:
            self._unsynced.truncates(opened, 0)
            os.ftruncate(opened, 0)
        return opened

    def read(self, path: str, size: int, offset: int, fh: int) -> bytes:
        return os.pread(fh, size, offset)

    def write(self, path: str, data: bytes, offset: int, fh: int) -> int:
        if offset + len(data) > os.fstat(fh).st_size:  # what is overwritten has its room
            self._need_room()
        self._unsynced.writes(fh, offset, len(data))
        return os.pwrite(fh, data, offset)

    def truncate(self, path: str, length: int, fh: int | None = None) -> int:
        descriptor = os.open(self._at(path), os.O_RDWR) if fh is None else os.dup(fh)
        try:
            self._unsynced.truncates(descriptor, length)
            os.ftruncate(descriptor, length)
        finally:
            os.close(descriptor)
        return 0

    def release(self, path: str, fh: int) -> int:
        os.close(fh)
        return 0

    def fsync(self, path: str, datasync: int, fh: int) -> int:
        return self._sync(os.fstat(fh).st_ino)

    def fsyncdir(self, path: str, datasync: int, fh: int) -> int:
        return self._sync(0)

    def _sync(self, number: int) -> int:
        if self.failing:
            self._unsynced.sync_failed(number)
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        if self._unsynced.has(number):  # else nothing goes to the disk
            time.sleep(self.slow)
        self._unsynced.synced(number)
        return 0


def obey(disk: Disk, line: str) -> str:
    """Carry out a command; return the answer."""
    match line.split():
        case ["full", ("on" | "off") as word]:
            disk.full = word == "on"
        case ["failing", ("on" | "off") as word]:
            disk.failing = word == "on"
        case ["slow", seconds]:
            disk.slow = float(seconds)
        case ["lose"]:
            lost = disk.lose()
            time.sleep(REMEMBERED)
            return str(lost)
        case _:
            return f"unknown: {line.strip()}"
    return "ok"


def main() -> None:
    folder, removed, mount_point = map(Path, sys.argv[1:])
    with contextlib.suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    disk = Disk(folder, removed)

    def serve() -> None:
        while not os.path.ismount(mount_point):
            time.sleep(0.01)
        print("mounted", flush=True)
        code = 1
        try:
            for line in sys.stdin:
                print(obey(disk, line), flush=True)
            code = 0
        finally:  # also after an error: whoever sent the command waits for an answer
            if code:
                traceback.print_exc()
            subprocess.run(["umount", "--lazy", mount_point], check=False)
            os._exit(code)  # without waiting for programs that have files open

    threading.Thread(target=serve, daemon=True).start()
    os.umask(0)  # modes of new files are masked already
    mfusepy.FUSE(
        disk,
        str(mount_point),
        foreground=True,
        nothreads=True,
        allow_other=True,
        default_permissions=True,
        use_ino=True,
        attr_timeout=REMEMBERED,
        entry_timeout=REMEMBERED,
    )


if __name__ == "__main__":
    main()
