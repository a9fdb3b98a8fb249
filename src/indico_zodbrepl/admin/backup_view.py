"""The backups of the journal for the page: their age, how often they are made, what is left."""

from __future__ import annotations

import dataclasses
import itertools
import statistics
from collections.abc import Collection, Iterable, Mapping

from indico_zodbrepl.operations.operation import Operation, Outcome

RHYTHM = 8
"""Newest backups, whose pauses tell how often one is made."""


@dataclasses.dataclass(frozen=True)
class Backup:
    """A backup that was made and verified, or for which there was nothing new.

    Attributes:
        identifier: of its entry in the journal.
        at: when it ended, in seconds since 1970.
        kind: ``full``, ``incremental`` or ``none``.
        name: of its file or folder; that of the one before for ``none``.
        folder: ``HOST:FOLDER``, or the folder without host sections.
        bytes, whole: its own, and those of the database after a restore.
        tid: its last transaction, 16 hex digits.
        is_there: True if its folder still has it; None if that is not known.
    """

    identifier: str
    at: float
    kind: str
    name: str
    node: str
    actor: str
    folder: str
    bytes: int
    whole: int
    tid: str
    seconds: float
    is_there: bool | None


@dataclasses.dataclass(frozen=True)
class Backups:
    """All backups of a journal.

    Attributes:
        made: newest first.
        last: the newest in the folder that was looked into; None if there is none.
        failed: the newest attempt that has ended, if it failed.
        unfinished: the newest attempt, if it has not ended: it is running, or was killed.
        pause: median seconds between the newest ones; None for fewer than three.
    """

    made: tuple[Backup, ...]
    last: Backup | None
    failed: Operation | None
    unfinished: Operation | None
    pause: float | None


def backups(entries: Iterable[Operation], folder: str, names: Collection[str] | None) -> Backups:
    """Return the backups of a journal.

    Args:
        entries: in the order in which they began.
        folder: the folder that was looked into, as ``Backup.folder``.
        names: what it holds; None if it could not be looked into.
    """
    tried = [each for each in entries if each.plan.operation == "backup"]
    made: list[Backup] = []
    before: dict[str, str] = {}
    for each in tried:
        if each.outcome is Outcome.DONE:
            found = _backup(each, before, names, folder)
            before[found.folder] = found.name
            made.append(found)
    made.reverse()
    ended = [each for each in tried if each.outcome is not Outcome.RUNNING]
    failed = ended[-1] if ended and ended[-1].outcome is not Outcome.DONE else None
    there = [each for each in made if each.folder == folder]
    times = [each.at for each in there[:RHYTHM]]
    pauses = [later - earlier for later, earlier in itertools.pairwise(times)]
    return Backups(
        tuple(made),
        there[0] if there else None,
        failed,
        tried[-1] if tried and tried[-1].outcome is Outcome.RUNNING else None,
        statistics.median(pauses) if len(pauses) > 1 else None,
    )


def _backup(
    entry: Operation, before: Mapping[str, str], names: Collection[str] | None, looked_into: str
) -> Backup:
    told = entry.figures
    folder = str(told.get("folder") or "")
    name = str(told.get("name") or before.get(folder, ""))
    return Backup(
        entry.identifier,
        entry.ended or entry.began,
        str(told.get("kind", "")),
        name,
        entry.plan.target,
        entry.actor,
        folder,
        int(told.get("bytes") or 0),
        int(told.get("whole") or 0),
        str(told.get("last_tid") or ""),
        float(told.get("seconds") or 0.0),
        None if names is None or folder != looked_into else name in names,
    )
