"""The kernel's report about a process of this host."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

FROZEN = frozenset("Tt")
_ENDED = frozenset("ZX")
CGROUPS = Path("/sys/fs/cgroup")


def state_of(pid: int) -> str:
    """Return the letter of a process's state (proc_pid_stat(5)).

    Empty if there is no such process, or if it is a zombie.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""
    letter = stat.rpartition(")")[2].split()[0]
    return "" if letter in _ENDED else letter


def command_line(pid: int) -> bytes:
    """Return the arguments of a process, each ended by a zero byte; b"" if it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""


def children_of(pid: int) -> list[int]:
    """Return the children of a process's first thread, the oldest first; none if it is gone."""
    try:
        return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []


def is_stopped(pid: int) -> bool:
    """Return True if a process runs no instruction: stopped by a signal, or in a frozen cgroup."""
    return state_of(pid) in FROZEN or _is_in_frozen_cgroup(pid)


def _is_in_frozen_cgroup(pid: int) -> bool:
    for path in _freezer_files(pid):
        with contextlib.suppress(OSError):
            lines = path.read_text().splitlines()
            if "frozen 1" in lines or "FROZEN" in lines:
                return True
    return False


def _freezer_files(pid: int) -> Iterator[Path]:
    """Yield the files that tell if the cgroups of a process are frozen: cgroups(7).

    Those of version 2 are below the root, or below ``unified`` where version 1 is in use as well.
    """
    try:
        lines = Path(f"/proc/{pid}/cgroup").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return
    for line in lines:
        _number, controllers, name = line.split(":", 2)
        folder = name.lstrip("/")
        if not controllers:
            yield CGROUPS / folder / "cgroup.events"
            yield CGROUPS / "unified" / folder / "cgroup.events"
        elif "freezer" in controllers.split(","):
            yield CGROUPS / "freezer" / folder / "freezer.state"


def birth_of(pid: int) -> str:
    """Return the start time of a process as the kernel counts; empty if it is gone or a zombie.

    It distinguishes the process from a later one with the same PID.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""
    fields = stat.rpartition(")")[2].split()
    return "" if fields[0] in _ENDED else fields[19]


def leads_terminal(pid: int) -> bool:
    """Return True if a process leads a session with a terminal, like a user's shell."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    fields = stat.rpartition(")")[2].split()
    return int(fields[3]) == pid and fields[4] != "0"
