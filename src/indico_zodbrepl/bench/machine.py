"""What is worth knowing of the machine that measured."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from pathlib import Path

CPUINFO = Path("/proc/cpuinfo")
MEMINFO = Path("/proc/meminfo")


def describe() -> Mapping[str, object]:
    """CPU, memory, system and the present load, for JSON."""
    return {"cpu": _field(CPUINFO, "model name") or platform.machine(),
            "cores": len(os.sched_getaffinity(0)),
            "memory": _field(MEMINFO, "MemTotal"),
            "system": platform.platform(),
            "python": platform.python_version(),
            "load_before": load()}


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
