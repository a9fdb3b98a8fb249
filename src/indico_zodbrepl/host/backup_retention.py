"""Retention: the series of backups in a folder, which are too old, and their removal."""

from __future__ import annotations

import dataclasses
import itertools
import re
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Protocol

from indico_zodbrepl.cluster.files import sync_folder
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host.backup import alone, failure

PIECE = re.compile(r"(\d{4}(?:-\d\d){5})\.(fs|fsz|deltafs|deltafsz)")
FULL = ("fs", "fsz")


@dataclasses.dataclass(frozen=True)
class Series:
    """A full backup and the incremental ones that need it.

    Attributes:
        first: time in the name of the full backup, ``YYYY-MM-DD-HH-MM-SS`` in UTC.
        last: that of its newest incremental backup, or ``first``.
        names: of the files or folders with data, oldest first.
        bytes: of all of them.
    """

    first: str
    last: str
    names: tuple[str, ...]
    bytes: int


class Retaining(Protocol):
    """A backup driver, as far as retention needs it."""

    def series(self, folder: Path) -> list[Series]:
        """Return the series in a folder, oldest first; none if there is no such folder."""

    def remove_series(self, folder: Path, series: Series) -> None:
        """Remove a series.  Raises OSError."""


def expired(series: Sequence[Series], before: str) -> list[Series]:
    """Return the series that no restore to a time since ``before`` needs.

    A series serves until the next one begins, so the newest never expires.

    Args:
        series: oldest first.
        before: ``YYYY-MM-DD-HH-MM-SS`` in UTC.
    """
    return [old for old, newer in itertools.pairwise(series) if newer.first <= before]


def data_fs_series(folder: Path) -> list[Series]:
    """Return the series of a repozo repository, oldest first.

    Incremental backups before the first full one belong to none.
    """
    found: list[list[str]] = []
    for name in _names(folder):
        piece = PIECE.fullmatch(name)
        if piece and piece[2] in FULL:
            found.append([name])
        elif piece and found:
            found[-1].append(name)
    return [_series(folder, names) for names in found]


def folder_series(paths: Iterable[Path]) -> list[Series]:
    """Return one series for each backup that is a folder of its own."""
    return [
        Series(
            path.name,
            path.name,
            (path.name,),
            sum(each.stat().st_size for each in path.iterdir()),
        )
        for path in paths
    ]


def remove_data_fs(folder: Path, series: Series) -> None:
    """Remove a series of a repozo repository.  Raises OSError.

    The newest piece is removed first: until the full one, what is left of an interrupted removal
    can be restored.  A full piece without a list is removed by the next backup.
    """
    for name in reversed(series.names[1:]):
        _remove(folder, name)
    (folder / f"{series.first}.dat").unlink(missing_ok=True)
    _remove(folder, series.names[0])


def remove_folder(folder: Path, series: Series) -> None:
    """Remove a backup that is a folder; the next backup removes the rest.  Raises OSError."""
    for name in series.names:
        part = folder / f"{name}.part"
        (folder / name).rename(part)
        shutil.rmtree(part)


def remove(keeper: Retaining, folder: Path, wanted: Sequence[Series], verified: str) -> None:
    """Remove series; nobody backs up or restores meanwhile.

    Args:
        verified: name of the newest piece; its series was verified and is never removed.

    Raises OperatorError (exit 8) if the backups changed since, or a file can't be removed.
    """
    with alone(folder):
        found = keeper.series(folder)
        if not found or verified not in found[-1].names or found[-1] in wanted:
            raise OperatorError(
                "no old backup was removed",
                f"the newest backups in {folder} changed while they were verified",
                "retry",
                ExitCode.REFUSED,
            )
        try:
            for each in wanted:
                if each in found:
                    keeper.remove_series(folder, each)
            sync_folder(folder)
        except OSError as error:
            raise failure("an old backup can't be removed", error) from error


def blobs_of(piece: Path) -> Path:
    """Return the list of a piece's blobs."""
    return piece.with_suffix(".blobs")


def _remove(folder: Path, name: str) -> None:
    (folder / name).unlink(missing_ok=True)
    for beside in ((folder / name).with_suffix(".index"), blobs_of(folder / name)):
        beside.unlink(missing_ok=True)


def _series(folder: Path, names: list[str]) -> Series:
    sizes = sum((folder / name).stat().st_size for name in names)
    return Series(names[0].partition(".")[0], names[-1].partition(".")[0], tuple(names), sizes)


def _names(folder: Path) -> list[str]:
    try:
        return sorted(each.name for each in folder.iterdir())
    except FileNotFoundError:
        return []
