"""The processes of this host, as /proc has them."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")
"""A second has so many; finer times than one tick can't be had (proc_pid_stat(5))."""


@dataclasses.dataclass(frozen=True)
class Process:
    """One of them.

    Attributes:
        ended: whether it only waits for its parent to notice.
        cpu_seconds: its own, user and system, and that of children that have ended.
    """

    parent: int
    ended: bool
    cpu_seconds: float


def present() -> dict[int, Process]:
    """All that there are now, by their ids."""
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        found[int(entry.name)] = Process(int(fields[1]), fields[0] in "ZX",
                                         sum(map(int, fields[11:15])) / TICKS)
    return found


def family(pids: Iterable[int], there: Mapping[int, Process]) -> set[int]:
    """Of the processes that are there those, and all their descendants."""
    found = {pid for pid in pids if pid in there}
    while more := {pid for pid, each in there.items() if each.parent in found} - found:
        found |= more
    return found
