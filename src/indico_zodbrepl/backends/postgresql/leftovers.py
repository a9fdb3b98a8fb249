"""What a server that was killed left behind, or is leaving."""

from __future__ import annotations

import os
import time
from pathlib import Path

from ...cluster import Node
from ...errors import ExitCode, OperatorError
from ...probing.process_state import state_of
from . import names

POSTMASTER_PID = "postmaster.pid"
GONE_SECONDS = 15.0
POLL_SECONDS = 0.05


def processes(node: Node) -> list[int]:
    """The live processes of a node's server: all that work in its data folder."""
    return [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc")))
            if pid != os.getpid() and _works_in(pid, names.data_folder(node))]


def clear(node: Node) -> None:
    """Wait until what a killed server left has ended, and drop its lock file.

    The lock file names a process by its number, which another process may have by now, as after
    a restart of the machine; the server would take that one for itself.

    Raises:
        OperatorError: exit 8, processes of the server are there to stay.
    """
    deadline = time.monotonic() + GONE_SECONDS
    while found := processes(node):
        if time.monotonic() > deadline:
            pids = " ".join(map(str, sorted(found)))
            raise OperatorError(
                f"a server of node {node.name} is there already",
                f"processes {pids} work in {names.data_folder(node)}",
                f"if nobody needs it: kill {pids}; one that is frozen: kill -9 {pids}",
                ExitCode.REFUSED)
        time.sleep(POLL_SECONDS)
    (names.data_folder(node) / POSTMASTER_PID).unlink(missing_ok=True)


def _works_in(pid: int, folder: Path) -> bool:
    try:
        directory = os.readlink(f"/proc/{pid}/cwd")
    except (FileNotFoundError, PermissionError, ProcessLookupError):
        return False
    return Path(directory) == folder.resolve() and bool(state_of(pid))
