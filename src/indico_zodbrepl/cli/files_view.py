"""The output of ``zodbrepl files``."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from rich.filesize import decimal

from indico_zodbrepl.cluster import Cluster
from indico_zodbrepl.cluster.model import FileStore
from indico_zodbrepl.host.uploads import (
    Amount,
    Entry,
    Exported,
    Imported,
    OnProgress,
    Progress,
    Survey,
    Verified,
)
from indico_zodbrepl.operations.files import Move

PROGRESS_SECONDS = 2.0
SHOWN = 20  # entries of a list; `verify` shows all


def survey_lines(found: Survey) -> list[str]:
    """Return the numbers of files, and which are missing."""
    return [
        f"in the archive, {found.archive}: {amount(found.archived)}",
        f"in the database: {amount(found.stored)}",
        *_listed("missing in the archive", found.missing),
    ]


def new_files_lines(cluster: Cluster, wanted: FileStore) -> list[str]:
    """Return a line if new files go to the other place than those that are moved."""
    if cluster.files is wanted:
        return []
    return [
        f"new files go elsewhere meanwhile, as {cluster.source.name} says: `files {cluster.files}`"
    ]


def dry_run_lines(move: Move) -> list[str]:
    """Return what a move would do, and the room for it."""
    found, lines = move.survey, []
    if found.unreferenced is not None and found.unreferenced.files:
        lines.append(f"in the archive, without an entry: {amount(found.unreferenced)}")
        lines += [f"  {each}" for each in found.unreferenced.named]
        more = found.unreferenced.files - len(found.unreferenced.named)
        lines += [f"  and {more:,} more"] if more else []
    lines += [f"room of {each}" for each in move.rooms]
    return lines + [
        f"room of node {each}: unknown, its disk can't be asked" for each in move.unasked
    ]


def imported_lines(done: Imported, seconds: float) -> list[str]:
    """Return what was imported, and what was not."""
    lines = [f"imported and verified: {amount(done.imported)}{_rate(done.imported, seconds)}"]
    if done.skipped:
        lines.append(f"changed or deleted by others meanwhile: {_files(done.skipped)}")
    lines += _listed("missing in the archive; their entries stay", done.missing)
    lines += _listed("not imported; their entries stay", done.failed)
    if done.imported.files:
        lines.append(f"Indico no longer needs the imported files in {done.archive}")
    return lines


def exported_lines(done: Exported, to: Path | None, seconds: float) -> list[str]:
    """Return what was exported, and what was not."""
    what = "exported" if to is None else "copied"
    rate = _rate(done.exported, seconds)
    lines = [f"{what} and verified: {amount(done.exported)}, to {to or done.archive}{rate}"]
    if done.renamed:
        lines.append(
            f"in a folder of their own, because the name was taken: {_files(done.renamed)}"
        )
    if done.skipped:
        lines.append(f"changed or deleted by others meanwhile: {_files(done.skipped)}")
    return lines + _listed(f"not {what}; their entries stay", done.failed)


def verified_lines(label: str, done: Verified, seconds: float) -> list[str]:
    """Return the result of a verification, with all findings."""
    read = f"{amount(done.verified)} in the database{_rate(done.verified, seconds)}"
    lines = [f"{label}: {read}; {_files(done.archived)} in the archive"]
    if not done.findings:
        return [*lines, f"{label}: all files are there and right"]
    return [
        *lines,
        f"{label}: {_files(len(done.findings))} missing or different",
        *map(_entry, done.findings),
    ]


def printed(step: Callable[[str], None], what: str) -> OnProgress:
    """Return a function that prints progress every two seconds."""
    last = time.monotonic()

    def tell(progress: Progress) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= PROGRESS_SECONDS:
            last = now
            step(progress_line(progress, what))

    return tell


def progress_line(progress: Progress, what: str) -> str:
    """Return files and bytes of all, the rate and the remaining time."""
    line = (
        f"{what} {progress.files:,} of {_files(progress.of_files)}, "
        f"{decimal(progress.bytes)} of {decimal(progress.of_bytes)}"
    )
    if not (progress.seconds and progress.bytes):
        return line
    rate = progress.bytes / progress.seconds
    left = (progress.of_bytes - progress.bytes) / rate
    return f"{line}, {decimal(int(rate))}/s, {left:.0f} s left"


def amount(found: Amount) -> str:
    """Return a number of files and their size in words."""
    return f"{_files(found.files)}, {decimal(found.bytes)}"


def _rate(found: Amount, seconds: float) -> str:
    if not (found.files and seconds):
        return ""
    return f", in {seconds:.1f} s ({decimal(int(found.bytes / seconds))}/s)"


def _listed(title: str, found: Sequence[Entry]) -> list[str]:
    if not found:
        return []
    lines = [f"{title}: {_files(len(found))}", *map(_entry, found[:SHOWN])]
    more = len(found) - SHOWN
    return [*lines, f"  and {more:,} more: `files verify` lists all"] if more > 0 else lines


def _entry(found: Entry) -> str:
    owner = found.owner or f"repository {found.repository}, id {found.id}"
    why = f": {found.why}" if found.why else ""
    return f"  {owner}: {found.name} ({found.path}){why}"


def _files(number: int) -> str:
    return f"{number:,} file{'s' * (number != 1)}"
