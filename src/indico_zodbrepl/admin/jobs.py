"""Commands that the admin page starts: processes of their own, which outlive the page.

A job is a ``bin/zodbrepl`` in a session of its own, as if a person had typed it, with who asked
for it in the environment.  VAR/jobs/ID has what was asked for and what it prints.
"""

from __future__ import annotations

import dataclasses
import datetime
import logging
import os
import secrets
import shutil
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from flask_babel import gettext as _

from indico_zodbrepl.admin import job_files, logs
from indico_zodbrepl.admin.job_files import Record
from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.cluster.model import Cluster
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.failover import journal, store
from indico_zodbrepl.failover.operation import ACTOR_VARIABLE, Operation
from indico_zodbrepl.failover.requests import OPERATIONS, Request
from indico_zodbrepl.probing.process_state import birth_of

logger = logging.getLogger(__name__)
KEPT = 50
Ending = Literal["resume", "undo", "abandon"]
ENDINGS: Mapping[str, tuple[str, ...]] = {
    "resume": (), "undo": ("--undo",), "abandon": ("--abandon",)}


@dataclasses.dataclass(frozen=True)
class Job:
    """One command.

    Attributes:
        command: as a person would type it.
        began, ended: seconds since 1970; ``ended`` is None while it runs.
        exit_code: None while it runs, or when nobody saw how it ended, as the page was restarted.
        output: its last lines.
        operation: what the journal knows of it; None when it has none, or none yet.
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
    """The jobs of one cluster.  Any thread may call anything."""

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
            actor: who asked for it, for the journal.
            expected: ``requests.sealed`` of the plan that was shown; nothing is done if the plan
                is another one now, or another operation has begun since.

        Raises OperatorError: exit 8, another operation is at work or has not ended; exit 2, the
        request is no command; exit 1, the process can't be started.
        """
        arguments = _arguments(self._cluster, request)
        store.refuse_open(self._cluster)
        hidden = ["--expect", expected] if expected else []
        return self._start(arguments, actor, hidden)

    def end_open(self, how: Ending, reason: str, actor: str) -> Job:
        """Go on with the open operation, take it back, or abandon it.

        Args:
            how: a key of ``ENDINGS``.

        Raises OperatorError: exit 8, it is at work; exit 6, there is none; as ``begin``.
        """
        reason = _line(reason)
        if how not in ENDINGS or (how == "abandon" and not reason):
            raise OperatorError(_("the operation can't be ended by %(how)s", how=repr(how)),
                                _("say why it is abandoned") if how in ENDINGS
                                else _("there are: %(names)s", names=", ".join(ENDINGS)),
                                exit_code=ExitCode.BAD_CONFIG)
        store.refuse_at_work(self._cluster)
        damaged = how == "abandon" and bool(store.damaged(self._cluster))
        identifier = "" if damaged else store.the_open_one(self._cluster).identifier
        told = ["--reason", reason] if how == "abandon" else []
        hidden = ["--expect", identifier] if identifier else []
        return self._start(["resume", *ENDINGS[how], *told], actor, hidden, identifier)

    def run(self, arguments: Sequence[str], actor: str) -> Job:
        """Start any other command of ``bin/zodbrepl``.  Raises OperatorError as ``begin``."""
        return self._start(list(arguments), actor)

    def get(self, identifier: str) -> Job | None:
        """The job of that identifier; None when there is none, or it was forgotten."""
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
        """Those that are known, the newest first."""
        found = (self.get(name) for name in job_files.names(self._folder))
        return [job for job in found if job is not None]

    @property
    def _folder(self) -> Path:
        return Layout(self._cluster).jobs

    def _start(self, arguments: Sequence[str], actor: str, hidden: Sequence[str] = (),
               operation: str = "") -> Job:
        now = time.time()
        stamp = datetime.datetime.fromtimestamp(now, datetime.UTC).strftime("%Y%m%dT%H%M%S.%f")
        identifier = f"{stamp[:-3]}Z-{arguments[0]}-{secrets.token_hex(2)}"
        folder = self._folder / identifier
        program = str(self._installation.zodbrepl)
        command = [program, "-c", str(self._cluster.source), *arguments, *hidden]
        record = Record(identifier, self._commands.zodbrepl(*arguments), _line(actor), now, 0, "",
                        operation)
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            folder.mkdir(mode=0o700)
            job_files.write(self._folder, record)  # what can't be written down is not begun
            with (folder / job_files.OUTPUT).open("wb") as output:
                process = subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                    cwd=self._installation.home, start_new_session=True,
                    env=os.environ | {ACTOR_VARIABLE: actor, "PYTHONUNBUFFERED": "1"})
        except (OSError, ValueError, OperatorError) as error:
            shutil.rmtree(folder, ignore_errors=True)
            raise OperatorError(
                _("%(what)s could not be started", what=arguments[0]),
                error.detail if isinstance(error, OperatorError)
                else f"{type(error).__name__}: {error}",
                _("is the disk full, or %(program)s away? by hand: %(command)s", program=program,
                  command=self._commands.zodbrepl(*arguments))) from error
        record = dataclasses.replace(record, pid=process.pid, birth=birth_of(process.pid))
        self._awaited[identifier] = record
        self._keep(record)
        threading.Thread(target=self._see_end, args=(process, record), daemon=True,
                         name=f"job {identifier}").start()
        self._forget()
        return self._job(record)

    def _see_end(self, process: subprocess.Popen[bytes], record: Record) -> None:
        code = process.wait()
        ended = dataclasses.replace(record, ended=time.time(), exit_code=code)
        if not (self._folder / record.identifier).is_dir() or self._keep(ended):
            self._awaited.pop(record.identifier, None)
        else:
            self._awaited[record.identifier] = ended

    def _keep(self, record: Record) -> bool:
        """Whether a record could be written down; if not, this page alone knows it."""
        try:
            job_files.write(self._folder, record)
        except OperatorError as error:
            logger.error("%s", error)
            return False
        return True

    def _read(self, identifier: str) -> Record | None:
        """A record; of a job whose end this page is to see, or saw alone, as this page knows it."""
        return self._awaited.get(identifier) or job_files.read(self._folder, identifier)

    def _forget(self) -> None:
        """Remove the oldest that have ended, so that ``KEPT`` stay."""
        with self._lock:
            for name in job_files.names(self._folder)[KEPT:]:
                record = job_files.read(self._folder, name)
                if record is None or record.is_over:
                    self._over.pop(name, None)
                    self._awaited.pop(name, None)
                    shutil.rmtree(self._folder / name, ignore_errors=True)

    def _job(self, record: Record) -> Job:
        output = logs.tail(self._folder / record.identifier / job_files.OUTPUT)
        return Job(record.identifier, record.command, record.actor, record.began, record.ended,
                   record.exit_code, output, self._operation(record))

    def _operation(self, record: Record) -> Operation | None:
        if record.operation:
            return store.read(self._cluster, record.operation)
        found = store.of_process(self._cluster, record.pid, record.began, record.ended)
        if found is not None or record.ended is None:
            return found
        return next((entry for entry in reversed(journal.read(self._cluster)[0])
                     if entry.pid == record.pid
                     and record.began <= entry.began <= record.ended), None)


def _arguments(cluster: Cluster, request: Request) -> list[str]:
    """The command line of a request; OperatorError (exit 2) when there is none."""
    names = [*(node.name for node in cluster.nodes), *(each.name for each in cluster.indico)]
    source, days = request.options.get("source"), request.options.get("days")
    unknown = [name for name in (request.target, source) if name and name not in names]
    if request.operation not in OPERATIONS or unknown:
        raise OperatorError(
            _("there is no %(operation)s of %(names)s", operation=request.operation,
              names=" and ".join(unknown) or request.target),
            _("operations: %(operations)s; names: %(names)s", operations=", ".join(OPERATIONS),
              names=", ".join(names)), exit_code=ExitCode.BAD_CONFIG)
    reason = _line(request.reason)
    if request.operation == "failover" and not reason:
        raise OperatorError(_("a failover needs a reason"), _("it goes into the journal"),
                            exit_code=ExitCode.BAD_CONFIG)
    return [request.operation, *([request.target] if request.target else []),
            *(["--from", source] if source else []), *(["--days", days] if days else []),
            *(["--reason", reason] if reason else [])]


def _line(text: str) -> str:
    """One line of what can be printed."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())
