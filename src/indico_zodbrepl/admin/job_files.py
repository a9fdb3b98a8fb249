"""What is known of a job on disk: a folder each, with its record and what it prints."""

from __future__ import annotations

import dataclasses
import json
import re
import shlex
from pathlib import Path

from flask_babel import gettext as _

from indico_zodbrepl.cluster.files import write_atomically
from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.probing.process_state import birth_of

RECORD = "job.json"
OUTPUT = "output.log"
IDENTIFIER = re.compile(r"[0-9TZ.]{20}-[a-z-]{1,40}-[0-9a-f]{4}")


@dataclasses.dataclass(frozen=True)
class Record:
    """A job, as ``job.json`` keeps it.

    Attributes:
        birth: when the kernel says that the process began, so that another one that got its
            number is not taken for it.
        operation: identifier of the operation that it goes on with; empty when it begins its own.
        ended, exit_code: as in ``jobs.Job``.
    """

    identifier: str
    command: str
    actor: str
    began: float
    pid: int
    birth: str
    operation: str = ""
    ended: float | None = None
    exit_code: int | None = None

    @property
    def is_over(self) -> bool:
        return self.ended is not None


def write(folder: Path, record: Record) -> None:
    """Keep a record.  Raises OperatorError when it can't be written; the job goes on."""
    path = folder / record.identifier / RECORD
    try:
        write_atomically(path, json.dumps(dataclasses.asdict(record), indent=1) + "\n", 0o600)
    except OSError as error:
        raise OperatorError(
            _("what was begun can't be written down"), f"{path}: {error.strerror}",
            _("process %(pid)s works on: %(command)s", pid=record.pid,
              command=record.command)) from error


def read(folder: Path, identifier: str) -> Record | None:
    """The record of a job; None when there is none that can be used.

    One whose process is gone without anybody seeing its end ended when it last printed.
    """
    if not IDENTIFIER.fullmatch(identifier):
        return None
    try:
        record = Record(**json.loads((folder / identifier / RECORD).read_text("utf-8")))
        _check(record, identifier)
        if record.ended is None and (not record.birth or birth_of(record.pid) != record.birth):
            printed = (folder / identifier / OUTPUT).stat().st_mtime
            return dataclasses.replace(record, ended=max(printed, record.began))
    except (OSError, ValueError, TypeError, RecursionError):
        return None
    return record


def _check(record: Record, identifier: str) -> None:
    """Raise TypeError or ValueError where a value is of a kind that nobody could show."""
    texts = (record.identifier, record.command, record.actor, record.birth, record.operation)
    moments = (record.began, record.began if record.ended is None else record.ended)
    numbers = (record.pid, record.exit_code or 0)
    for values, kind in ((texts, str), (moments, int | float), (numbers, int)):
        for value in values:
            if not isinstance(value, kind):
                raise TypeError(f"a value is {value!r}")
    if not all(0 <= moment < 1e11 for moment in moments) or record.identifier != identifier:
        raise ValueError("a value is out of bounds")
    shlex.split(record.command)


def names(folder: Path) -> list[str]:
    """Identifiers of all jobs, the newest first."""
    if not folder.is_dir():
        return []
    return sorted((path.name for path in folder.iterdir() if IDENTIFIER.fullmatch(path.name)),
                  reverse=True)
