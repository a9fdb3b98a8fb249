"""What the kernel says a process of this host does."""

from __future__ import annotations

from pathlib import Path

FROZEN = frozenset("Tt")
_ENDED = frozenset("ZX")


def state_of(pid: int) -> str:
    """The letter of a process's state (proc_pid_stat(5)).

    Empty when there is no such process, also for one that has ended and only waits for its parent
    to notice.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""
    letter = stat.rpartition(")")[2].split()[0]
    return "" if letter in _ENDED else letter
