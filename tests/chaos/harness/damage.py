"""Files that are damaged while their host is off."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

STATES = ("state.json", "lineage.json", "synchronous.json")
"""Of a node's data directory."""


def tear_data(folder: Path, chance: random.Random) -> str:
    """Cut off the end of a node's data file, or write noise over it; return what was done.

    Args:
        folder: the node's data directory.
    """
    path = folder / "Data.fs"
    if not path.exists():
        return "no data file"
    size = path.stat().st_size
    count = min(chance.randrange(1, 5000), size)
    with path.open("r+b") as file:
        if chance.random() < 0.5:
            file.truncate(size - count)
            return f"cut {count} of {size} bytes off"
        file.seek(size - count)
        file.write(chance.randbytes(count))
        return f"wrote noise over the last {count} of {size} bytes"


def tear_state(folder: Path, var: Path, chance: random.Random) -> str:
    """Empty, cut or garble a small file with the state of a node or of its host.

    Args:
        var: the host's var-directory.
    """
    paths = [folder / name for name in STATES]
    paths += [var / "epoch.json", var / "leader.json", *sorted(var.glob("confirmed/*.json"))]
    path = chance.choice([each for each in paths if each.exists()] or [var / "none"])
    if not path.exists():
        return "no such file"
    content = path.read_bytes()
    damage = chance.choice(("emptied", "cut", "garbled"))
    if damage == "emptied":
        path.write_bytes(b"")
    elif damage == "cut":
        path.write_bytes(content[: len(content) // 2])
    else:
        path.write_bytes(chance.randbytes(len(content)))
    return f"{damage} {path.name}"


def lose_member(var: Path) -> str:
    """Remove the data of the host's etcd member."""
    shutil.rmtree(var / "etcd/member", ignore_errors=True)
    return "removed the data of etcd's member"
