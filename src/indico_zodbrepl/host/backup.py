"""Backups of a node's database, and the backup driver of each storage."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import fcntl
import importlib
import math
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from indico_zodbrepl.backends import backend_of
from indico_zodbrepl.cluster import Cluster, Node
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host.datafs_answers import Progress
from indico_zodbrepl.probing.waiting import wait_until

if TYPE_CHECKING:
    from indico_zodbrepl.host.backup_retention import Series
    from indico_zodbrepl.host.node_files import NodeFile
    from indico_zodbrepl.host.remote_copy import Source

Tell = Callable[[Progress], None]
RESTORED = "restore"
"""Folder in a node's data directory in which a backup is restored."""


@dataclasses.dataclass(frozen=True)
class BackupFolder:
    """A folder of backups.

    Attributes:
        host: that has it; empty without host sections.
        path: absolute.
    """

    host: str
    path: Path

    def __str__(self) -> str:
        return f"{self.host}:{self.path}" if self.host else str(self.path)


@dataclasses.dataclass(frozen=True)
class Made:
    """The result of a backup.

    Attributes:
        kind: ``full``, ``incremental``, or ``none`` if there was nothing new.
        name: of the file or folder that was added.
        bytes: of that.
        whole: bytes of the database after a restore.
        tid, time: the last transaction in it, 16 hex digits, and its time, ISO 8601 in UTC.
        removed: files left by an interrupted backup.
        blobs, blob_bytes: uploaded files of the new transactions, and their bytes.
    """

    kind: str
    name: str
    bytes: int
    whole: int
    tid: str
    time: str
    seconds: float
    removed: tuple[str, ...] = ()
    blobs: int = 0
    blob_bytes: int = 0


@dataclasses.dataclass(frozen=True)
class Backup:
    """A backup and its problems.

    Attributes:
        name: of its newest file or folder.
        made: when, ISO 8601 in UTC.
        pieces: files or folders that it consists of.
        bytes: of the database after a restore.
        problems: one line each.
        tid, time: its last transaction, 16 hex digits, and its time; None if damaged.
        blobs, blob_bytes: uploaded files after a restore, and their bytes.
    """

    name: str
    made: str
    pieces: int
    bytes: int
    problems: tuple[str, ...]
    tid: str | None
    time: str | None
    blobs: int = 0
    blob_bytes: int = 0


@dataclasses.dataclass(frozen=True)
class Staged:
    """A database that was restored from a backup, but not yet put in place."""

    bytes: int
    tid: str
    time: str
    transactions: int
    blobs: int = 0
    blob_bytes: int = 0


@dataclasses.dataclass(frozen=True)
class Newer:
    """The transactions of a node's present data after a given one.

    Attributes:
        transactions: how many; for damaged data, those before the damage.
        last, time: the last readable transaction; None if there is none.
        told: the newest few, each with its time, user and description.
        damage: one line; empty if none was found.
        size: bytes.
        unseen: bytes after the damage.
    """

    transactions: int
    last: str | None
    time: str | None
    told: tuple[str, ...]
    damage: str
    size: int
    unseen: int


@dataclasses.dataclass(frozen=True)
class Tail:
    """The transactions that only the replaced data have.

    Attributes:
        transactions: how many were exported.
        folder: of the export; None if there were none.
        damage: why some may be missing; empty if all were exported.
        unread: bytes of damaged data that could not be read.
        common: the newest common transaction; None if there is none, or if it is unknown.
    """

    transactions: int
    folder: Path | None
    damage: str
    unread: int
    common: str | None


@dataclasses.dataclass(frozen=True)
class Replaced:
    """The data that a restore will replace, and what was exported from them.

    Attributes:
        fingerprint: changes whenever the data do.
    """

    fingerprint: str
    tail: Tail


@dataclasses.dataclass(frozen=True)
class Swapped:
    """How far a restored database has taken the place of the old data.

    Attributes:
        untouched: it is complete beside them, and nothing was moved.
        done: it is in its place.
        kept_in: the folder with the old database; None if there is none.
    """

    untouched: bool
    done: bool
    kept_in: Path | None


class Keeper(Protocol):
    """A backup driver: backs up and restores one kind of database.

    All methods raise OperatorError: exit 8 if data are damaged, in use or in the way.  An
    interrupted call can be repeated.
    """

    names: tuple[str, ...]
    """Files in the data directory that are moved when data are replaced; the database last."""
    beside: tuple[str, ...]
    """Files that belong to the old data only."""

    def database(self, node: Node) -> Path:
        """Return the file with the objects."""

    def back_up(self, node: Node, folder: Path, tell: Tell, *, full: bool) -> Made:
        """Back up what a folder lacks; processes with the database open continue."""

    def back_up_from(self, source: Source, folder: Path, tell: Tell, *, full: bool) -> Made:
        """Back up what a folder of this host lacks of a node of another host.

        What an interrupted call received is verified and continued.
        """

    def files(self, folder: Path, name: str) -> list[NodeFile]:
        """Return the files of the backup that ends with ``name``, for a copy to another host."""

    def inspect(self, folder: Path, at: str | None, tell: Tell) -> Backup:
        """Return the newest backup, or the newest up to a given time; read all of it.

        Args:
            at: ``YYYY-MM-DD-HH-MM-SS`` in UTC.
        """

    def series(self, folder: Path) -> list[Series]:
        """Return the series in a folder, oldest first; none if there is no such folder."""

    def remove_series(self, folder: Path, series: Series) -> None:
        """Remove a series.  Raises OSError."""

    def stage(self, node: Node, folder: Path, name: str, tell: Tell) -> Staged:
        """Restore the backup that ends with ``name`` to a verified database in ``RESTORED``."""

    def newer(self, node: Node, tid: str) -> Newer | None:
        """Return what the present data have after a transaction; None if there are no data."""

    def tail(self, node: Node, folder: Path) -> Tail:
        """Export what the present data have and the staged ones lack, to a new folder."""

    def holders(self, node: Node) -> list[int]:
        """Return the local processes that may write to the current data; 0 for an unknown one."""

    def fingerprint(self, node: Node) -> str:
        """Return a text that changes with the present data; empty if there are none."""

    def held(self, node: Node) -> contextlib.AbstractContextManager[None]:
        """Keep other processes from opening the present data, as far as that is possible."""


