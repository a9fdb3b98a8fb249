"""The answers of the data plane's program about Data.fs files."""

from __future__ import annotations

import dataclasses
import enum
from pathlib import Path


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
