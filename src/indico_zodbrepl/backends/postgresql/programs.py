"""Where PostgreSQL's programs are."""

from __future__ import annotations

import dataclasses
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from ...cluster.settings import PostgreSQLSettings
from ...errors import ExitCode, OperatorError

NEEDED = ("postgres", "initdb", "pg_basebackup", "pg_rewind", "pg_controldata")

# Where Debian's packages have them, a folder a version.
DEBIAN_FOLDERS = Path("/usr/lib/postgresql")


@dataclasses.dataclass(frozen=True)
class Programs:
    """The programs of one version; ``folder`` is absolute."""

    folder: Path

    def path(self, name: str) -> Path:
        return self.folder / name


def find(settings: PostgreSQLSettings, version: str | None = None) -> Programs:
    """The programs in ``bin-directory``; without one on PATH, else where Debian has them.

    Args:
        version: the major version of data that is there, which needs programs of the same.

    Raises:
        OperatorError: exit 4, they are nowhere.
    """
    folders = list(_folders(settings))
    complete = [folder for folder in folders
                if all(os.access(folder / name, os.X_OK) for name in NEEDED)]
    for folder in complete:
        if version is None or _version(folder) in (version, None):
            return Programs(folder)
    looked = ", ".join(map(str, folders)) or f"PATH and {DEBIAN_FOLDERS}/*/bin"
    if complete:
        raise OperatorError(
            f"PostgreSQL {version}, which made the data, is not installed", f"looked in {looked}",
            f"apt-get install postgresql-{version}", ExitCode.NOT_INSTALLED)
    raise OperatorError(
        "PostgreSQL's programs are not installed", f"no {', '.join(NEEDED)} in {looked}",
        "apt-get install postgresql; or name their folder: bin-directory in <postgresql>",
        ExitCode.NOT_INSTALLED)


def _folders(settings: PostgreSQLSettings) -> Iterator[Path]:
    if settings.bin_directory is not None:
        yield settings.bin_directory
        return
    on_path = shutil.which("postgres")
    if on_path:
        yield Path(on_path).resolve().parent
    yield from sorted(DEBIAN_FOLDERS.glob("*/bin"), key=_number, reverse=True)


def _version(folder: Path) -> str | None:
    """What Debian's folder says; None of one that is named otherwise."""
    return folder.parent.name if re.fullmatch(r"\d+", folder.parent.name) else None


def _number(folder: Path) -> int:
    return int(_version(folder) or 0)
