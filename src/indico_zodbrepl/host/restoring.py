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
from indico_zodbrepl.host import backup_folder, backup_retention, confirmed_commits
from indico_zodbrepl.host.backup import (
    Backup,
    BackupFolder,
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
from indico_zodbrepl.host.node_files import NodeFile, blobs_in
from indico_zodbrepl.host.replacing import move

COPIED = "backup"
"""Folder beside a staged database to which a backup is copied from another host."""


class LocalBackups:
    """See ``data_interface.Backups``."""

    def __init__(self, cluster: Cluster, installation: Installation) -> None:
        self._cluster = cluster
        self._keeper = keeper_of(cluster, installation)

    def size(self, name: str) -> int:
        node = node_named(self._cluster, name)
        path = self._keeper.database(node)
        try:
            blobs = sum(each.bytes for each in blobs_in(node.data_directory))
            return path.stat().st_size + blobs
        except OSError as error:
            raise OperatorError(
                f"node {name} has no data that can be backed up",
                f"{path}: {error.strerror}",
                Commands.here(self._cluster).zodbrepl("status"),
                ExitCode.REFUSED,
            ) from error

    def check_folder(self, folder: BackupFolder, *, writable: bool = False) -> None:
        path = self._path(folder)
        backup_folder.refuse_another(self._cluster, path)
        if writable:
            backup_folder.refuse_unfit(path)

    def make_folder(self, folder: BackupFolder) -> None:
        backup_folder.make(self._cluster, self._path(folder))

    def back_up(self, name: str, folder: BackupFolder, tell: Tell, *, full: bool) -> Made:
        node, path = node_named(self._cluster, name), self._path(folder)
        if self._cluster.is_here(node):
            return self._keeper.back_up(node, path, tell, full=full)
        from indico_zodbrepl.host.remote.node_data import NodeData  # noqa: PLC0415 - it needs more

        return self._keeper.back_up_from(NodeData(self._cluster, node), path, tell, full=full)

    def files(self, folder: BackupFolder, backup: str) -> list[NodeFile]:
        return self._keeper.files(self._path(folder), backup)

    def inspect(self, folder: BackupFolder, at: str | None, tell: Tell) -> Backup:
        return self._keeper.inspect(self._path(folder), at, tell)

    def series(self, folder: BackupFolder) -> list[Series]:
        return self._keeper.series(self._path(folder))

    def remove_series(self, folder: BackupFolder, wanted: Sequence[Series], verified: str) -> None:
        backup_retention.remove(self._keeper, self._path(folder), wanted, verified)

    def _path(self, folder: BackupFolder) -> Path:
        """Return the path of a folder of this host."""
        if folder.host not in ("", self._cluster.here):
            raise OperatorError(f"this is not host {folder.host}", exit_code=ExitCode.REFUSED)
        return folder.path

    def newer(self, name: str, tid: str) -> Newer | None:
        return self._keeper.newer(node_named(self._cluster, name), tid)

    def holders(self, name: str) -> list[int]:
        try:
            return self._keeper.holders(node_named(self._cluster, name))
        except OSError:
            return []

    def stage(self, name: str, folder: BackupFolder, backup: str, tell: Tell) -> Staged:
        node = node_named(self._cluster, name)
        if folder.host in ("", self._cluster.here):
            return self._keeper.stage(node, folder.path, backup, tell)
        from indico_zodbrepl.host.remote import backup_copy  # noqa: PLC0415 - it needs more

        copied = staged_folder(node) / COPIED
        backup_copy.copy(self._cluster, folder, backup, copied, tell)
        try:
            return self._keeper.stage(node, copied, backup, tell)
        finally:
            shutil.rmtree(copied, ignore_errors=True)

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
                    confirmed_commits.distrust(self._cluster, node, "it was restored from a backup")
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
