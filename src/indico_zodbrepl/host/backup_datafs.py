"""Back up Data.fs files with the data plane's program, which uses ZODB's repozo."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from pathlib import Path

from indico_zodbrepl.cluster import Cluster, Node
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.cluster.layout import data_fs
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host import (
    backup_program,
    backup_retention,
    fencing,
    following,
    remote_copy,
)
from indico_zodbrepl.host.backup import (
    Backup,
    Made,
    Newer,
    Staged,
    Tail,
    Tell,
    alone,
    staged_folder,
)
from indico_zodbrepl.host.backup_blobs import listed
from indico_zodbrepl.host.backup_program import FAILURES, Swept, Value
from indico_zodbrepl.host.backup_retention import Series, blobs_of
from indico_zodbrepl.host.node_files import (
    ATTEMPTS,
    BLOBS,
    NodeFile,
    Origin,
    ReplacedError,
)
from indico_zodbrepl.host.py27 import Argument, ProgramError
from indico_zodbrepl.host.remote_copy import Source

RECEIVED = "received-"
"""Begins the name of a part of a data file that is being received from another host."""


@dataclasses.dataclass(frozen=True)
class _Missing:
    """The blobs that a received part of a data file needs and a folder of backups lacks.

    Attributes:
        missing: paths in the folder, which are those in a node's data directory.
    """

    missing: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class _Newest:
    """The last piece of the newest backup, which the next one continues.

    Attributes:
        name: empty if the next backup has to be full.
        begin, end: positions in the data file.
        tid, time: of its last transaction, as of Made.
        removed: as of Made.
    """

    name: str
    begin: int
    end: int
    tid: str
    time: str
    removed: tuple[str, ...]


def keeper(_cluster: Cluster, installation: Installation) -> DataFsKeeper:
    """Return the backup driver of a cluster."""
    return DataFsKeeper(installation)


class DataFsKeeper:
    """Full and incremental backups in a folder that is a repository of repozo."""

    names: tuple[str, ...] = (BLOBS, "Data.fs.index", "Data.fs")
    beside: tuple[str, ...] = (
        f"{BLOBS}.old",
        "Data.fs.tmp",
        "Data.fs.old",
        "Data.fs.pack",
        "Data.fs.packed",
        "lineage.json",
    )

    def __init__(self, installation: Installation) -> None:
        self._installation = installation

    def database(self, node: Node) -> Path:
        return data_fs(node)

    def back_up(self, node: Node, folder: Path, tell: Tell, *, full: bool) -> Made:
        following.refuse(node)
        more = ["--full"] if full else []
        return self._run(Made, "backup", data_fs(node), folder, *more, tell=tell)

    def back_up_from(self, source: Source, folder: Path, tell: Tell, *, full: bool) -> Made:
        with alone(folder):
            for _ in range(ATTEMPTS):
                with contextlib.suppress(ReplacedError):  # the node was packed meanwhile
                    return self._receive(source, folder, tell, full=full)
        raise OperatorError(FAILURES["backup"], "it is packed again and again")

    def _receive(self, source: Source, folder: Path, tell: Tell, *, full: bool) -> Made:
        begun = time.monotonic()
        newest = self._run(_Newest, "newest", folder)
        origin = source.origin()
        if origin.tid is None:
            raise OperatorError(
                FAILURES["backup"], "it has no transaction", exit_code=ExitCode.REFUSED
            )
        begin = 0
        if newest.name and not full:
            last = folder / newest.name
            begin = newest.end if remote_copy.is_same(source, last, origin, newest.begin) else 0
        if begin == origin.end:
            _drop_received(folder)
            made = Made("none", "", 0, begin, newest.tid, newest.time, 0.0)
        else:
            made = self._add(source, folder, origin, begin, tell)
        took = round(time.monotonic() - begun, 3)
        return dataclasses.replace(made, removed=newest.removed, seconds=took)

    def _add(self, source: Source, folder: Path, origin: Origin, begin: int, tell: Tell) -> Made:
        received = folder / f"{RECEIVED}{begin}.part"
        _drop_received(folder, received)
        remote_copy.copy_part(source, received, origin, begin, tell)
        more = ("--begin", str(begin))
        try:
            needed = self._run(_Missing, "missing", folder, received, *more).missing
        except ProgramError:  # it is damaged
            received.unlink(missing_ok=True)
            raise
        remote_copy.copy_blobs(source, folder, needed, tell)
        try:
            return self._run(Made, "add", folder, received, *more, tell=tell)
        finally:
            received.unlink(missing_ok=True)  # it is a backup now, or is damaged

    def files(self, folder: Path, name: str) -> list[NodeFile]:
        series = next((each for each in self.series(folder) if name in each.names), None)
        if series is None:
            raise OperatorError(
                FAILURES["inspect"], f"{folder} has no {name}", exit_code=ExitCode.REFUSED
            )
        wanted = series.names[: series.names.index(name) + 1]
        lists = [blobs_of(folder / each) for each in wanted]
        blobs = {path: size for each in lists for path, size in listed(each).items()}
        names = [f"{series.first}.dat", *(each.name for each in lists if each.exists()), *wanted]
        found = [NodeFile(each, (folder / each).stat().st_size) for each in names]
        return [*found, *(NodeFile(path, size) for path, size in blobs.items())]

    def inspect(self, folder: Path, at: str | None, tell: Tell) -> Backup:
        return self._run(Backup, "inspect", folder, *(["--at", at] if at else []), tell=tell)

    def series(self, folder: Path) -> list[Series]:
        return backup_retention.data_fs_series(folder)

    def remove_series(self, folder: Path, series: Series) -> None:
        backup_retention.remove_data_fs(folder, series)
        self._run(Swept, "sweep", folder)

    def stage(self, node: Node, folder: Path, name: str, tell: Tell) -> Staged:
        target = staged_folder(node) / "Data.fs"
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        at = name.partition(".")[0]
        return self._run(Staged, "recover", folder, target, "--at", at, tell=tell)

    def newer(self, node: Node, tid: str) -> Newer | None:
        if not data_fs(node).exists():
            return None
        return self._run(Newer, "newer", data_fs(node), tid)

    def tail(self, node: Node, folder: Path) -> Tail:
        restored = staged_folder(node) / "Data.fs"
        return self._run(Tail, "tail", data_fs(node), restored, "--to", folder)

    def holders(self, node: Node) -> list[int]:
        held = fencing.look(node)
        return [held.pid or 0] if held.is_held else []

    def fingerprint(self, node: Node) -> str:
        try:
            found = data_fs(node).stat()
        except OSError:
            return ""
        return f"{found.st_ino} {found.st_size} {found.st_mtime_ns}"

    def held(self, node: Node) -> contextlib.AbstractContextManager[None]:
        return fencing.held(node)

    def _run(
        self, answer: type[Value], command: str, *arguments: Argument, tell: Tell | None = None
    ) -> Value:
        return backup_program.run(self._installation, command, *arguments, answer=answer, tell=tell)


def _drop_received(folder: Path, kept: Path | None = None) -> None:
    """Remove the parts that interrupted backups received, but for one that is continued."""
    for each in folder.glob(f"{RECEIVED}*.part"):
        if each != kept:
            each.unlink()
