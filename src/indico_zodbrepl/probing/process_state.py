"""What the kernel says a process of this host does."""

from __future__ import annotations

from pathlib import Path

FROZEN = frozenset("Tt")
_ENDED = frozenset("ZX")


def state_of(pid: int) -> str:
    """Return the letter of a process's state (proc_pid_stat(5)).

    Empty when there is no such process, also for one that has ended and only waits for its parent
    to notice.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""
    letter = stat.rpartition(")")[2].split()[0]
    return "" if letter in _ENDED else letter


def birth_of(pid: int) -> str:
    """When a process began, in the kernel's own count; empty when it is gone, or a zombie.

    With it another process that got the same number is told apart.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""
    fields = stat.rpartition(")")[2].split()
    return "" if fields[0] in _ENDED else fields[19]


def leads_terminal(pid: int) -> bool:
    """Return True if a process leads a session with a terminal, as the shell of a person does."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    fields = stat.rpartition(")")[2].split()
    return int(fields[3]) == pid and fields[4] != "0"
