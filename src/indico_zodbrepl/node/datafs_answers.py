"""What is told about Data.fs files, by the functions of ``datafs``."""

from __future__ import annotations

import dataclasses
import enum
from pathlib import Path


@dataclasses.dataclass(frozen=True)
class Last:
    """The last complete transaction of a file.

    Attributes:
        tid: 16 hexadecimal digits; None when there is no transaction.
        time: when it was committed, ISO 8601 in UTC; None when there is none.
        end: position after it, in bytes.
        size: of the file, in bytes; more than ``end`` when an unfinished one follows.
    """

    tid: str | None
    time: str | None
    end: int
    size: int


class Relation(enum.StrEnum):
    """How a file's history relates to its upstream's."""

    EMPTY = "empty"
    EQUAL = "equal"
    BEHIND = "behind"
    AHEAD = "ahead"
    DIVERGED = "diverged"
    UNRELATED = "unrelated"

    @property
    def may_follow(self) -> bool:
        """Whether the file's node may start as that upstream's follower."""
        return self in {Relation.EMPTY, Relation.EQUAL, Relation.BEHIND}


@dataclasses.dataclass(frozen=True)
class Common:
    """A transaction that both files have, with the digest of its content."""

    tid: str
    digest: str


@dataclasses.dataclass(frozen=True)
class Comparison:
    """How a file's history relates to its upstream's; counts are transactions.

    Attributes:
        relation: the verdict.
        common: the last common transaction before the two go apart.
        private: those that only the file has; ``private_first`` and ``private_last`` are tids.
        missing: those that only the upstream has.
        holes: those of ``missing`` that are older than a common one, which a follower would
            never fetch.
        conflicting: those with the same tid and different content.
        packed: whether one of the files was packed.
        packed_away: those that only the file has, but that a pack of the upstream may have
            removed; ``packed_away_last`` is a tid.  When the node was writable since it was
            verified, and this is newer, transactions of its own may be among them.
        bytes_private: of the private and the conflicting ones, in the file.
        examined: transactions read one by one in both files.
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


@dataclasses.dataclass(frozen=True)
class Export:
    """The end of a file, exported.

    Attributes:
        folder: where it is: tail.fs, tail.json, and blobs when there are any.
        after: tid of the last transaction before it.
        first, last: tids; None when there was nothing to export.
        transactions: how many.
        objects: how many records of objects; ``new`` and ``changed`` add up to it.
        bytes: of the transactions in the original file.
        blobs, missing_blobs: how many were copied, and were not there.
        notable: what the first few of Indico's objects are, such as ``Conference 12 "Title"``.
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
    """The end of a file, cut off or to be cut off.

    Attributes:
        after: tid of the last transaction that stays.
        offset: length of the file afterwards, in bytes.
        bytes: how many are cut; includes what is damaged or unfinished.
        transactions: how many complete ones are cut, from ``first`` to ``last`` (tids).
        blobs: how many blobs they have; their files stay where they are.
        keep: the folder with what was cut: cut.bin, cut.index, cut.json.
        sha256: of cut.bin; None when nothing was kept yet.
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


@dataclasses.dataclass(frozen=True)
class Copy:
    """A file was copied.

    Attributes:
        tid: its last transaction; None when it has none.
        bytes: its length; ``resumed`` of them were there from an interrupted copy.
        blobs: how many blobs it has; ``blob_bytes`` is what was copied of them.
        seconds: how long it took.
    """

    tid: str | None
    bytes: int
    resumed: int
    blobs: int
    blob_bytes: int
    seconds: float


@dataclasses.dataclass(frozen=True)
class Progress:
    """How far a copy is, in bytes.

    Attributes:
        stage: ``data`` or ``blobs``.
        done: since the beginning of the stage, with what an earlier copy had left.
        total: None while it is not known.
    """

    stage: str
    done: int
    total: int | None
