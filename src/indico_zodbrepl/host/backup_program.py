"""Run the data plane's backup program."""

from __future__ import annotations

import dataclasses
from typing import TypeVar

from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.errors import ExitCode
from indico_zodbrepl.host import py27
from indico_zodbrepl.host.backup import Tell
from indico_zodbrepl.host.datafs_answers import Progress
from indico_zodbrepl.host.py27 import Argument, Program

PROGRAM = "indico_zodbrepl.dataplane.backup"
# The program's exit status: no such file, damaged, in use, no such transaction, changed, the target
# exists, no backup, backup damaged.
EXIT_CODES = dict.fromkeys((3, 4, 5, 6, 7, 8, 10, 11), ExitCode.REFUSED)
FAILURES = {
    "add": "the data file can't be backed up",
    "backup": "the data file can't be backed up",
    "newest": "the data file can't be backed up",
    "missing": "the data file can't be backed up",
    "keep-blobs": "the database can't be backed up",
    "check-blobs": "there is no backup to restore",
    "restore-blobs": "the backup can't be made a database again",
    "sweep": "an old backup can't be removed",
    "inspect": "there is no backup to restore",
    "recover": "no data file can be restored from the backup",
    "newer": "the current data file can't be read",
    "tail": "the divergent transactions of the current data file can't be exported",
}
BLOB_LOST = 4
"""Exit status if the data refer to a blob whose file is missing."""
Value = TypeVar("Value")


@dataclasses.dataclass(frozen=True)
class Swept:
    """The number of blob files that no backup needed."""

    removed: int


def run(
    installation: Installation,
    command: str,
    *arguments: Argument,
    answer: type[Value],
    tell: Tell | None = None,
) -> Value:
    """Run one of its commands and return the answer.  Raises ProgramError."""
    return py27.run(
        installation,
        Program(PROGRAM, FAILURES[command], EXIT_CODES),
        command,
        *arguments,
        answer=answer,
        progress=Progress,
        on_progress=tell,
    )
