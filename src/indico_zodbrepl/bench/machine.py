"""What is worth knowing of the machine that measured."""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Mapping
from pathlib import Path

CPUINFO = Path("/proc/cpuinfo")
MEMINFO = Path("/proc/meminfo")
MOUNTS = Path("/proc/self/mounts")


def describe(disk: Path) -> Mapping[str, object]:
    """CPU, memory, disk, system and the present load, for JSON.

    Args:
        disk: a folder on the disk in question.
    """
    return {"cpu": _field(CPUINFO, "model name") or platform.machine(),
            "cores": len(os.sched_getaffinity(0)),
            "memory": _field(MEMINFO, "MemTotal"),
            "disk": describe_disk(disk),
            "system": platform.platform(),
            "python": platform.python_version(),
            "load_before": load()}


def describe_disk(folder: Path) -> Mapping[str, object]:
    """Device, type and options of the file system that a folder is on, and its free bytes."""
    found = ["", "/", "", ""]
    real = folder.resolve()
    for line in MOUNTS.read_text("utf-8", "replace").splitlines():
        fields = line.split()
        point = Path(fields[1])
        if (point == real or point in real.parents) and len(fields[1]) >= len(found[1]):
            found = fields[:4]
    device, mounted, kind, options = found
    return {"device": device, "mounted": mounted, "type": kind, "options": options,
            "block_bytes": os.statvfs(real).f_bsize, "free_bytes": shutil.disk_usage(real).free}


def load() -> tuple[float, float, float]:
    """How many processes wanted a CPU in the last 1, 5 and 15 minutes."""
    one, five, fifteen = os.getloadavg()
    return round(one, 2), round(five, 2), round(fifteen, 2)


def _field(path: Path, name: str) -> str:
    """The first value of a name in a file of ``name : value`` lines; '' without one."""
    for line in path.read_text("utf-8", "replace").splitlines():
        key, _, value = line.partition(":")
        if key.strip() == name:
            return value.strip()
    return ""
