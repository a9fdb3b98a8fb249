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
    """The folder that ``./bootstrap`` filled; ``home`` is absolute."""

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
                "move it, then: ./bootstrap",
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
                f"cd {self.home} && ./bootstrap",
                ExitCode.NOT_INSTALLED,
            )


def home_from_environment() -> Path:
    """Return ``$ZODBREPL_HOME``, which bin/ scripts set, or the folder above src/."""
    value = os.environ.get("ZODBREPL_HOME")
    return Path(value).absolute() if value else Path(__file__).resolve().parents[3]
