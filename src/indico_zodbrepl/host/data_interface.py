"""The part of the host interface that concerns a node's data: read it, export it, replace it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from indico_zodbrepl.errors import OperatorError
    from indico_zodbrepl.host.backup import (
        Backup,
        BackupFolder,
        Made,
        Newer,
        Replaced,
        Staged,
        Swapped,
    )
    from indico_zodbrepl.host.backup_retention import Series
    from indico_zodbrepl.host.data_end import DataEnd
    from indico_zodbrepl.host.datafs_answers import (
        BlobAudit,
        Comparison,
        Copy,
        DataFile,
        Export,
        Last,
        Progress,
        Truncation,
    )
    from indico_zodbrepl.host.fencing import Held
    from indico_zodbrepl.host.node_files import NodeFile, Origin
    from indico_zodbrepl.host.packing import Packed
    from indico_zodbrepl.host.replacing import StagedCopy
    from indico_zodbrepl.host.sql_export import Divergent
    from indico_zodbrepl.host.statistics import Kept, Source
    from indico_zodbrepl.host.statistics import Progress as Walked
    from indico_zodbrepl.host.verifying import Verified

Report = Callable[["Progress"], None]


class DataHost(Protocol):
    """The data of the nodes of one cluster.

    ``name`` is always the name of a node.  All methods raise OperatorError.
    """

    # What there is

    def has_folder(self, name: str) -> bool:
        """Return True if the node's data directory can be seen."""

    def has_data(self, name: str) -> bool:
        """Return True if the node's data can be seen and is not empty."""

    def data_file(self, name: str) -> DataFile | None:
        """Return what the file system knows of the node's data file; None if it is missing."""

    def data_end(self, name: str) -> DataEnd | None:
        """Return the end of the node's data file; None if it is unknown."""

    def check_readable(self, name: str) -> None:
        """Raise OperatorError if the node's data file can't be opened."""

    def blob_bytes(self, name: str) -> int:
        """Return the size of the node's blobs."""

    def audit_blobs(self, name: str) -> BlobAudit | None:
        """Return which files of the node's blobs are missing or left over; read all of its data.

        None if it has no data file.
        """

    def lock(self, name: str) -> Held | None:
        """Return who has the node's data file open; None if it has no lock file."""

    def half_packed(self, name: str) -> OperatorError | None:
        """Return why a node without a data file can't be started or restored: the copy from before
        an unfinished pack is beside it.  None if there is no such copy.
        """

    # Data files

    def last_transaction(self, name: str) -> Last:
        """Return the last transaction of the node's data file."""

    def digest(self, name: str, tid: str) -> str:
        """Return the digest of a transaction in the node's data file."""

    def compare(
        self,
        name: str,
        upstream: str,
        verified: str | None = None,
        *,
        seconds: float = ...,
        fork: str | None = None,
        damaged: bool = ...,
    ) -> Comparison:
        """Compare the data files of two nodes; see ``datafs.compare``."""

    def compare_new(self, name: str, upstream: str, *, full: bool = False) -> Comparison:
        """Compare two data files from the last verified transaction on, or completely."""

    def export(self, name: str, after: str, folder: Path, *, damaged: bool = ...) -> Export:
        """Export the node's transactions after ``after``; see ``datafs.export``."""

    def truncate(self, name: str, after: str, keep: Path, *, dry_run: bool = False) -> Truncation:
        """Remove the node's transactions after ``after``; see ``datafs.truncate``."""

    def export_divergent(
        self, name: str, upstream: str, folder: Path, *, seconds: float
    ) -> Divergent:
        """Export what only a stopped database server has; see ``sql_export.export_divergent``."""

    def pack(
        self, name: str, conf: Path, days: float, on_progress: Callable[[float], None]
    ) -> Packed:
        """Pack the storage of a ZODB configuration; see ``packing.pack``.

        Args:
            name: of the node with the storage; empty for that of the whole cluster.
        """

    def verify(self, name: str, primary: str) -> Verified | None:
        """Compare what a follower got since it was last compared; see ``verifying.verify``."""

    # Read by a copy on another host

    def origin(self, name: str) -> Origin:
        """Return the node's data file as the origin of a copy."""

    def block_digests(self, name: str, identity: str, begin: int, end: int) -> list[str]:
        """Return digests of parts of the node's data file; see ``node_files.block_digests``."""

    def blobs(self, name: str) -> list[NodeFile]:
        """Return the node's committed blobs."""

    # The whole database

    def database(self, name: str | None) -> Source:
        """Return where to read the node's copy of the database; None: where Indico reads it."""

    def statistics(
        self,
        where: Source,
        top: int,
        *,
        history: bool = True,
        on_progress: Callable[[Walked], None] | None = None,
    ) -> dict[str, Any]:
        """Read a whole database and return its figures; see ``statistics.statistics``."""

    def keep_statistics(self, kept: Kept) -> None:
        """Replace the statistics that the admin page shows."""

    # Replace the data; the old data is kept

    def aside(self, name: str, why: str, now: float) -> Path:
        """Return a free folder for the node's old data.

        Args:
            why: the operation, for the name of the folder.
        """

    def has_aside(self, name: str, folder: Path) -> bool:
        """Return True if the folder for the node's old data was made."""

    def put_aside(self, name: str, folder: Path) -> None:
        """Rename the data of a node's database server, unless that has been done."""

    def staged_copy(self, name: str) -> StagedCopy:
        """Return the copy in the node's data directory that is not in its place."""

    def stage_copy(self, name: str, source: str, on_progress: Report, *, seconds: float) -> Copy:
        """Copy another node's data beside the node's; an interrupted copy continues."""

    def swap_copy(self, name: str, aside: Path) -> bool:
        """Put the copy in its place, and old data in a folder; return False if there was none."""

    def backups(self) -> Backups:
        """Return the backups of the cluster's storage."""


