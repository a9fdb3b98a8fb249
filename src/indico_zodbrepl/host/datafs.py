"""Read, compare, export, truncate and copy Data.fs files with the data plane's program.

Servers may have the files open, except where a function says otherwise.  Every function raises
OperatorError: REFUSED if a file is damaged, in use, lacks the transaction or if the target
exists; TIMED_OUT if the program did not finish in time.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.errors import ExitCode
from indico_zodbrepl.host import py27
from indico_zodbrepl.host.datafs_answers import (
    BlobAudit,
    Comparison,
    Copy,
    DataFile,
    Export,
    Last,
    Progress,
    Truncation,
)
from indico_zodbrepl.host.py27 import Argument, Program

PROGRAM = "indico_zodbrepl.dataplane.datafs"
DISCONNECTED = 11
"""The program's exit status when the server of the upstream's file is gone."""
SECONDS = 60.0
LONG_SECONDS = 1800.0  # for reading files of many gigabytes from a slow disk
COPY_SECONDS = 6 * 3600.0
# The program's exit status: damaged, in use, no such transaction, the target exists.
EXIT_CODES = dict.fromkeys((4, 5, 6, 8), ExitCode.REFUSED) | {10: ExitCode.NEWER_STATE}
FAILURES = {
    "last": "the end of a data file can't be read",
    "digest": "a transaction can't be read",
    "compare": "two data files can't be compared",
    "export": "the last transactions of a data file can't be exported",
    "truncate": "a data file can't be truncated",
    "copy": "a data file can't be copied",
    "audit-blobs": "the blobs of a data file can't be checked",
}
Answer = TypeVar("Answer")


def last(installation: Installation, file: Path, seconds: float = SECONDS) -> Last:
    """Return the last complete transaction of a file."""
    return _run(installation, seconds, Last, "last", file)


def found(file: Path) -> DataFile | None:
    """Return what the file system knows of a file; None if it is missing."""
    try:
        status = file.stat()
    except OSError:
        return None
    identity = f"{status.st_ino} {status.st_size} {status.st_mtime_ns}"
    return DataFile(status.st_size, identity)


def digest(installation: Installation, file: Path, tid: str) -> str:
    """Return the digest of one transaction's content; REFUSED if the file lacks it."""
    return _run(installation, SECONDS, dict[str, str], "digest", file, tid)["digest"]


def compare(
    installation: Installation,
    file: Path,
    upstream: Path | str,
    verified: str | None = None,
    seconds: float = LONG_SECONDS,
    *,
    fork: str | None = None,
    connection: int | None = None,
    damaged: bool = False,
) -> Comparison:
    """Compare a file's history with its upstream's.

    Args:
        file: the Data.fs of the node that shall follow; counts as empty if it is missing.
        upstream: the Data.fs with the authoritative history.
        verified: a tid up to which both are known to be equal.  The cost grows with the later
            transactions only; without it both files are read completely.
        seconds: time limit.
        fork: a tid up to which the upstream got everything that the file has, and after
            which it got nothing of it; None when that is unknown.
        connection: descriptor of a socket to the server of the upstream's file on another host,
            which ``upstream`` names for messages then; None if the file is here.
        damaged: True to compare what comes before a damaged end of the file; no server may have it
            open then.
    """
    more = [] if verified is None else ["--verified", verified]
    more += [] if fork is None else ["--fork", fork]
    more += [] if connection is None else ["--upstream-socket", str(connection)]
    more += ["--damaged"] if damaged else []
    return _run(
        installation,
        seconds,
        Comparison,
        "compare",
        file,
        upstream,
        *more,
        inherited=() if connection is None else (connection,),
    )


def audit_blobs(
    installation: Installation,
    file: Path,
    newest: int | None = None,
    seconds: float = LONG_SECONDS,
    *,
    put_aside: bool = False,
) -> BlobAudit:
    """Find blobs without a file, and files without a transaction.

    Args:
        newest: check only so many of the newest blobs, which takes a moment; None for everything.
        seconds: time limit.
        put_aside: move the files without a transaction to the folder ``blobs.old``, which the next
            pack removes.
    """
    more = [] if newest is None else ["--newest", str(newest)]
    more += ["--put-aside"] if put_aside else []
    return _run(installation, seconds, BlobAudit, "audit-blobs", file, *more)


def export(
    installation: Installation,
    file: Path,
    after: str,
    folder: Path,
    seconds: float = LONG_SECONDS,
    *,
    with_blobs: bool = True,
    damaged: bool = False,
) -> Export:
    """Export the transactions after ``after`` to a folder, which appears when it is complete.

    Args:
        after: a tid that the file holds; 16 zeroes for everything.
        folder: must not exist.
        seconds: time limit.
        with_blobs: False to leave the blob files out, for a list only.
        damaged: True to export what comes before a damaged end.
    """
    more = [] if with_blobs else ["--no-blobs"]
    more += ["--damaged"] if damaged else []
    return _run(
        installation, seconds, Export, "export", file, "--after", after, "--to", folder, *more
    )


def truncate(
    installation: Installation,
    file: Path,
    after: str,
    keep: Path,
    *,
    dry_run: bool = False,
    seconds: float = LONG_SECONDS,
) -> Truncation:
    """Remove the transactions after ``after``, once a copy of them is on disk.

    An interruption leaves the old file or the new one.  A repetition with the same arguments
    finishes the job.

    Args:
        file: the Data.fs; REFUSED while a server has it open.
        after: tid of the last transaction that stays.
        keep: a folder for the removed bytes; made if it is missing.
        dry_run: only report what would be removed.
        seconds: time limit.
    """
    more = ["--dry-run"] if dry_run else []
    return _run(
        installation, seconds, Truncation, "truncate", file, "--after", after, "--keep", keep, *more
    )


def copy(
    installation: Installation,
    source: Path,
    target: Path,
    on_progress: Callable[[Progress], None] | None = None,
    seconds: float = COPY_SECONDS,
) -> Copy:
    """Copy a Data.fs up to a complete transaction while a server may write it.

    The target appears when it is complete and on disk; until then it is TARGET.part.  A
    repetition after an interruption continues the copy.

    Args:
        source: the Data.fs.
        target: must not exist, and no server may have it open.
        on_progress: called about twice a second, in this thread.
        seconds: time limit.
    """
    return _run(installation, seconds, Copy, "copy", source, target, on_progress=on_progress)


def _run(
    installation: Installation,
    seconds: float,
    answer: type[Answer],
    command: str,
    *arguments: Argument,
    on_progress: Callable[[Progress], None] | None = None,
    inherited: tuple[int, ...] = (),
) -> Answer:
    return py27.run(
        installation,
        Program(PROGRAM, FAILURES[command], EXIT_CODES),
        command,
        *arguments,
        answer=answer,
        progress=Progress,
        on_progress=on_progress,
        seconds=seconds,
        inherited=inherited,
    )
