"""Data.fs files, by the program of the data plane that knows their format.

Servers may have the files open, except where it says otherwise.  Every function raises
OperatorError; its exit code is REFUSED when a file is damaged, in use, lacks the transaction
or is in the way, TIMED_OUT when the program did not end in time.  The end of this process ends the
program too, whatever way it comes, so that who goes on finds nobody at work.
"""

from __future__ import annotations

import dataclasses
import json
import subprocess
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..cluster.installation import Installation
from ..errors import ExitCode, OperatorError
from .datafs_answers import (
    Common,
    Comparison,
    Copy,
    Export,
    Last,
    Progress,
    Relation,
    Truncation,
)

__all__ = ["Common", "Comparison", "Copy", "Export", "Last", "Progress", "Relation",
           "Truncation", "compare", "copy", "digest", "export", "last", "truncate"]

PROGRAM = "indico_zodbrepl.dataplane.datafs"
SECONDS = 60.0
LONG_SECONDS = 1800.0  # for reading files of many gigabytes from a slow disk
COPY_SECONDS = 6 * 3600.0
# The program's exit status: damaged, in use, no such transaction, something is in the way.
EXIT_CODES = dict.fromkeys((4, 5, 6, 8), ExitCode.REFUSED)
WHAT_FAILED = {
    "last": "the end of a data file can't be read",
    "digest": "a transaction can't be read",
    "compare": "two data files can't be compared",
    "export": "the end of a data file can't be exported",
    "truncate": "the end of a data file can't be cut off",
    "copy": "a data file can't be copied",
}


def last(installation: Installation, file: Path) -> Last:
    """The last complete transaction of a file."""
    return Last(**_run(installation, SECONDS, "last", str(file)))


def digest(installation: Installation, file: Path, tid: str) -> str:
    """What identifies the content of one transaction; REFUSED when the file lacks it."""
    return str(_run(installation, SECONDS, "digest", str(file), tid)["digest"])


def compare(installation: Installation, file: Path, upstream: Path,
            verified: str | None = None, seconds: float = LONG_SECONDS) -> Comparison:
    """Compare a file's history with its upstream's.

    Args:
        installation: where Python 2.7 is.
        file: the Data.fs of the node that is to follow; counts as empty when it is missing.
        upstream: the Data.fs whose history is the right one.
        verified: a tid up to which the two are known to be the same, so that the cost grows
            with what came later; without it both files are read whole.
        seconds: time limit.
    """
    more = [] if verified is None else ["--verified", verified]
    answer = _run(installation, seconds, "compare", str(file), str(upstream), *more)
    common = answer.pop("common")
    return Comparison(relation=Relation(answer.pop("relation")),
                      common=Common(**common) if common else None, **answer)


def export(installation: Installation, file: Path, after: str, folder: Path,
           seconds: float = LONG_SECONDS) -> Export:
    """Put the transactions after one into a folder of their own, which appears when complete.

    Args:
        installation: where Python 2.7 is.
        file: the Data.fs.
        after: a tid that the file holds; 16 zeroes for everything.
        folder: must not exist.
        seconds: time limit.
    """
    answer = _run(installation, seconds, "export", str(file), "--after", after,
                  "--to", str(folder))
    return Export(folder=Path(answer.pop("folder")), notable=tuple(answer.pop("notable")),
                  **answer)


def truncate(installation: Installation, file: Path, after: str, keep: Path, *,
             dry_run: bool = False, seconds: float = LONG_SECONDS) -> Truncation:
    """Cut off what follows a transaction, after a copy of it is on disk.

    Interrupted, it leaves the old file or the new one; done again with the same arguments,
    it finishes.

    Args:
        installation: where Python 2.7 is.
        file: the Data.fs; REFUSED while a server has it open.
        after: tid of the last transaction that stays.
        keep: a folder for what is cut; made when it is missing.
        dry_run: only tell what would be cut.
        seconds: time limit.
    """
    more = ["--dry-run"] if dry_run else []
    answer = _run(installation, seconds, "truncate", str(file), "--after", after,
                  "--keep", str(keep), *more)
    names = [field.name for field in dataclasses.fields(Truncation)]
    return Truncation(**{name: answer[name] for name in names}
                      | {"keep": Path(answer["keep"])})


def copy(installation: Installation, source: Path, target: Path,
         on_progress: Callable[[Progress], None] | None = None,
         seconds: float = COPY_SECONDS) -> Copy:
    """Copy a Data.fs, which a server may be writing, up to a complete transaction.

    The target appears when it is complete and on disk; until then it is TARGET.part.  Done
    again after an interruption, it goes on from there.

    Args:
        installation: where Python 2.7 is.
        source: the Data.fs.
        target: must not exist, and no server may have it open.
        on_progress: called about twice a second, in this thread.
        seconds: time limit.
    """
    return Copy(**_run(installation, seconds, "copy", str(source), str(target),
                       on_progress=on_progress))


def _run(installation: Installation, seconds: float, command: str, *arguments: str,
         on_progress: Callable[[Progress], None] | None = None) -> dict[str, Any]:
    with tempfile.TemporaryFile("w+", encoding="utf-8") as output:
        try:
            process = subprocess.Popen(
                [installation.python27, "-m", PROGRAM, "--end-with-input", command, *arguments],
                stdin=subprocess.PIPE, stdout=output, stderr=subprocess.PIPE,
                env=installation.environment27(), encoding="utf-8", errors="replace")
        except OSError as error:
            raise _failure(command, f"{installation.python27}: {error.strerror}",
                           ExitCode.NOT_INSTALLED) from error
        detail = _follow(process, seconds, command, on_progress)
        if process.returncode:
            raise _failure(command, detail or f"exit status {process.returncode}",
                           EXIT_CODES.get(process.returncode, ExitCode.FAILED))
        output.seek(0)
        answer = json.load(output)
    if not isinstance(answer, dict):
        raise TypeError(f"{command} answered {answer!r}")
    return answer


def _follow(process: subprocess.Popen[str], seconds: float, command: str,
            on_progress: Callable[[Progress], None] | None) -> str:
    """Read what the program says until its end; returns the last line that is no progress."""
    assert process.stderr is not None  # noqa: S101  # for the type checker
    said = ""
    late = threading.Event()

    def end() -> None:
        late.set()
        process.kill()

    timer = threading.Timer(seconds, end)
    timer.start()
    with process:
        try:
            for line in process.stderr:
                if not line.startswith("{"):
                    said = line.strip()
                elif on_progress is not None:
                    on_progress(Progress(**json.loads(line)))
            process.wait()
        finally:
            timer.cancel()
            process.kill()
    if late.is_set():
        raise _failure(command, f"it did not end within {seconds:g} seconds",
                       ExitCode.TIMED_OUT)
    return said


def _failure(command: str, detail: str, exit_code: ExitCode) -> OperatorError:
    return OperatorError(WHAT_FAILED[command], detail, exit_code=exit_code)
