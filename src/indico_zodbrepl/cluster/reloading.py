"""The cluster file of a program that runs for long: read again when it has changed."""

from __future__ import annotations

import threading
from pathlib import Path

from indico_zodbrepl.cluster.loader import load
from indico_zodbrepl.cluster.model import Cluster


class ClusterFile:
    """The cluster as its file says now; read again when the file has changed.

    Any thread may call its methods.  ``load`` raises for a file that became invalid: a command that
    works with another idea of the cluster than its caller's could change the wrong node.
    """

    def __init__(self, path: Path, home: Path) -> None:
        self._path = path
        self._home = home
        self._lock = threading.Lock()
        self._known: tuple[tuple[int, int], Cluster] | None = None

    def last(self) -> Cluster:
        """Return the cluster as the file said when it was last valid.

        Raises OperatorError as ``load`` if it has never been.
        """
        with self._lock:
            known = self._known
        return known[1] if known else self.load()

    def load(self) -> Cluster:
        """Return the cluster.  Raises OperatorError as ``cluster.load``."""
        with self._lock:
            try:
                status = self._path.stat()
            except OSError:
                return load(self._path, self._home)  # which says what is wrong
            stamp = status.st_mtime_ns, status.st_ino
            if self._known is None or self._known[0] != stamp:
                self._known = stamp, load(self._path, self._home)
            return self._known[1]
