"""How much CPU supervised programs use, with all processes that they start."""

from __future__ import annotations

from collections.abc import Mapping

from . import processes


def seconds(pids: Mapping[str, int]) -> dict[str, float]:
    """CPU seconds, user and system, of each program's process and its descendants so far.

    Those of descendants that have ended are in it as well, once their parent has noticed.
    """
    there = processes.present()
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
    """What was used between two looks; a program that was not there before or after is left out."""
    return {name: round(max(0.0, after[name] - used), 3) for name, used in before.items()
            if name in after}
