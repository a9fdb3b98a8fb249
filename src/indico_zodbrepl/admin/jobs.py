"""Commands that the admin page starts: child processes that outlive the page.

A job is a ``bin/zodbrepl`` in a session of its own, as if typed in a shell, with the actor in the
environment.  VAR/jobs/ID holds its record and its output.
"""

from __future__ import annotations

import dataclasses
import logging
import os
import re
import secrets
import shlex
import shutil
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from flask_babel import gettext as _

from indico_zodbrepl.admin import log_tail
from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.cluster.files import write_atomically
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.cluster.model import Cluster
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.operations import journal, store
from indico_zodbrepl.operations.operation import ACTOR_VARIABLE, Operation, stamp
from indico_zodbrepl.operations.planning import OPERATIONS, Request
from indico_zodbrepl.probing import typed_json
from indico_zodbrepl.probing.process_state import birth_of

logger = logging.getLogger(__name__)
KEPT = 50
"""Jobs; older ones are removed."""
RECORD = "job.json"
OUTPUT = "output.log"
IDENTIFIER = re.compile(r"[0-9TZ.]{20}-[a-z-]{1,40}-[0-9a-f]{4}")
Ending = Literal["resume", "undo", "abandon"]
ENDINGS: Mapping[str, tuple[str, ...]] = {
    "resume": ("resume",),
    "undo": ("resume", "--undo"),
    "abandon": ("resume", "--abandon"),
}
"""Commands that end an open operation."""
Moment = Annotated[float, msgspec.Meta(ge=0, lt=1e11)]


@dataclasses.dataclass(frozen=True)
class Record:
    """A job in its file.

    Attributes:
        birth: start time of the process according to the kernel; a later process with the same PID
            has another one.
        operation: identifier of the operation that it resumes; empty if it begins a new one.
        ended, exit_code: as in ``Job``.
    """

    identifier: str
    command: str
    actor: str
    began: Moment
    pid: int
    birth: str
    operation: str = ""
    ended: Moment | None = None
    exit_code: int | None = None

    @property
    def is_over(self) -> bool:
        return self.ended is not None


@dataclasses.dataclass(frozen=True)
class Job:
    """A command and its known state.

    Attributes:
        command: as typed in a shell.
        began, ended: seconds since 1970; ``ended`` is None while it runs.
        exit_code: None while it runs, or if the page was restarted before it ended.
        output: what it printed; of a long output the end.
        operation: its operation in the journal; None if there is none, or none yet.
    """

    identifier: str
    command: str
    actor: str
    began: float
    ended: float | None
    exit_code: int | None
    output: tuple[str, ...]
    operation: Operation | None


