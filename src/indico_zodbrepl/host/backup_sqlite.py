"""Backups of RelStorage's SQLite files, by SQLite's online backup."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from indico_zodbrepl.backends.sqlite import SQLite
from indico_zodbrepl.cluster import Cluster, Node
from indico_zodbrepl.cluster.files import sync_folder, write_atomically
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host import backup_program, backup_retention, sql_export
from indico_zodbrepl.host.backup import (
    Backup,
    Made,
    Newer,
    Staged,
    Tail,
    Tell,
    alone,
    failure,
    folders,
    iso,
    new_name,
    remove_unfinished,
    staged_folder,
    writers,
)
from indico_zodbrepl.host.backup_blobs import listed
from indico_zodbrepl.host.backup_program import Swept, Value
from indico_zodbrepl.host.backup_retention import Series
from indico_zodbrepl.host.datafs_answers import Progress
from indico_zodbrepl.host.node_files import BLOBS, NodeFile
from indico_zodbrepl.host.py27 import Argument, ProgramError
from indico_zodbrepl.host.remote_copy import Source
from indico_zodbrepl.host.sqlite_reads import check, count, opened, time_of, told

NOTE = "backup.json"
LIST = "files.list"
"""The list of the blobs of a backup; a backup of an earlier release has none."""
ATTEMPTS = 3
PAGES = 2000  # copied between two checks of the clock
BLOCK = 1 << 20


@dataclasses.dataclass(frozen=True)
class _Kept:
    """The blobs that a backup has, or that were restored from it, and their bytes."""

    blobs: int
    blob_bytes: int


@dataclasses.dataclass(frozen=True)
class _Checked:
    """The blobs of a backup, and what is wrong with them."""

    problems: tuple[str, ...]
    blobs: int = 0
    blob_bytes: int = 0


def keeper(cluster: Cluster, installation: Installation) -> SQLiteKeeper:
    """Return the backup driver of a cluster."""
    return SQLiteKeeper(cluster, installation)


class SQLiteKeeper:
    """Backups in folders of their own, named by their time, which appear when complete."""

    beside: tuple[str, ...] = ()

    def __init__(self, cluster: Cluster, installation: Installation) -> None:
        self._cluster = cluster
        self._installation = installation
        self._files = SQLite()
        self.names: tuple[str, ...] = (BLOBS, self._files.folder_name)

    def database(self, node: Node) -> Path:
        return node.data_directory / self._files.folder_name / self._files.file_names[0]

    def back_up(self, node: Node, folder: Path, tell: Tell, *, full: bool) -> Made:
        """Make a full backup; none if nothing is new since the newest one, unless ``full``."""
        begun, source = time.monotonic(), self.database(node).parent
        with alone(folder):
            removed = remove_unfinished(folder)
            last = self._last(source)
            newest = folders(folder, None)
            if newest and not full and self._note(newest[-1]).get("tid") == last:
                size = int(self._note(newest[-1])["bytes"])
                return Made("none", "", 0, size, last, time_of(last), 0.0, removed)
            name = new_name(newest)
            part = folder / f"{name}.part"
            part.mkdir(mode=0o700)
            kept = self._copy_all(node, folder, part, tell, full=full)
            last = self._last(part)
            sizes = {each: (part / each).stat().st_size for each in self._files.file_names}
            write_atomically(
                part / NOTE,
                json.dumps(
                    {
                        "format": 1,
                        "tid": last,
                        "bytes": sum(sizes.values()),
                        "sizes": sizes,
                        "sha256": {each: _sha256(part / each, None) for each in sizes},
                    }
                )
                + "\n",
                0o600,
            )
            part.rename(folder / name)
            sync_folder(folder)
        size = sum(sizes.values())
        return Made(
            "full",
            name,
            size,
            size,
            last,
            time_of(last),
            round(time.monotonic() - begun, 3),
            removed,
            kept.blobs,
            kept.blob_bytes,
        )

    def _copy_all(self, node: Node, folder: Path, part: Path, tell: Tell, *, full: bool) -> _Kept:
        """Copy the database, then its blobs; both again if a pack removed some meanwhile."""
        more = ["--full"] if full else []
        for attempt in range(1, ATTEMPTS + 1):
            try:
                for name in self._files.file_names:
                    (part / name).unlink(missing_ok=True)
                self._copy(self.database(node).parent, part, "copied", tell)
                problems = self._problems(part)
            except (OSError, sqlite3.Error) as error:
                raise failure("the database can't be backed up", error) from error
            if problems:
                raise OperatorError(
                    "the database is damaged; it was not backed up",
                    "\n".join(problems),
                    exit_code=ExitCode.REFUSED,
                )
            copy, blobs = part / self._files.file_names[0], node.data_directory / BLOBS
            try:
                return self._run(
                    _Kept, "keep-blobs", copy, blobs, folder, part / LIST, *more, tell=tell
                )
            except ProgramError as error:
                if error.status != backup_program.BLOB_LOST or attempt == ATTEMPTS:
                    raise
        raise AssertionError("unreachable")

    def back_up_from(self, _source: Source, folder: Path, _tell: Tell, *, full: bool) -> Made:  # noqa: ARG002
        raise OperatorError(
            "the database can't be backed up",
            f"{folder} is not on the node's host, and SQLite's backup works on one host only",
            "name a folder on the node's host: --to HOST:FOLDER",
            ExitCode.REFUSED,
        )

    def files(self, folder: Path, name: str) -> list[NodeFile]:
        names = [f"{name}/{each}" for each in (NOTE, *self._files.file_names)]
        if (folder / name / LIST).exists():
            names.append(f"{name}/{LIST}")
        blobs = listed(folder / name / LIST)
        try:
            found = [NodeFile(each, (folder / each).stat().st_size) for each in names]
        except OSError as error:
            raise failure("there is no backup to restore", error) from error
        return [*found, *(NodeFile(path, size) for path, size in blobs.items())]

    def inspect(self, folder: Path, at: str | None, tell: Tell) -> Backup:
        found = folders(folder, at)
        if not found:
            raise OperatorError(
                "there is no backup to restore",
                f"{folder} has none" + (f" that was made before {at} UTC" if at else ""),
                exit_code=ExitCode.REFUSED,
            )
        path, problems = found[-1], []
        note = self._note(path)
        total, done = int(note.get("bytes", 0)), 0
        for name in self._files.file_names:

            def count(size: int) -> None:
                nonlocal done
                done += size
                tell(Progress("checked", done, total))

            try:
                if _sha256(path / name, count) != note["sha256"][name]:
                    problems.append(f"{path.name}/{name} was changed since it was made")
            except (OSError, KeyError) as error:
                problems.append(f"{path.name}/{name}: {error!s}")
        last = note.get("tid")
        blobs = _Checked(())
        try:
            blobs = self._run(_Checked, "check-blobs", folder, path / LIST, tell=tell)
        except ProgramError as error:
            problems.append(error.detail)
        return Backup(
            path.name,
            iso(path.name),
            1,
            total,
            (*problems, *blobs.problems),
            last,
            last and time_of(str(last)),
            blobs.blobs,
            blobs.blob_bytes,
        )

    def series(self, folder: Path) -> list[Series]:
        return backup_retention.folder_series(folders(folder, None) if folder.exists() else [])

    def remove_series(self, folder: Path, series: Series) -> None:
        backup_retention.remove_folder(folder, series)
        self._run(Swept, "sweep", folder)

    def stage(self, node: Node, folder: Path, name: str, tell: Tell) -> Staged:
        target = staged_folder(node) / self._files.folder_name
        blobs = staged_folder(node) / BLOBS
        part = target.with_name(f"{target.name}.part")
        try:
            for left in (target, part, blobs):
                shutil.rmtree(left, ignore_errors=True)
            part.mkdir(mode=0o700, parents=True)
            with alone(folder):
                self._copy(folder / name, part, "recovered", tell)
                database, kept = part / self._files.file_names[0], folder / name / LIST
                done = self._run(_Kept, "restore-blobs", folder, kept, database, blobs, tell=tell)
            problems = self._problems(part)
            if problems:
                raise OperatorError(
                    "the backup is damaged", "\n".join(problems), exit_code=ExitCode.REFUSED
                )
            part.rename(target)
            sync_folder(target.parent)
            last = self._last(target)
            size = sum((target / each).stat().st_size for each in self._files.file_names)
            with opened(target / self._files.file_names[0]) as connection:
                transactions = count(connection, 0)
            return Staged(size, last, time_of(last), transactions, done.blobs, done.blob_bytes)
        except (OSError, sqlite3.Error) as error:
            raise failure("the backup can't be made a database again", error) from error

    def newer(self, node: Node, tid: str) -> Newer | None:
        path = self.database(node)
        if not path.exists():
            return None
        size, after = path.stat().st_size, int(tid, 16)
        try:
            with opened(path) as connection:
                damage = check(connection, path, "quick_check(1)")
                last = self._last(path.parent)
                return Newer(
                    count(connection, after),
                    last,
                    time_of(last),
                    tuple(told(connection, after)),
                    "; ".join(damage),
                    size,
                    0,
                )
        except sqlite3.Error as error:
            return Newer(0, None, None, (), f"{path}: {error}", size, size)

    def tail(self, node: Node, folder: Path) -> Tail:
        present = self.database(node).parent
        if not self.database(node).exists():
            return Tail(0, None, f"{self.database(node)}: there is no such file", 0, None)
        with contextlib.ExitStack() as stack:
            confs = []
            for where in (present, staged_folder(node) / self._files.folder_name):
                conf = stack.enter_context(tempfile.NamedTemporaryFile("w", suffix=".conf"))
                conf.write(self._files.read_conf(self._cluster, where))
                conf.flush()
                confs.append(conf.name)
            try:
                found = sql_export.export(
                    self._installation,
                    "the divergent transactions of the current database can't be exported",
                    own=confs[0],
                    other=confs[1],
                    folder=folder,
                    named=present,
                )
            except ProgramError as error:
                if error.status not in (sql_export.OWN_UNREADABLE, sql_export.DIFFERS):
                    raise
                return Tail(0, None, error.detail, self.database(node).stat().st_size, None)
        return Tail(found.transactions, folder if found.transactions else None, "", 0, found.common)

    def holders(self, node: Node) -> list[int]:
        return writers((self.database(node),))

    def fingerprint(self, node: Node) -> str:
        """Return a fingerprint of the transactions: readers change the files too."""
        path = self.database(node)
        if not path.exists():
            return ""
        try:
            with opened(path) as connection:
                return f"{self._files.last_tid(connection):016x} {count(connection, 0)}"
        except sqlite3.Error:
            return f"{path.stat().st_size} {path.stat().st_mtime_ns}"

    @contextlib.contextmanager
    def held(self, node: Node) -> Iterator[None]:
        """Check that no process has the file open: SQLite cannot be kept from opening it."""
        found = self.holders(node)
        if found:
            raise OperatorError(
                f"somebody has {self.database(node)} open",
                f"processes {', '.join(map(str, found))}",
                "end them",
                ExitCode.REFUSED,
            )
        yield

    def _copy(self, source: Path, target: Path, stage: str, tell: Tell) -> None:
        """Copy the files so that every used object id is counted.  Raises sqlite3.Error."""
        for name in self._files.file_names:
            with (
                opened(source / name) as old,
                contextlib.closing(sqlite3.connect(target / name)) as new,
            ):
                # An open transaction keeps the copied state unchanged while others write.
                old.execute("BEGIN")
                old.execute("SELECT count(*) FROM sqlite_master").fetchone()
                (size,) = old.execute("PRAGMA page_size").fetchone()

                def told(_status: int, left: int, total: int, size: int = size) -> None:
                    tell(Progress(stage, (total - left) * size, total * size))

                old.backup(new, pages=PAGES, progress=told, sleep=0)
                new.execute("PRAGMA journal_mode=DELETE")  # one file, which is read-only
            os.chmod(target / name, 0o600)
            _sync(target / name)
        sync_folder(target)

    def _problems(self, folder: Path) -> list[str]:
        found = []
        for name in self._files.file_names:
            with opened(folder / name) as connection:
                found += check(connection, folder / name, "integrity_check(5)")
        return found

    def _run(
        self, answer: type[Value], command: str, *arguments: Argument, tell: Tell | None = None
    ) -> Value:
        return backup_program.run(self._installation, command, *arguments, answer=answer, tell=tell)

    def _last(self, folder: Path) -> str:
        try:
            with opened(folder / self._files.file_names[0]) as connection:
                return f"{self._files.last_tid(connection):016x}"
        except sqlite3.Error as error:
            raise failure("the database can't be read", error) from error

    def _note(self, folder: Path) -> dict[str, Any]:
        try:
            note: dict[str, Any] = json.loads((folder / NOTE).read_text("utf-8"))
        except (OSError, ValueError):
            return {}  # its files count as changed
        return note


def _sha256(path: Path, count: Any) -> str:
    content = hashlib.sha256()
    with path.open("rb") as source:
        while block := source.read(BLOCK):
            content.update(block)
            if count is not None:
                count(len(block))
    return content.hexdigest()


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
