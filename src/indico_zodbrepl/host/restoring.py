"""Backups of nodes on this host, and how a restored database takes the place of the data."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from indico_zodbrepl.cluster import Cluster
from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.cluster.lookup import node_named
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host import backup_retention
from indico_zodbrepl.host.backup import (
    Backup,
    Made,
    Newer,
    Replaced,
    Staged,
    Swapped,
    Tell,
    keeper_of,
    staged_folder,
)
from indico_zodbrepl.host.backup_retention import Series
from indico_zodbrepl.host.replacing import move


class LocalBackups:
    """See ``data_interface.Backups``."""

    def __init__(self, cluster: Cluster, installation: Installation) -> None:
        self._cluster = cluster
        self._keeper = keeper_of(cluster, installation)

    def size(self, name: str) -> int:
        node = node_named(self._cluster, name)
        path = self._keeper.database(node)
        try:
            return path.stat().st_size
        except OSError as error:
            raise OperatorError(
                f"node {name} has no data that can be backed up",
                f"{path}: {error.strerror}",
                Commands.here(self._cluster).zodbrepl("status"),
                ExitCode.REFUSED,
            ) from error

    def back_up(self, name: str, folder: Path, tell: Tell, *, full: bool) -> Made:
        return self._keeper.back_up(node_named(self._cluster, name), folder, tell, full=full)

    def inspect(self, folder: Path, at: str | None, tell: Tell) -> Backup:
        return self._keeper.inspect(folder, at, tell)

    def series(self, folder: Path) -> list[Series]:
        return self._keeper.series(folder)

    def remove_series(self, folder: Path, wanted: Sequence[Series], verified: str) -> None:
        backup_retention.remove(self._keeper, folder, wanted, verified)

    def newer(self, name: str, tid: str) -> Newer | None:
        return self._keeper.newer(node_named(self._cluster, name), tid)

    def holders(self, name: str) -> list[int]:
        return self._keeper.holders(node_named(self._cluster, name))

    def stage(self, name: str, folder: Path, backup: str, tell: Tell) -> Staged:
        return self._keeper.stage(node_named(self._cluster, name), folder, backup, tell)

    def unstage(self, name: str) -> None:
        shutil.rmtree(staged_folder(node_named(self._cluster, name)), ignore_errors=True)

    def export_replaced(self, name: str, folder: Path) -> Replaced:
        node = node_named(self._cluster, name)
        folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if folder.is_dir():
            folder.rename(_free_name(folder))
        with self._keeper.held(node):
            before = self._keeper.fingerprint(node)
            return Replaced(before, self._keeper.tail(node, folder))

    def swapped(self, name: str, kept: Path) -> Swapped:
        node = node_named(self._cluster, name)
        database, staged = self._keeper.database(node), staged_folder(node).exists()
        there = (kept / database.relative_to(node.data_directory)).exists()
        return Swapped(
            untouched=staged and not kept.exists(),
            done=not staged and database.exists(),
            kept_in=kept if there else None,
        )

    def swap(self, name: str, kept: Path, fingerprint: object) -> Swapped:
        node, keeper = node_named(self._cluster, name), self._keeper
        present, new = keeper.database(node), staged_folder(node)
        try:
            if (new / present.relative_to(node.data_directory)).exists():
                with keeper.held(node):
                    # A folder for the old data means that they are being moved already.
                    if not kept.exists() and keeper.fingerprint(node) != fingerprint:
                        raise _changed(name)
                    # A file that the new data no longer has is already in its place.
                    old = [
                        each for each in keeper.names if present.exists() or (new / each).exists()
                    ]
                    move(node.data_directory, kept, (*keeper.beside, *old))
                    move(new, node.data_directory, keeper.names)
            if not present.exists():
                raise OperatorError(
                    f"the restored database of {name} is gone",
                    str(new),
                    Commands.here(self._cluster).zodbrepl("restore", name),
                    ExitCode.REFUSED,
                )
            if new.exists():
                shutil.rmtree(new)
        except OSError as error:
            raise OperatorError(
                f"the database can't be put in its place: {error.strerror}", str(error.filename)
            ) from error
        return self.swapped(name, kept)


def _changed(name: str) -> OperatorError:
    return OperatorError(
        f"the data of {name} changed since they were exported",
        "somebody has written to them",
        "see who that is, then restore again",
        ExitCode.REFUSED,
    )


def _free_name(folder: Path) -> Path:
    """Return a free name for what an interrupted restore exported; no export is removed."""
    number = 1
    while (found := folder.with_name(f"{folder.name}.{number}")).exists():
        number += 1
    return found
