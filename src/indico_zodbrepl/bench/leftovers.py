"""Ends what a killed benchmark left: scratch folders note whose they are."""

from __future__ import annotations

import json
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from ..cluster import Cluster, load
from ..errors import OperatorError
from ..node import daemon, lifecycle
from ..probing.process_state import birth_of, leads_terminal, state_of

PREFIX = "zodbrepl-bench-"
CLUSTER_FILE = "cluster.conf"
OWNER = "owner.json"
DOWN_SECONDS = 60.0
KILL_SECONDS = 20.0
POLL_SECONDS = 0.05


def note_owner(folder: Path) -> None:
    """Note in a scratch folder that it is this process's."""
    (folder / OWNER).write_text(json.dumps({"pid": os.getpid(), "birth": birth_of(os.getpid())}))


def clear(parent: Path | None, home: Path, say: Callable[[str], None]) -> None:
    """End and remove the scratch clusters in a folder whose owners are dead; tell of each.

    Those of other users, and those of benchmarks that run, are left alone.

    Args:
        parent: None: the system's folder for temporary files.
        home: of the installation.

    Raises:
        OperatorError: exit 1, processes are left that do not end.
    """
    for folder in sorted((parent or Path(tempfile.gettempdir())).glob(f"{PREFIX}*")):
        if _is_abandoned(folder):
            say(f"ending what a killed benchmark left in {folder}")
            end(_cluster_of(folder, home), folder)


def end(cluster: Cluster | None, folder: Path) -> None:
    """End everything that works in a scratch folder, and remove it; may be repeated.

    What does not end in an orderly way is killed: nobody needs its data.

    Raises:
        OperatorError: exit 1, processes are left that do not end.
    """
    try:
        if cluster is not None and daemon.is_running(cluster):
            lifecycle.down(cluster, seconds=DOWN_SECONDS)
    except OperatorError:  # what it could not end is killed
        pass
    finally:
        _kill_all_in(folder)
        shutil.rmtree(folder, ignore_errors=True)


def _is_abandoned(folder: Path) -> bool:
    try:
        if folder.is_symlink() or folder.stat().st_uid != os.geteuid():
            return False
        owner = json.loads((folder / OWNER).read_text())
        return birth_of(int(owner["pid"])) != str(owner["birth"])
    except (OSError, ValueError, KeyError, TypeError):  # of another kind, or just being made
        return False


def _cluster_of(folder: Path, home: Path) -> Cluster | None:
    """None where there is none yet."""
    try:
        return load(folder / CLUSTER_FILE, home)
    except OperatorError:
        return None


def _kill_all_in(folder: Path) -> None:
    deadline = time.monotonic() + KILL_SECONDS
    while left := processes_in(folder):
        if time.monotonic() > deadline:
            raise OperatorError("processes of a scratch cluster do not end",
                                f"{', '.join(map(str, left))}, in {folder}",
                                f"kill -9 {' '.join(map(str, left))}")
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        time.sleep(POLL_SECONDS)


def processes_in(folder: Path) -> list[int]:
    """The processes that work in a folder, as all programs of a cluster do.

    Never this one, and no shell of somebody who looks into the folder.
    """
    inside = folder.resolve()
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == os.getpid():
            continue
        try:
            where = Path(os.readlink(f"/proc/{name}/cwd").removesuffix(" (deleted)"))
        except (FileNotFoundError, PermissionError, ProcessLookupError):
            continue
        if (where.is_relative_to(inside) and state_of(int(name))
                and not leads_terminal(int(name))):
            found.append(int(name))
    return found
