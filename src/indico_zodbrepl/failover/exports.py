"""Exported tails in VAR/lost-tails: whether one has what a node would lose now."""

from __future__ import annotations

import json
import os
from pathlib import Path

from ..cluster import Cluster, Node
from ..cluster.installation import Installation
from ..cluster.layout import Layout, data_fs
from ..errors import OperatorError
from ..node import datafs


def exported_before(cluster: Cluster, installation: Installation, node: Node,
                    after: str) -> Path | None:
    """The newest folder that has all that a node's file holds after a transaction.

    A failover exports what only the old primary has; a rejoin need not do it again.
    """
    folders = sorted(Layout(cluster).lost_tails.glob(f"{node.name}-*/tail.json"), reverse=True,
                     key=lambda path: path.stat().st_mtime)
    return next((path.parent for path in folders
                 if covers(installation, node, path.parent, after)), None)


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
