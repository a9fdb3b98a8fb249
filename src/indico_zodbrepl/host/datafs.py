"""Read, compare, export, truncate and copy Data.fs files with the data plane's program.

Servers may have the files open, except where a function says otherwise.  Every function raises
OperatorError: REFUSED if a file is damaged, in use, lacks the transaction or if the target
exists; TIMED_OUT if the program did not finish in time.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.errors import ExitCode
from indico_zodbrepl.host import py27
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


def describe(found: Comparison, name: str, upstream: str) -> str:
    """Return a comparison in one line."""
    parts = [
        f"{found.private} transaction{'s' * (found.private != 1)} only on node {name}"
        + (f" ({found.private_first} to {found.private_last})" if found.private else ""),
        f"{found.conflicting} with the same id and other content" if found.conflicting else "",
        f"{found.holes} missing among older ones" if found.holes else "",
        f"{found.missing} only on node {upstream}",
        _blobs(found, name, upstream),
        f"the last common one is {found.common.tid}"
        if found.common
        else "no transaction in common",
    ]
    return "; ".join(filter(None, parts))


def _blobs(found: Comparison, name: str, upstream: str) -> str:
    """Return the difference of blobs in words, or an empty text."""
    first = found.differing_blob
    if first is None:
        return ""
    sizes = [
        f"{'missing' if size is None else f'{size} bytes'} on node {node}"
        for node, size in ((name, first.size), (upstream, first.upstream_size))
    ]
    content = "" if first.size != first.upstream_size else ", other content"
    count = found.blobs_differing
    return (
        f"the files of {count} common blob{'s' * (count != 1)} differ, the oldest that of object "
        f"{first.oid} in transaction {first.tid}: {', '.join(sizes)}{content}"
    )


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


@dataclasses.dataclass(frozen=True)
class DataFile:
    """A Data.fs as the file system knows it.

    Attributes:
        bytes: its size.
        identity: a text that changes with the file.
    """

    bytes: int
    identity: str


@dataclasses.dataclass(frozen=True)
class Last:
    """The last complete transaction of a file.

    Attributes:
        tid: 16 hexadecimal digits; None if there is no transaction.
        time: when it was committed, ISO 8601 in UTC; None when there is none.
        end: position after it, in bytes.
        size: of the file, in bytes; more than ``end`` when an unfinished one follows.
    """

    tid: str | None
    time: str | None
    end: int
    size: int


class Relation(enum.StrEnum):
    """The relation of a file's history to its upstream's."""

    EMPTY = "empty"
    EQUAL = "equal"
    BEHIND = "behind"
    AHEAD = "ahead"
    DIVERGED = "diverged"
    UNRELATED = "unrelated"

    @property
    def may_follow(self) -> bool:
        """Return True if the file's node may start as that upstream's secondary."""
        return self in {Relation.EMPTY, Relation.EQUAL, Relation.BEHIND}


@dataclasses.dataclass(frozen=True)
class Common:
    """A transaction that both files have, with the digest of its content."""

    tid: str
    digest: str


@dataclasses.dataclass(frozen=True)
class DifferingBlob:
    """A blob of a common transaction whose files differ.

    Attributes:
        oid, tid: of its record, 16 hexadecimal digits each.
        size, upstream_size: bytes of its two files; None for a missing one.
    """

    oid: str
    tid: str
    size: int | None
    upstream_size: int | None


@dataclasses.dataclass(frozen=True)
class Comparison:
    """How a file's history relates to its upstream's; counts are transactions.

    Attributes:
        relation: the result.
        common: the last common transaction before the histories diverge.
        private: those that only the file has; ``private_first`` and ``private_last`` are tids.
        missing: those that only the upstream has.
        holes: those of ``missing`` that are older than a common one.  A secondary would never
            fetch them.
        conflicting: those with the same tid and different content.
        packed: whether one of the files was packed.
        packed_away: those that only the file has, but that a pack of the upstream may have
            removed; ``packed_away_last`` is a tid.
        bytes_private: of the private and the conflicting ones, in the file.
        examined: transactions read one by one in both files.
        packed_away_after: the file's last transaction before the first of ``packed_away``.
        blobs: of common transactions, whose files were compared.
        blobs_differing: those whose files differ in size or content, or that one side lacks; the
            relation is ``diverged`` then.
        blobs_missing_upstream: those of them that only the upstream lacks.
        blobs_private: transactions with a blob whose content only the file's node has.
        differing_blob: the oldest of ``blobs_differing``.
        unreadable: bytes of the file's damaged end, which were not compared.
    """

    relation: Relation
    common: Common | None
    private: int
    private_first: str | None
    private_last: str | None
    missing: int
    holes: int
    conflicting: int
    packed: bool
    packed_away: int
    packed_away_last: str | None
    bytes_private: int
    examined: int
    packed_away_after: str | None = None
    blobs: int = 0
    blobs_differing: int = 0
    blobs_missing_upstream: int = 0
    blobs_private: int = 0
    differing_blob: DifferingBlob | None = None
    unreadable: int = 0

    @property
    def upstream_lacks_blobs(self) -> bool:
        """Return True if the only difference is that the upstream lacks blob files."""
        return 0 < self.blobs_differing == self.blobs_missing_upstream and not (
            self.private or self.conflicting or self.holes
        )

    def unproven(self, verified: str | None) -> int:
        """Return how many transactions can't be shown to be common, after a verified tid.

        For a node that was writable since: a pack of the upstream may have removed them, or the
        upstream never had them.
        """
        last = self.packed_away_last
        return self.packed_away if last is not None and last > (verified or "") else 0

    @property
    def last(self) -> str:
        """Return the tid of the file's last transaction; 16 zeroes if it has none."""
        common = self.common.tid if self.common else None
        known = (common, self.private_last, self.packed_away_last)
        return max((each for each in known if each), default="0" * 16)


