"""What a lab has left on this machine: processes that see its folder as a host does, and mounts."""

from __future__ import annotations

import errno
import os
from pathlib import Path

# What a process that has just exited, or one of somebody else, does not let read.
GONE = {errno.ENOENT, errno.ESRCH, errno.EINVAL, errno.EACCES, errno.EPERM}


def traces_of(lab: Path, host: str = "") -> list[str]:
    """Return one line for each process of a lab, or of a host of it, and for its mounts here.

    The numbers of namespaces would not do: the kernel gives those of old ones to new ones.
    """
    found = [f"mount {line}" for line in mounts_in(lab, Path("/proc/self"))]
    own = os.readlink("/proc/self/ns/mnt")
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if os.readlink(process / "ns/mnt") == own or not mounts_in(lab, process):
                continue
            if not host or (process / "root" / lab.relative_to("/") / "srv").samefile(lab / host):
                command = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                found.append(f"process {process.name}: {command}")
        except OSError as error:
            if error.errno not in GONE:
                raise
    return found


def mounts_in(folder: Path, process: Path) -> list[str]:
    """Return the mounts in a folder that a process sees."""
    mounts = (process / "mountinfo").read_text().splitlines()
    return [line for line in mounts if Path(line.split()[4]).is_relative_to(folder)]