class Jobs:
    """The jobs of one cluster.  Threads: any."""

    def __init__(self, cluster: Cluster, installation: Installation) -> None:
        self._cluster = cluster
        self._installation = installation
        self._commands = Commands(cluster, installation.home)
        self._lock = threading.Lock()
        self._awaited: dict[str, Record] = {}
        self._over: dict[str, Job] = {}

    def begin(self, request: Request, actor: str, expected: str) -> Job:
        """Start an operation.

        Args:
            actor: name for the journal.
            expected: ``planning.sealed`` of the plan that was shown; the job does nothing if the
                plan is different now, or another operation has begun since.

        Raises OperatorError: exit 8, another operation is running or open; exit 2, the request is
        invalid; exit 1, the process cannot be started.
        """
        arguments = _arguments(self._cluster, request)
        store.refuse_open(self._cluster, request.operation, request.target)
        hidden = ["--expect", expected] if expected else []
        return self._start(arguments, actor, hidden)

    def end_open(self, how: Ending, reason: str, actor: str) -> Job:
        """Resume, undo or abandon the open operation.

        Raises OperatorError: exit 8, it is running; exit 6, there is none; as ``begin``.
        """
        reason = _line(reason)
        if how not in ENDINGS or (how == "abandon" and not reason):
            raise OperatorError(
                _("cannot end the operation by %(how)s", how=repr(how)),
                _("give a reason")
                if how in ENDINGS
                else _("use one of %(names)s", names=", ".join(ENDINGS)),
                exit_code=ExitCode.BAD_CONFIG,
            )
        store.refuse_at_work(self._cluster)
        damaged = how == "abandon" and bool(store.damaged_operations(self._cluster))
        identifier = "" if damaged else store.the_open_one(self._cluster).identifier
        told = ["--reason", reason] if how == "abandon" else []
        hidden = ["--expect", identifier] if identifier else []
        return self._start([*ENDINGS[how], *told], actor, hidden, identifier)

    def run(self, arguments: Sequence[str], actor: str) -> Job:
        """Start another command of ``bin/zodbrepl``.  Raises OperatorError as ``begin``."""
        return self._start(list(arguments), actor)

    def get(self, identifier: str) -> Job | None:
        """Return the job; None if there is none, or it was removed."""
        if identifier in self._over:
            return self._over[identifier]
        record = self._read(identifier)
        if record is None:
            return None
        made = self._job(record)
        if record.is_over and not (made.operation and made.operation.outcome.is_open):
            self._over[identifier] = made
        return made

    def recent(self) -> list[Job]:
        """Return all jobs, newest first."""
        found = (self.get(name) for name in names(self._folder))
        return [job for job in found if job is not None]

    def of_operation(self, identifier: str) -> Job | None:
        """Return the newest job of an operation of the journal; None if there is none."""
        return next(
            (
                each
                for each in self.recent()
                if each.operation and each.operation.identifier == identifier
            ),
            None,
        )

    def running(self, kind: str) -> Job | None:
        """Return the running job of a command, such as ``stats``; None if there is none."""
        return next(
            (
                each
                for each in self.recent()
                if each.ended is None and f"Z-{kind}-" in each.identifier
            ),
            None,
        )

    @property
    def _folder(self) -> Path:
        return Layout(self._cluster).jobs

    def _start(
        self, arguments: Sequence[str], actor: str, hidden: Sequence[str] = (), operation: str = ""
    ) -> Job:
        now = time.time()
        identifier = f"{stamp(now)[:-3]}Z-{arguments[0]}-{secrets.token_hex(2)}"
        folder = self._folder / identifier
        program = str(self._installation.zodbrepl)
        command = [program, "-c", str(self._cluster.source), *arguments, *hidden]
        record = Record(
            identifier, self._commands.zodbrepl(*arguments), _line(actor), now, 0, "", operation
        )
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            folder.mkdir(mode=0o700)
            write(self._folder, record)  # before the start: no job without a record
            with (folder / OUTPUT).open("wb") as output:
                process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    cwd=self._installation.home,
                    start_new_session=True,
                    env=os.environ | {ACTOR_VARIABLE: actor, "PYTHONUNBUFFERED": "1"},
                )
        except (OSError, ValueError, OperatorError) as error:
            shutil.rmtree(folder, ignore_errors=True)
            raise OperatorError(
                _("%(what)s could not be started", what=arguments[0]),
                error.detail
                if isinstance(error, OperatorError)
                else f"{type(error).__name__}: {error}",
                _(
                    "check that the disk has space and %(program)s exists; or type: %(command)s",
                    program=program,
                    command=self._commands.zodbrepl(*arguments),
                ),
            ) from error
        record = dataclasses.replace(record, pid=process.pid, birth=birth_of(process.pid))
        self._awaited[identifier] = record
        self._keep(record)
        threading.Thread(
            target=self._await, args=(process, record), daemon=True, name=f"job {identifier}"
        ).start()
        self._forget()
        return self._job(record)

    def _await(self, process: subprocess.Popen[bytes], record: Record) -> None:
        code = process.wait()
        ended = dataclasses.replace(record, ended=time.time(), exit_code=code)
        if not (self._folder / record.identifier).is_dir() or self._keep(ended):
            self._awaited.pop(record.identifier, None)
        else:
            self._awaited[record.identifier] = ended

    def _keep(self, record: Record) -> bool:
        """Write a record; return False if that fails, and only this process knows it."""
        try:
            write(self._folder, record)
        except OperatorError as error:
            logger.error("%s", error)
            return False
        return True

    def _read(self, identifier: str) -> Record | None:
        """Return a record, preferably as this process knows it."""
        return self._awaited.get(identifier) or read(self._folder, identifier)

    def _forget(self) -> None:
        """Remove the oldest jobs that have ended; keep ``KEPT``."""
        with self._lock:
            for name in names(self._folder)[KEPT:]:
                record = read(self._folder, name)
                if record is None or record.is_over:
                    self._over.pop(name, None)
                    self._awaited.pop(name, None)
                    shutil.rmtree(self._folder / name, ignore_errors=True)

    def _job(self, record: Record) -> Job:
        output = log_tail.output(self._folder / record.identifier / OUTPUT)
        return Job(
            record.identifier,
            record.command,
            record.actor,
            record.began,
            record.ended,
            record.exit_code,
            output,
            self._operation(record),
        )

    def _operation(self, record: Record) -> Operation | None:
        if record.operation:
            return store.read(self._cluster, record.operation)
        found = store.of_process(self._cluster, record.pid, record.began, record.ended)
        if found is not None or record.ended is None:
            return found
        return next(
            (
                entry
                for entry in reversed(journal.read(self._cluster)[0])
                if entry.pid == record.pid and record.began <= entry.began <= record.ended
            ),
            None,
        )