@dataclasses.dataclass(frozen=True)
class MissingBlob:
    """A blob without a file, with the path inside the folder that it should have."""

    oid: str
    tid: str
    path: str


@dataclasses.dataclass(frozen=True)
class BlobAudit:
    """The files of a data file's blobs.

    Attributes:
        blobs, bytes: of the revisions whose files are there.
        missing: newest revisions without a file; ``first_missing`` is the newest of them.
        unreferenced, unreferenced_bytes: files without a transaction, which a crash left;
            ``first_unreferenced`` is a path inside the folder.
    """

    blobs: int
    bytes: int
    missing: int
    first_missing: MissingBlob | None
    unreferenced: int
    unreferenced_bytes: int
    first_unreferenced: str | None


@dataclasses.dataclass(frozen=True)
class Export:
    """A recovery export: the last transactions of a file.

    Attributes:
        folder: holds tail.fs, tail.json, and blobs if there are any.
        after: tid of the last transaction before it.
        first, last: tids; None when there was nothing to export.
        transactions: how many.
        objects: how many records of objects; ``new`` and ``changed`` add up to it.
        bytes: of the transactions in the original file.
        blobs, missing_blobs: how many were copied, and how many were missing.
        notable: the first few of Indico's objects, such as ``Conference 12 "Title"``.
    """

    folder: Path
    after: str
    first: str | None
    last: str | None
    transactions: int
    objects: int
    new: int
    changed: int
    bytes: int
    blobs: int
    missing_blobs: int
    notable: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Truncation:
    """A truncation of a file, done or planned.

    Attributes:
        after: tid of the last transaction that stays.
        offset: length of the file afterwards, in bytes.
        bytes: how many are removed, with damaged and unfinished transactions.
        transactions: how many complete ones are removed, from ``first`` to ``last`` (tids).
        blobs: how many blobs they have, whose files have ``blob_bytes``.
        keep: the folder with the removed bytes: cut.bin, cut.index, cut.json, blobs.
        sha256: of cut.bin; None before it is written.
        done: false after a dry run.
    """

    after: str
    offset: int
    bytes: int
    transactions: int
    first: str | None
    last: str | None
    blobs: int
    keep: Path
    sha256: str | None
    done: bool
    blob_bytes: int = 0


@dataclasses.dataclass(frozen=True)
class Copy:
    """A finished copy.

    Attributes:
        tid: its last transaction; None when it has none.
        bytes: its length; ``resumed`` of them come from an interrupted copy.
        blobs: how many blobs it has; ``blob_bytes`` were copied.
        seconds: duration.
    """

    tid: str | None
    bytes: int
    resumed: int
    blobs: int
    blob_bytes: int
    seconds: float


@dataclasses.dataclass(frozen=True)
class Progress:
    """The progress of a copy, in bytes.

    Attributes:
        stage: ``data`` or ``blobs``.
        done: in this stage, with the bytes that an interrupted copy had left.
        total: None while it is unknown.
    """

    stage: str
    done: int
    total: int | None
