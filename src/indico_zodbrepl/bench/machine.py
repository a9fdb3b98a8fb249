"""Describe the machine, its load and the CPU time of its processes."""

from __future__ import annotations

import dataclasses
import os
import platform
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path

CPUINFO = Path("/proc/cpuinfo")
MEMINFO = Path("/proc/meminfo")
MOUNTS = Path("/proc/self/mounts")


def describe(disk: Path) -> Mapping[str, object]:
    """Return CPU, memory, disk, system and current load, for JSON.

    Args:
        disk: a folder on the measured disk.
    """
    return {
        "cpu": _field(CPUINFO, "model name") or platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "memory": _field(MEMINFO, "MemTotal"),
        "disk": describe_disk(disk),
        "system": platform.platform(),
        "python": platform.python_version(),
        "load_before": load(),
    }


def describe_disk(folder: Path) -> Mapping[str, object]:
    """Return device, type, options and free bytes of a folder's file system."""
    found = ["", "/", "", ""]
    real = folder.resolve()
    for line in MOUNTS.read_text("utf-8", "replace").splitlines():
        fields = line.split()
        point = Path(fields[1])
        if (point == real or point in real.parents) and len(fields[1]) >= len(found[1]):
            found = fields[:4]
    device, mounted, kind, options = found
    return {
        "device": device,
        "mounted": mounted,
        "type": kind,
        "options": options,
        "block_bytes": os.statvfs(real).f_bsize,
        "free_bytes": shutil.disk_usage(real).free,
    }


def load() -> tuple[float, float, float]:
    """Return the load averages of the last 1, 5 and 15 minutes."""
    one, five, fifteen = os.getloadavg()
    return round(one, 2), round(five, 2), round(fifteen, 2)


def _field(path: Path, name: str) -> str:
    """Return the first value of a name in a file of ``name : value`` lines, or ''."""
    for line in path.read_text("utf-8", "replace").splitlines():
        key, _, value = line.partition(":")
        if key.strip() == name:
            return value.strip()
    return ""


def seconds(pids: Mapping[str, int]) -> dict[str, float]:
    """Return the CPU seconds (user and system) of each program and its descendants.

    Descendants that exited count once their parent has collected them.
    """
    there = present()
    found = dict.fromkeys(pids, 0.0)
    names = {pid: name for name, pid in pids.items()}
    for pid, process in there.items():
        ancestor = pid
        while ancestor not in names and ancestor in there:
            ancestor = there[ancestor].parent
        if ancestor in names:
            found[names[ancestor]] += process.cpu_seconds
    return found


def between(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float]:
    """Return the CPU seconds used between two samples, for programs present in both."""
    return {
        name: round(max(0.0, after[name] - used), 3)
        for name, used in before.items()
        if name in after
    }


TICKS = os.sysconf("SC_CLK_TCK")
"""Ticks per second; the resolution of CPU times (proc_pid_stat(5))."""


@dataclasses.dataclass(frozen=True)
class Process:
    """A process as /proc describes it.

    Attributes:
        ended: True for a zombie.
        cpu_seconds: user and system time, including collected children.
    """

    parent: int
    ended: bool
    cpu_seconds: float


def present() -> dict[int, Process]:
    """Return all current processes by PID."""
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        found[int(entry.name)] = Process(
            int(fields[1]), fields[0] in "ZX", sum(map(int, fields[11:15])) / TICKS
        )
    return found


def family(pids: Iterable[int], there: Mapping[int, Process]) -> set[int]:
    """Return the live PIDs and their descendants."""
    found = {pid for pid in pids if pid in there}
    while more := {pid for pid, each in there.items() if each.parent in found} - found:
        found |= more
    return found