class Backups(Protocol):
    """Backups and restores.

    ``name`` is the name of a node.  All raise OperatorError: exit 8 where data are damaged, in use
    or in the way.  An interrupted call can be made again.
    """

    def size(self, name: str) -> int:
        """Return the bytes of the node's database."""

    def check_folder(self, folder: BackupFolder, *, writable: bool = False) -> None:
        """Raise OperatorError (exit 8) if a folder has other contents than the cluster's backups.

        Args:
            writable: also if no backup can be written to it.
        """

    def make_folder(self, folder: BackupFolder) -> None:
        """Create a folder of backups with its mark, unless it is there."""

    def back_up(self, name: str, folder: BackupFolder, tell: Report, *, full: bool) -> Made:
        """Back up what a folder lacks; processes with the database open continue."""

    def files(self, folder: BackupFolder, backup: str) -> list[NodeFile]:
        """Return the files of the backup that ends with the piece ``backup``."""

    def inspect(self, folder: BackupFolder, at: str | None, tell: Report) -> Backup:
        """Return the newest backup, or the newest not after a moment; see ``Keeper.inspect``."""

    def series(self, folder: BackupFolder) -> list[Series]:
        """Return the series of backups in a folder, oldest first."""

    def remove_series(self, folder: BackupFolder, wanted: Sequence[Series], verified: str) -> None:
        """Remove series of backups, never the newest; see ``backup_retention.remove``."""

    def newer(self, name: str, tid: str) -> Newer | None:
        """Return what the present data have after a transaction; None when there are no data."""

    def holders(self, name: str) -> list[int]:
        """Return the node's processes that may write to its data; 0 for an unknown one."""

    def stage(self, name: str, folder: BackupFolder, backup: str, tell: Report) -> Staged:
        """Make a verified database of a backup beside the node's data.

        A backup on another host is copied first; an interrupted copy continues.
        """

    def unstage(self, name: str) -> None:
        """Remove the database that ``stage`` made."""

    def export_replaced(self, name: str, folder: Path) -> Replaced:
        """Export what the present data have and the staged ones lack; nobody opens them meanwhile.

        An earlier export in the folder is renamed.
        """

    def swapped(self, name: str, kept: Path) -> Swapped:
        """Return how far ``swap`` has come."""

    def swap(self, name: str, kept: Path, fingerprint: object) -> Swapped:
        """Put the staged database in its place, and the old data in a folder.

        Args:
            fingerprint: what the old data had when they were exported.
        """
