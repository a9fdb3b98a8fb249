"""The kernel's report about a process of this host."""

from __future__ import annotations

from pathlib import Path

FROZEN = frozenset("Tt")
_ENDED = frozenset("ZX")


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
