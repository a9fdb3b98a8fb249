"""A pack of one storage, by the program of the data plane that opens any storage."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from ..cluster.installation import Installation
from ..errors import ExitCode, OperatorError

PROGRAM = "indico_zodbrepl.dataplane.pack"
TELL_SECONDS = 30.0
EXIT_CODES = {6: ExitCode.NOT_RUNNING, 8: ExitCode.REFUSED}


@dataclasses.dataclass(frozen=True)
class Packed:
    """What a pack came to.

    Attributes:
        before, after: sizes that the storage tells, bytes; None when it tells none.
        seconds: how long it took.
    """

    before: int | None
    after: int | None
    seconds: float


def pack(installation: Installation, zodb_conf: Path, days: float,
         on_progress: Callable[[float], None]) -> Packed:
    """Pack the storage of a ZODB configuration; takes as long as it takes.

    Args:
        days: what was current at any time in the last so many days is kept.
        on_progress: called each half minute with the seconds since the beginning.

    Raises OperatorError: 6 when the storage is away, 8 when another process has it open, 1 for
    what it said itself.  KeyboardInterrupt ends the program, but not what a server has begun.
    """
    command = [str(installation.python27), "-m", PROGRAM, str(zodb_conf), "--days", str(days)]
    began = time.monotonic()
    with subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True, errors="replace", process_group=0,
            env=installation.environment27(ZODBREPL_HOME=str(installation.home))) as process:
        try:
            output, said = _ended(process, lambda: on_progress(time.monotonic() - began))
        finally:
            process.kill()
    if process.returncode:
        lines = said.strip().splitlines() or [f"exit status {process.returncode}"]
        raise OperatorError("the storage was not packed", lines[-1],
                            exit_code=EXIT_CODES.get(process.returncode, ExitCode.FAILED))
    return Packed(**json.loads(output))


def _ended(process: subprocess.Popen[str], tell: Callable[[], None]) -> tuple[str, str]:
    while True:
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.communicate(timeout=TELL_SECONDS)
        tell()