def keeper_of(cluster: Cluster, installation: Installation) -> Keeper:
    """Return the backup driver of a cluster whose backend supports backups."""
    driver = backend_of(cluster).backup_driver
    if not driver:
        raise OperatorError(
            f"the backend {cluster.backend} has nothing to back up here", exit_code=ExitCode.REFUSED
        )
    module = importlib.import_module(f"{__package__}.backup_{driver}")  # it imports this one
    keeper: Keeper = module.keeper(cluster, installation)
    return keeper


def folder_named(cluster: Cluster, text: str | Path) -> BackupFolder:
    """Return the folder that an operator named: ``HOST:FOLDER``, or ``FOLDER`` on this host.

    What precedes the first colon is a host only if the cluster has one of that name.
    """
    host, colon, path = str(text).partition(":")
    if colon and any(each.name == host for each in cluster.hosts):
        return BackupFolder(host, Path(os.path.normpath(path)))
    return BackupFolder(cluster.here or "", Path(os.path.abspath(text)))


def moment(text: str) -> str:
    """Return a typed time (ISO 8601; UTC without an offset) in the form of backup names.

    Raises ValueError.
    """
    found = datetime.datetime.fromisoformat(text)
    if found.tzinfo is not None:
        try:
            found = found.astimezone(datetime.UTC)
        except OverflowError as error:
            raise ValueError(f"{error}") from error
    return found.strftime("%Y-%m-%d-%H-%M-%S")


def iso(name: str) -> str:
    """Return the time in the name of a backup, as ISO 8601."""
    parts = name.partition(".")[0].split("-")
    return f"{'-'.join(parts[:3])}T{':'.join(parts[3:])}Z"


def staged_folder(node: Node) -> Path:
    """Return the folder in which a backup is restored."""
    return node.data_directory / RESTORED


def writers(paths: tuple[Path, ...]) -> list[int]:
    """Return the processes of this user that have one of these files open for writing."""
    wanted = set()
    for path in paths:
        with contextlib.suppress(OSError):
            found = path.stat()
            wanted.add((found.st_dev, found.st_ino))
    return sorted({pid for pid, identity in _open_for_writing() if identity in wanted})


def _open_for_writing() -> Iterator[tuple[int, tuple[int, int]]]:
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            for descriptor in (process / "fd").iterdir():
                with contextlib.suppress(OSError):
                    found = descriptor.stat()
                    # The link's own mode says how the file was opened.
                    if descriptor.lstat().st_mode & 0o200:
                        yield int(process.name), (found.st_dev, found.st_ino)


NAMED = re.compile(r"\d{4}(-\d\d){5}")


@contextlib.contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Hold a folder's lock; a read-only medium needs none."""
    try:
        lock = os.fdopen(os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600), "a")
    except OSError:
        yield
        return
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise OperatorError(
                f"another backup or restore works in {folder}", exit_code=ExitCode.REFUSED
            ) from None
        yield


def folders(folder: Path, at: str | None) -> list[Path]:
    """Return the backups in a folder, oldest first; with ``at`` only those up to that time.

    Raises OperatorError (exit 8) if there is no such folder.
    """
    try:
        names = sorted(each.name for each in folder.iterdir() if NAMED.fullmatch(each.name))
    except OSError as error:
        raise failure("there is no backup to restore", error) from error
    return [folder / name for name in names if at is None or name <= at]


def remove_unfinished(folder: Path) -> tuple[str, ...]:
    """Remove what interrupted backups left; return the names.  Raises OSError."""
    left = [each for each in folder.glob("*.part") if NAMED.fullmatch(each.stem)]
    for each in left:
        shutil.rmtree(each)
    return tuple(each.stem for each in left)


def new_name(newest: list[Path]) -> str:
    """Return a name for a backup made now; OperatorError if the newest one is from the future."""

    def free() -> str:
        name = time.strftime("%Y-%m-%d-%H-%M-%S", time.gmtime())
        if not newest or newest[-1].name < name:
            return name
        if newest[-1].name > name:
            raise OperatorError(
                "the newest backup is of the future",
                newest[-1].name,
                "is the clock wrong?",
                ExitCode.REFUSED,
            )
        return ""  # there is one of this second

    return wait_until(free, math.inf)


def failure(what: str, error: Exception) -> OperatorError:
    """Return the OperatorError (exit 8) for an error of the system or of SQLite."""
    detail = f"{error.filename}: {error.strerror}" if isinstance(error, OSError) else str(error)
    return OperatorError(what, detail, exit_code=ExitCode.REFUSED)
