"""Which process has a node's data file open as its server: FileStorage locks ``Data.fs.lock``."""

from __future__ import annotations

import dataclasses
import fcntl
import os
from pathlib import Path

from ..cluster import Node
from ..cluster.layout import data_fs


@dataclasses.dataclass(frozen=True)
class Held:
    """Who has a data file.

    Attributes:
        is_held: whether a process of this host has it open as its server.
        pid: that process, as it wrote it there; None when nobody has the file or that can't
            be told.
        is_node: that process works in the node's data directory, as its server does.
    """

    is_held: bool
    pid: int | None = None
    is_node: bool = False


def is_held(node: Node) -> bool:
    """Whether a process has the data file open as its server.  Raises OSError."""
    try:
        descriptor = os.open(path_of(node), os.O_RDWR)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def look(node: Node) -> Held:
    """Whether the data file is held, and by whom.  Raises OSError."""
    try:
        pid = int(path_of(node).read_text().split()[0])
    except (FileNotFoundError, ValueError, IndexError):
        return Held(is_held(node))
    if not is_held(node):
        return Held(is_held=False)
    return Held(True, pid, _works_in(pid, node.data_directory))


def path_of(node: Node) -> Path:
    """The lock; a server that ended leaves it there, free."""
    path = data_fs(node)
    return path.with_name(f"{path.name}.lock")


def _works_in(pid: int, folder: Path) -> bool:
    try:
        return Path(os.readlink(f"/proc/{pid}/cwd")).is_relative_to(folder.resolve())
    except (FileNotFoundError, ProcessLookupError):
        return True  # it has just gone; the lock goes with it
    except PermissionError:
        return False