def _arguments(cluster: Cluster, request: Request) -> list[str]:
    """Return the arguments of a request.  Raises OperatorError (exit 2): it is invalid."""
    names = [*(node.name for node in cluster.nodes), *(each.name for each in cluster.indico)]
    source, days = request.options.get("source"), request.options.get("days")
    unknown = [name for name in (request.target, source) if name and name not in names]
    if request.operation not in OPERATIONS or unknown:
        raise OperatorError(
            _(
                "cannot do %(operation)s of %(names)s",
                operation=request.operation,
                names=" and ".join(unknown) or request.target,
            ),
            _(
                "operations: %(operations)s; names: %(names)s",
                operations=", ".join(OPERATIONS),
                names=", ".join(names),
            ),
            exit_code=ExitCode.BAD_CONFIG,
        )
    reason = _line(request.reason)
    if request.operation == "failover" and not reason:
        raise OperatorError(
            _("a failover needs a reason"),
            _("the journal records it"),
            exit_code=ExitCode.BAD_CONFIG,
        )
    return [
        request.operation,
        *([request.target] if request.target else []),
        *(["--from", source] if source else []),
        *(["--days", days] if days else []),
        *(["--reason", reason] if reason else []),
    ]


def _line(text: str) -> str:
    """Return the text as one line of printable characters."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def write(folder: Path, record: Record) -> None:
    """Write a record.  Raises OperatorError."""
    path = folder / record.identifier / RECORD
    try:
        write_atomically(path, msgspec.json.encode(record).decode() + "\n", 0o600)
    except OSError as error:
        raise OperatorError(
            _("cannot write the record of a job"),
            f"{path}: {error.strerror}",
            _("process %(pid)s executes %(command)s", pid=record.pid, command=record.command),
        ) from error


def read(folder: Path, identifier: str) -> Record | None:
    """Return the record of a job; None if there is no usable one.

    If the process is gone and nobody saw its end, the job ended with its last output.
    """
    if not IDENTIFIER.fullmatch(identifier):
        return None
    try:
        record = typed_json.decode((folder / identifier / RECORD).read_bytes(), Record)
        shlex.split(record.command)
        if record.identifier != identifier:
            return None
        if record.ended is None and (not record.birth or birth_of(record.pid) != record.birth):
            printed = (folder / identifier / OUTPUT).stat().st_mtime
            return dataclasses.replace(record, ended=max(printed, record.began))
    except (OSError, ValueError, RecursionError):
        return None
    return record


def names(folder: Path) -> list[str]:
    """Return the identifiers of all jobs, newest first."""
    if not folder.is_dir():
        return []
    return sorted(
        (path.name for path in folder.iterdir() if IDENTIFIER.fullmatch(path.name)), reverse=True
    )
