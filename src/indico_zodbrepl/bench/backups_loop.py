"""Backups made one after another, with what each of them told."""

from __future__ import annotations

import dataclasses
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..cluster import Node
from ..node.backups import Keeper, Made
from ..node.datafs_answers import Progress
from . import pinning


class Backups:
    """Backups of one node into folders of their own; only the newest one is kept.

    Args:
        folder: is made.
        full: whether each is a full one; else all but the first are incremental.
        cores: numbers of those that the program may use; () for all.
    """

    def __init__(self, keeper: Keeper, node: Node, folder: Path, *, full: bool,
                 cores: Sequence[int] = ()) -> None:
        self._keeper = keeper
        self._node = node
        self._folder = folder
        self._full = full
        self._cores = cores
        self._made: list[tuple[Made, float]] = []
        self._progress: list[dict[str, Any]] = []

    def begin(self) -> bool:
        """Make the full one that incremental ones go on from, which does not count, and say so."""
        if not self._full:
            self._folder.mkdir(mode=0o700)
            with pinning.on(self._cores):
                self._keeper.back_up(self._node, self._folder, lambda _: None, full=True)
        return not self._full

    def once(self) -> None:
        """Make one.  Raises OperatorError."""
        if self._full:
            # A new folder: in an old one it would wait for a second that has no backup yet.
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder.mkdir(mode=0o700)
        began = time.monotonic()

        def tell(progress: Progress) -> None:
            self._progress.append({"backup": len(self._made) + 1,
                                   "at": round(time.monotonic() - began, 3),
                                   **dataclasses.asdict(progress)})

        with pinning.on(self._cores):
            made = self._keeper.back_up(self._node, self._folder, tell, full=self._full)
        self._made.append((made, time.monotonic() - began))

    def during(self, seconds: float) -> None:
        """Make one after another until so many seconds are over, and the last one's end."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            self.once()

    def metrics(self) -> dict[str, float]:
        """Means of all: seconds of a backup, its size, and size in a second."""
        seconds = sum(took for _, took in self._made)
        size = sum(made.bytes for made, _ in self._made) / 1e6
        return {"backup_seconds": round(seconds / len(self._made), 3),
                "backup_mb": round(size / len(self._made), 3),
                "backup_mb_s": round(size / seconds, 3)}

    def details(self) -> dict[str, Any]:
        """Each backup, and all that was told of progress, for JSON."""
        return {"backups": [{"kind": made.kind, "bytes": made.bytes, "whole": made.whole,
                             "took": round(took, 3), "seconds": made.seconds}
                            for made, took in self._made],
                "progress": self._progress}
