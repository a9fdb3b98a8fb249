"""Backups of a node's database: what is told of them, and who makes them for which storage."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

from ..backends import backend_of, sql_files_of
from ..cluster import Cluster, Node
from ..cluster.installation import Installation
from ..errors import ExitCode, OperatorError
from .datafs_answers import Progress

Tell = Callable[[Progress], None]
RESTORED = "restore"
"""Folder in a node's data directory where a backup becomes a database again."""


@dataclasses.dataclass(frozen=True)
class Made:
    """What a backup added to its folder.

    Attributes:
        kind: ``full``, ``incremental``, or ``none`` when nothing was new.
        name: of the file or folder that was added.
        bytes: of that.
        whole: bytes of the database that it can be made into.
        tid, time: the last transaction in it, 16 hex digits, and its moment, ISO 8601 in UTC.
        removed: what an interrupted backup had left.
    """

    kind: str
    name: str
    bytes: int
    whole: int
    tid: str
    time: str
    seconds: float
    removed: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Backup:
    """A backup, and whether it is whole.

    Attributes:
        name: of its newest file or folder.
        made: when, ISO 8601 in UTC.
        pieces: files or folders that it consists of.
        bytes: of the database that it makes.
        problems: what is wrong with it, a line each.
        tid, time: its last transaction, 16 hex digits, and its moment; None when damaged.
    """

    name: str
    made: str
    pieces: int
    bytes: int
    problems: tuple[str, ...]
    tid: str | None
    time: str | None


@dataclasses.dataclass(frozen=True)
class Staged:
    """A database that was made of a backup and has not taken its place yet."""

    bytes: int
    tid: str
    time: str
    transactions: int


@dataclasses.dataclass(frozen=True)
class Newer:
    """What a node's present data have that is newer than a transaction.

    Attributes:
        transactions: how many; of damaged data those before the damage.
        last, time: the last transaction that can be read; None when there is none.
        told: the newest few, each with its moment, user and description.
        damage: what is wrong with the data, one line; empty when nothing was found.
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
    """What only the data that were replaced have.

    Attributes:
        transactions: how many were exported.
        folder: where; None when there were none.
        damage: why perhaps not all were; empty when all were.
        unread: bytes of damaged data that nothing could be made of.
        common: the newest transaction that both have; None when there is none, or none is known.
    """

    transactions: int
    folder: Path | None
    damage: str
    unread: int
    common: str | None


class Keeper(Protocol):
    """Backs up and restores one kind of database.

    All raise OperatorError: exit 8 where data are damaged, in use or in the way.  An interrupted
    call can be made again.
    """

    names: tuple[str, ...]
    """What is moved when data are replaced, in the data directory; the database last."""
    beside: tuple[str, ...]
    """What belongs to the old data alone."""

    def database(self, node: Node) -> Path:
        """The file with the objects."""

    def back_up(self, node: Node, folder: Path, tell: Tell, *, full: bool) -> Made:
        """Add to a folder what it lacks; whoever has the database open goes on."""

    def inspect(self, folder: Path, at: str | None, tell: Tell) -> Backup:
        """The newest backup, or the newest not after a moment; reads all of it.

        Args:
            at: ``YYYY-MM-DD-HH-MM-SS`` in UTC.
        """

    def stage(self, node: Node, folder: Path, name: str, tell: Tell) -> Staged:
        """Make a database of the backup that ends with ``name``, in ``RESTORED``; verified."""

    def newer(self, node: Node, tid: str) -> Newer | None:
        """What the present data have after a transaction; None when there are no data."""

    def tail(self, node: Node, folder: Path) -> Tail:
        """Export what the present data have and the staged ones lack, to a new folder."""

    def holders(self, node: Node) -> list[int]:
        """Processes of this host that may write to the present data; 0 for one unknown."""

    def fingerprint(self, node: Node) -> str:
        """Changes whenever the present data do; empty when there are none."""

    def held(self, node: Node) -> contextlib.AbstractContextManager[None]:
        """Let nobody open the present data meanwhile, as far as that can be had."""


def keeper_of(cluster: Cluster, installation: Installation) -> Keeper:
    """Who backs up the database of a cluster that has no ``limit`` for it."""
    from .backup_datafs import DataFsKeeper  # noqa: PLC0415 - each imports this module
    from .backup_sqlite import SQLiteKeeper  # noqa: PLC0415

    files = sql_files_of(cluster)
    if files is not None:
        return SQLiteKeeper(cluster, installation, files)
    if not backend_of(cluster).data_files:
        raise OperatorError(f"the backend {cluster.backend} has nothing to back up here",
                            exit_code=ExitCode.REFUSED)
    return DataFsKeeper(installation)


def moment(text: str) -> str:
    """A time as it is typed (ISO 8601; UTC unless it says otherwise) as backups are named by.

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
    """The moment in the name of a backup, ISO 8601."""
    parts = name.partition(".")[0].split("-")
    return f"{'-'.join(parts[:3])}T{':'.join(parts[3:])}Z"


def staged_folder(node: Node) -> Path:
    """Where a backup becomes a database; it is removed once that has taken its place."""
    return node.data_directory / RESTORED


def writers(paths: tuple[Path, ...]) -> list[int]:
    """Processes that have one of these files open for writing, as far as this user may see."""
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
