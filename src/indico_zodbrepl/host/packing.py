"""Pack one storage with the data plane's program, which opens any storage."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host import datafs, py27
from indico_zodbrepl.host.py27 import Program, ProgramError

PROGRAM = "indico_zodbrepl.dataplane.programs.pack"
EXIT_CODES = {6: ExitCode.NOT_RUNNING, 8: ExitCode.REFUSED}
IN_PART = 9  # exit status of the program


class PackedInPart(OperatorError):
    """Some copies were packed, and others went away before."""


@dataclasses.dataclass(frozen=True)
class Packed:
    """The result of a pack.

    Attributes:
        before, after: sizes in bytes; None if the storage does not know its size.
        seconds: duration.
        unreferenced, unreferenced_bytes: blob files without a transaction, which were put
            aside.
    """

    before: int | None
    after: int | None
    seconds: float
    unreferenced: int = 0
    unreferenced_bytes: int = 0


def pack(
    installation: Installation,
    zodb_conf: Path,
    days: float,
    on_progress: Callable[[float], None],
    data_file: Path | None = None,
) -> Packed:
    """Pack the storage of a ZODB configuration.  No timeout.

    Args:
        days: object states that were current within this many days stay.
        on_progress: called every half minute with the seconds since the start.
        data_file: the Data.fs that is packed, if it is one.  Blob files beside it that have no
            transaction are put aside, as an interrupted pack or a crash leaves them.

    Raises OperatorError: NOT_RUNNING if the storage does not answer, REFUSED if another process
    has it open; PackedInPart.  KeyboardInterrupt stops the program, but a server continues a pack.
    """
    program = Program(PROGRAM, "the storage was not packed", EXIT_CODES)
    try:
        packed = py27.run(
            installation,
            program,
            zodb_conf,
            "--days",
            str(days),
            answer=Packed,
            on_tick=on_progress,
        )
    except ProgramError as error:
        if error.status == IN_PART:
            raise PackedInPart("packed in part", error.detail) from error
        raise
    if data_file is None:
        return packed
    try:
        left = datafs.audit_blobs(installation, data_file, put_aside=True)
    except OperatorError:
        return packed  # the next pack finds them; `check --system` says why this one did not
    return dataclasses.replace(
        packed, unreferenced=left.unreferenced, unreferenced_bytes=left.unreferenced_bytes
    )
