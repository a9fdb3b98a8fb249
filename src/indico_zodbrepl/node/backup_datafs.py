"""Backups of Data.fs files, by the program of the data plane that works with ZODB's repozo."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..cluster import Node
from ..cluster.installation import Installation
from ..cluster.layout import data_fs
from ..errors import ExitCode, OperatorError
from . import data_lock, half_packed
from .backups import Backup, Made, Newer, Staged, Tail, Tell, staged_folder
from .datafs_answers import Progress

PROGRAM = "indico_zodbrepl.dataplane.backup"
# The program's exit status: no such file, damaged, in use, no such transaction, changed, something
# is in the way, no backup, backup damaged.
EXIT_CODES = dict.fromkeys((3, 4, 5, 6, 7, 8, 10, 11), ExitCode.REFUSED)
INTERRUPTED = 130
WHAT_FAILED = {
    "backup": "the data file can't be backed up",
    "inspect": "there is no backup to restore",
    "recover": "the backup can't be made a data file again",
    "newer": "the present data file can't be read",
    "tail": "what the present data file has can't be exported",
}


class DataFsKeeper:
    """Full and incremental backups in a folder that is a repository of repozo."""

    names: tuple[str, ...] = ("Data.fs.index", "Data.fs")
    beside: tuple[str, ...] = ("Data.fs.tmp", "Data.fs.old", "Data.fs.pack", "lineage.json")

    def __init__(self, installation: Installation) -> None:
        self._installation = installation

    def database(self, node: Node) -> Path:
        return data_fs(node)

    def back_up(self, node: Node, folder: Path, tell: Tell, *, full: bool) -> Made:
        half_packed.refuse(node)
        answer = self._run(tell, "backup", str(data_fs(node)), str(folder),
                           *(["--full"] if full else []))
        return Made(**answer | {"removed": tuple(answer["removed"])})

    def inspect(self, folder: Path, at: str | None, tell: Tell) -> Backup:
        answer = self._run(tell, "inspect", str(folder), *(["--at", at] if at else []))
        return Backup(**answer | {"problems": tuple(answer["problems"])})

    def stage(self, node: Node, folder: Path, name: str, tell: Tell) -> Staged:
        target = staged_folder(node) / "Data.fs"
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        at = name.partition(".")[0]
        return Staged(**self._run(tell, "recover", str(folder), str(target), "--at", at))

    def newer(self, node: Node, tid: str) -> Newer | None:
        if not data_fs(node).exists():
            return None
        answer = self._run(None, "newer", str(data_fs(node)), tid)
        return Newer(**answer | {"told": tuple(answer["told"])})

    def tail(self, node: Node, folder: Path) -> Tail:
        answer = self._run(None, "tail", str(data_fs(node)),
                           str(staged_folder(node) / "Data.fs"), "--to", str(folder))
        return Tail(**answer | {"folder": answer["folder"] and Path(answer["folder"])})

    def holders(self, node: Node) -> list[int]:
        held = data_lock.look(node)
        return [held.pid or 0] if held.is_held else []

    def fingerprint(self, node: Node) -> str:
        try:
            found = data_fs(node).stat()
        except OSError:
            return ""
        return f"{found.st_ino} {found.st_size} {found.st_mtime_ns}"

    @contextlib.contextmanager
    def held(self, node: Node) -> Iterator[None]:
        """Holds the lock that FileStorage takes, whoever opens the file."""
        descriptor = os.open(data_lock.path_of(node), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield
        except BlockingIOError:
            raise OperatorError(f"somebody has {data_fs(node)} open",
                                f"process {data_lock.look(node).pid or 'unknown'}",
                                "end it", ExitCode.REFUSED) from None
        finally:
            os.close(descriptor)

    def _run(self, tell: Tell | None, command: str, *arguments: str) -> dict[str, Any]:
        """The program's answer; it ends with this process, and takes as long as it takes."""
        python, said = self._installation.python27, ""
        with tempfile.TemporaryFile("w+", encoding="utf-8") as output:
            try:
                process = subprocess.Popen(
                    [python, "-m", PROGRAM, command, *arguments], stdin=subprocess.PIPE,
                    stdout=output, stderr=subprocess.PIPE, encoding="utf-8", errors="replace",
                    env=self._installation.environment27())
            except OSError as error:
                raise OperatorError(WHAT_FAILED[command], f"{python}: {error.strerror}",
                                    exit_code=ExitCode.NOT_INSTALLED) from error
            assert process.stderr is not None  # noqa: S101  # for the type checker
            with process:
                try:
                    for line in process.stderr:
                        if not line.startswith("{"):
                            said = line.strip()
                        elif tell is not None:
                            tell(Progress(**json.loads(line)))
                    process.wait()
                finally:
                    process.kill()
            if process.returncode == INTERRUPTED:
                raise KeyboardInterrupt
            if process.returncode:
                raise OperatorError(
                    WHAT_FAILED[command], said or f"exit status {process.returncode}",
                    exit_code=EXIT_CODES.get(process.returncode, ExitCode.FAILED))
            output.seek(0)
            answer: dict[str, Any] = json.load(output)
        return answer
