"""Exported tails in VAR/lost-tails: one is made, or has what a node would lose now."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

from ..cluster import Cluster, Node
from ..cluster.installation import Installation
from ..cluster.layout import Layout, data_fs
from ..errors import OperatorError
from ..node import datafs
from ..node.datafs import Export
from .steps import Figures


def exported_before(cluster: Cluster, installation: Installation, node: Node,
                    after: str) -> Path | None:
    """The newest folder that has all that a node's file holds after a transaction.

    A failover exports what only the old primary has; a rejoin need not do it again.
    """
    folders = sorted(Layout(cluster).lost_tails.glob(f"{node.name}-*/tail.json"), reverse=True,
                     key=lambda path: path.stat().st_mtime)
    return next((path.parent for path in folders
                 if covers(installation, node, path.parent, after)), None)


def export(installation: Installation, node: Node, after: str, folder: Path,
           say: Callable[[str], None]) -> tuple[Export, Figures]:
    """Export what a node's file has after a transaction; what is not in it is said.

    Returns what was done, and figures of what the export lacks, if it lacks anything.
    Raises OperatorError.
    """
    folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    done = datafs.export(installation, data_fs(node), after, folder)
    if not done.missing_blobs:
        return done, {}
    say(f"blob files that were not there, and are not in the export: {done.missing_blobs}")
    return done, {"missing_blobs": done.missing_blobs}


def covers(installation: Installation, node: Node, folder: Path, after: str) -> bool:
    """Whether a folder has exactly the transactions after one of a node's file.

    Their number, the first and the last one with their content; a file only grows at its end.
    False also when that can't be found out, as while a server has the file.
    """
    file = data_fs(node)
    try:
        kept = json.loads((folder / "tail.json").read_text("utf-8"))
        tids = [str(each["tid"]) for each in kept["transactions"]]
        if not tids or (kept["file"], kept["after"]) != (os.path.abspath(file), after):
            return False
        there = datafs.truncate(installation, file, after, folder, dry_run=True)
        return (there.transactions, there.first, there.last) == (
            len(tids), tids[0], tids[-1]) and all(
            datafs.digest(installation, file, tid)
            == datafs.digest(installation, folder / "tail.fs", tid) for tid in {tids[0], tids[-1]})
    except (OSError, ValueError, KeyError, TypeError, OperatorError):
        return False  # what is not shown to be there is exported
