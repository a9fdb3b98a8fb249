"""What each of NEO's storages has, by its own file: clients read each object from one of them."""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from neo_hosts import STORAGES, NeoHosts
from stage import Stage

NAME = "neo.sqlite"
SHOWN = 5
LOOKS = 3
DEFERRED_SECONDS = 2.0
"""Storages write what is committed to their files within a second."""
NEWEST = "SELECT oid, MAX(tid) FROM obj GROUP BY partition, oid"


def differences(stage: Stage) -> tuple[str, ...]:
    """Return the objects whose newest revisions differ, a line each; none on another backend.

    Clients may not write meanwhile.  Indico's scheduler may: so it looks again before it reports.
    """
    found: tuple[str, ...] = ()
    if not isinstance(stage.cluster, NeoHosts):
        return found
    for _ in range(LOOKS):
        time.sleep(DEFERRED_SECONDS)
        found = _differences(stage)
        if not found:
            break
    return found


def _differences(stage: Stage) -> tuple[str, ...]:
    with tempfile.TemporaryDirectory() as folder:
        copy(stage, Path(folder))
        try:
            has = {node: newest(Path(folder) / node / NAME) for node in STORAGES}
        except sqlite3.DatabaseError as error:
            # It was written to while it was copied, or is damaged.
            return (f"the copy of a storage's file can't be read: {error}",)
        return tuple(compared(has))


def copy(stage: Stage, target: Path) -> None:
    """Copy the files of all storages, a folder for each; on another backend nothing."""
    if not isinstance(stage.cluster, NeoHosts):
        return
    for node, host in STORAGES.items():
        (target / node).mkdir()
        for path in (stage.disks[host].content / node).glob(f"{NAME}*"):
            if not path.name.endswith("-shm"):
                shutil.copy(path, target / node)


def newest(path: Path) -> dict[int, int]:
    """Return the id of each object's newest transaction in a copy of a storage's file."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        return dict(connection.execute(NEWEST).fetchall())


def compared(found: Mapping[str, Mapping[int, int]]) -> Iterator[str]:
    """Yield a line for some of the objects that are not the same in all storages.  Pure."""
    objects = sorted(set().union(*found.values()))
    apart = [each for each in objects if len({has.get(each) for has in found.values()}) > 1]
    for each in apart[:SHOWN]:
        yield f"object {each:016x}: " + ", ".join(
            f"{node} has {has[each]:016x}" if each in has else f"{node} lacks it"
            for node, has in found.items()
        )
    if apart[SHOWN:]:
        yield f"{len(apart) - SHOWN} more objects differ"
