"""Locations of the installed programs that the control plane starts."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

from indico_zodbrepl.cluster.datatypes import UNSAFE_IN_PATH
from indico_zodbrepl.errors import ExitCode, OperatorError

NOT_FOR_PYTHON27 = ("PYTHONPATH", "PYTHONHOME")


@dataclasses.dataclass(frozen=True)
class Installation:
    """The folder that the set-up filled; ``home`` is absolute."""

    home: Path

    @property
    def python27(self) -> Path:
        """Return the Python 2.7 with Indico, the storage servers and the data plane."""
        return self.home / "parts" / "python27" / "bin" / "python"

    @property
    def indico_source(self) -> Path:
        """Return the folder of the patched Indico."""
        return self.home / "parts" / "indico"

    @property
    def htdocs(self) -> Path:
        """Return the folder of Indico's static files."""
        return self.indico_source / "indico" / "htdocs"

    @property
    def supervisord(self) -> Path:
        return self.home / "bin" / "supervisord"

    @property
    def zodbrepl(self) -> Path:
        return self.home / "bin" / "zodbrepl"

    @property
    def bulkload(self) -> Path:
        return self.home / "bin" / "bulkload"

    @property
    def repair(self) -> str:
        """Return the command that completes this installation."""
        try:
            return (self.home / "parts" / "repair").read_text("utf-8").strip()
        except OSError:
            return f"cd {self.home} && ./bootstrap"

    def environment27(self, **variables: str) -> dict[str, str]:
        """Return the environment for a Python 2.7 program.

        Variables for another Python, such as PYTHONPATH and PYTHONHOME, are removed.

        Args:
            variables: additional variables.
        """
        return {
            name: value for name, value in os.environ.items() if name not in NOT_FOR_PYTHON27
        } | variables

    def check(self) -> None:
        """Raise OperatorError (exit 4) if a program that a cluster needs is missing."""
        unsafe = UNSAFE_IN_PATH.search(str(self.home))
        if unsafe:
            raise OperatorError(
                "the installation can't be used where it is",
                f"its path holds {unsafe.group()!r}: {self.home}",
                f"move it, then: {self.repair}",
                ExitCode.NOT_INSTALLED,
            )
        missing = [
            path
            for path in (self.python27, self.supervisord, self.zodbrepl)
            if not os.access(path, os.X_OK)
        ]
        missing += [path for path in (self.htdocs,) if not path.is_dir()]
        if missing:
            raise OperatorError(
                "the installation is not complete",
                f"missing: {', '.join(map(str, missing))}",
                self.repair,
                ExitCode.NOT_INSTALLED,
            )


def home_from_environment() -> Path:
    """Return ``$ZODBREPL_HOME``, which bin/ scripts set, or the clone that this module is in.

    Raises:
        OperatorError: exit 4; it is in no clone.
    """
    value = os.environ.get("ZODBREPL_HOME")
    if value:
        return Path(value).absolute()
    clone = Path(__file__).resolve().parents[3]
    if not (clone / "bootstrap").is_file():
        raise OperatorError(
            "this zodbrepl belongs to no installation",
            "ZODBREPL_HOME is not set",
            "install with: zodbrepl setup --home DIR; then use DIR/bin/zodbrepl",
            ExitCode.NOT_INSTALLED,
        )
    return clone


def default_cluster_file(home: Path) -> Path:
    """Return ``$ZODBREPL_CLUSTER``, which bin/ scripts may set, or ``etc/cluster.conf``."""
    value = os.environ.get("ZODBREPL_CLUSTER")
    return Path(value).absolute() if value else home / "etc" / "cluster.conf"
