"""Where MariaDB's programs are."""

from __future__ import annotations

import dataclasses
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from ...cluster.settings import MariaDBSettings
from ...errors import ExitCode, OperatorError

SERVER = "mariadbd"
INSTALL = "mariadb-install-db"
DUMP = "mariadb-dump"
CLIENT = "mariadb"
NEEDED = (SERVER, INSTALL, DUMP, CLIENT)

PACKAGE = "mariadb-server"

# Debian has the server where PATH of ordinary users does not look.
SYSTEM_FOLDERS = ("/usr/local/sbin", "/usr/sbin")


@dataclasses.dataclass(frozen=True)
class Programs:
    """The programs by name; all of ``NEEDED`` are there."""

    paths: Mapping[str, Path]

    def path(self, name: str) -> str:
        return str(self.paths[name])


def find(settings: MariaDBSettings) -> Programs:
    """The programs in ``bin-directory``; without one on PATH, or where Debian has the server.

    Raises:
        OperatorError: exit 4, some are nowhere.
    """
    folders = search_path(settings)
    found = {name: shutil.which(name, path=os.pathsep.join(folders)) for name in NEEDED}
    missing = [name for name, path in found.items() if path is None]
    if missing:
        raise OperatorError(
            f"MariaDB's programs are not installed: no {', '.join(missing)}",
            f"looked in {', '.join(folders)}",
            f"apt-get install {PACKAGE}; or name their folder: bin-directory in <mariadb>",
            ExitCode.NOT_INSTALLED)
    return Programs({name: Path(path) for name, path in found.items() if path})


def search_path(settings: MariaDBSettings) -> list[str]:
    """The folders that programs are looked for in."""
    if settings.bin_directory is not None:
        return [str(settings.bin_directory)]
    return [*os.environ.get("PATH", os.defpath).split(os.pathsep), *SYSTEM_FOLDERS]
