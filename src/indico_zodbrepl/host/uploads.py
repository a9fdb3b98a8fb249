"""Uploaded files: count, import, export and verify them with the data plane's program.

The program is a client of the storage and reads the archive's folder of this host.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from indico_zodbrepl.cluster import Cluster
from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.errors import ExitCode
from indico_zodbrepl.host import py27
from indico_zodbrepl.host.py27 import Argument, Program
from indico_zodbrepl.host.recovering import configured

MODULE = "indico_zodbrepl.dataplane.uploads"
SILENCE_SECONDS = 1800.0
"""One huge file may take minutes, and a survey prints nothing; a hung storage never answers."""
LOCKED = 8
"""Exit status of the program: another process has the data file open."""
EXIT_CODES = {
    4: ExitCode.TIMED_OUT,
    5: ExitCode.REFUSED,
    6: ExitCode.NOT_RUNNING,
    LOCKED: ExitCode.REFUSED,
    9: ExitCode.FAILED,
}
Answer = TypeVar("Answer")


@dataclasses.dataclass(frozen=True)
class Amount:
    """A number of files, and their bytes."""

    files: int
    bytes: int


@dataclasses.dataclass(frozen=True)
class Entry:
    """An entry of one of Indico's file repositories.

    Attributes:
        owner: the event or category, in words; empty if its path does not tell.
        name: of the file.
        path: in the archive, or the one that it would have there.
        why: what is wrong with it.
    """

    repository: str
    id: str
    owner: str
    name: str
    path: str
    why: str = ""


@dataclasses.dataclass(frozen=True)
class Unreferenced(Amount):
    """Files in the archive that no entry refers to; ``named`` are some of their paths."""

    named: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Survey:
    """The result of a survey.

    Attributes:
        archive: the folder of files that are not in the database.
        archived, stored: files with an entry: in the archive, and in the database.
        missing: entries whose file is missing in the archive.
        unreferenced: None if they were not looked for.
    """

    archive: Path
    archived: Amount
    stored: Amount
    missing: tuple[Entry, ...]
    unreferenced: Unreferenced | None


@dataclasses.dataclass(frozen=True)
class Imported:
    """The result of an import.

    Attributes:
        skipped: entries that others changed or removed meanwhile.
        missing: entries whose file is missing in the archive.
        failed: entries that stay as they are for another reason.
    """

    archive: Path
    imported: Amount
    skipped: int
    missing: tuple[Entry, ...]
    failed: tuple[Entry, ...]


@dataclasses.dataclass(frozen=True)
class Exported:
    """The result of an export.

    Attributes:
        skipped: entries that others changed or removed meanwhile.
        renamed: files whose name was taken by another file.
        failed: entries that stay as they are.
    """

    archive: Path
    exported: Amount
    skipped: int
    renamed: int
    failed: tuple[Entry, ...]


@dataclasses.dataclass(frozen=True)
class Verified:
    """The result of a verification.

    Attributes:
        archived: number of entries of files in the archive.
        verified: files in the database, whose content was read.
        findings: entries whose file is missing or differs.
    """

    archive: Path
    archived: int
    verified: Amount
    findings: tuple[Entry, ...]


@dataclasses.dataclass(frozen=True)
class Progress:
    """The progress of the work; ``seconds`` since it began."""

    files: int
    of_files: int
    bytes: int
    of_bytes: int
    seconds: float


OnProgress = Callable[[Progress], None]


@dataclasses.dataclass(frozen=True)
class Files:
    """The uploaded files of a cluster.

    Attributes:
        conf: the ZODB configuration that they are read and written through.
        archive: the folder of archived files; None for the one that Indico has.
    """

    cluster: Cluster
    installation: Installation
    conf: Path
    archive: Path | None = None

    def survey(self, *, unreferenced: bool = False) -> Survey:
        """Count files; change nothing.  Raises OperatorError.

        Args:
            unreferenced: also read the whole folder of the archive.
        """
        options: list[Argument] = ["--unreferenced"] if unreferenced else []
        return self._run("survey", "the files can't be counted", options, Survey)

    def import_all(self, on_progress: OnProgress) -> Imported:
        """Import the files of the archive; see ``dataplane.uploads.importing``.

        Raises OperatorError: exit 6, the storage is away; exit 7, others kept changing the same
        entries; exit 1, a disk is full.
        """
        return self._run("import", "the import stopped", [], Imported, on_progress)

    def export_all(self, to: Path | None, on_progress: OnProgress) -> Exported:
        """Export the files of the database; see ``dataplane.uploads.exporting``.

        Args:
            to: a folder to copy them to; None to move them into the archive.

        Raises OperatorError as ``import_all``.
        """
        options: list[Argument] = [] if to is None else ["--to", to]
        return self._run("export", "the export stopped", options, Exported, on_progress)

    def verify(self, on_progress: OnProgress) -> Verified:
        """Read all files of the database; change nothing.  Raises OperatorError."""
        return self._run("verify", "the files can't be verified", [], Verified, on_progress)

    def _run(
        self,
        command: str,
        failure: str,
        options: list[Argument],
        answer: type[Answer],
        on_progress: OnProgress | None = None,
    ) -> Answer:
        archive = self.archive
        if archive is None and not self.cluster.indico:
            archive = Layout(self.cluster).archive
        if archive is not None:
            options = [*options, "--archive", archive]
        return py27.run(
            self.installation,
            Program(
                MODULE, failure, EXIT_CODES, hint=Commands.here(self.cluster).zodbrepl("status")
            ),
            command,
            self.conf,
            *options,
            answer=answer,
            progress=Progress,
            on_progress=on_progress,
            silence=SILENCE_SECONDS,
            environment=self._environment(),
        )

    def _environment(self) -> Mapping[str, str]:
        if not self.cluster.indico:
            return {}
        instance = configured(self.cluster, self.installation)
        return {"INDICO_CONF": str(Layout(self.cluster).indico_conf(instance))}
