"""The Python 3 side: ``.venv`` with pinned packages, from a kept folder of wheels."""

from __future__ import annotations

import importlib
import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.recipe import stamps
from indico_zodbrepl.recipe.pins import read_pins
from indico_zodbrepl.recipe.processes import clean_environment, run

REQUIREMENTS = "requirements-bootstrap.txt"
_QUIET = ("-q", "--disable-pip-version-check", "--no-input")
_EXACT = ("--no-deps", "--require-hashes", "--only-binary", ":all:")


class ControlEnvironment:
    """``.venv`` of one clone.

    Args:
        home: folder of the clone.
    """

    def __init__(self, home: Path) -> None:
        self.home = home
        self.folder = home / ".venv"
        self.python = self.folder / "bin/python"
        self.requirements = home / REQUIREMENTS
        self.wheels = home / "downloads/wheels-3"

    def is_fresh(self) -> bool:
        """Whether it is finished, made of today's pins, in this place, and its Python runs."""
        return stamps.is_fresh(self.folder, self._facts()) and self._runs()

    def make(self) -> None:
        """Make it anew, and forget what buildout installed with the old one.

        What buildout remembers names files by their full path: in a copied clone those are the
        other clone's, which it would delete.

        Raises:
            OperatorError: no way to make one, or a package could not be got.
        """
        for leftover in (self.folder, self.home / "bin", self.home / "develop-eggs"):
            shutil.rmtree(leftover, ignore_errors=True)
        (self.home / ".installed.cfg").unlink(missing_ok=True)
        installer = self._make_empty()
        self._fill(installer)
        stamps.write_stamp(self.folder, self._facts())

    def _facts(self) -> dict[str, str]:
        return {"home": str(self.home), "pins": stamps.sha256_of(self.requirements)}

    def _runs(self) -> bool:
        try:
            return (
                subprocess.run(
                    [self.python, "-c", "import sys; sys.exit(sys.version_info < (3, 11))"],
                    env=clean_environment(),
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    check=False,
                ).returncode
                == 0
            )
        except OSError:
            return False

    def _make_empty(self) -> tuple[list[str | Path], dict[str, str]]:
        """Make it without packages; the pip to fill it with, as a command and its environment."""
        environ = clean_environment()
        own_pip = self._kept_pip()
        if importlib.util.find_spec("venv") is None:
            raise self._no_way()
        if own_pip is not None:
            environ["PYTHONPATH"] = str(own_pip)
            pip: list[str | Path] = [self.python, "-m", "pip"]
        elif _has_ensurepip():
            pip = [self.python, "-m", "pip"]
        elif _has_pip_for_others():
            pip = [sys.executable, "-m", "pip", "--python", self.python]
        else:
            raise self._no_way()
        bundled = own_pip is None and pip[0] == self.python
        run(
            [sys.executable, "-m", "venv", *([] if bundled else ["--without-pip"]), self.folder],
            "make the Python 3 environment .venv",
        )
        return pip, environ

    def _kept_pip(self) -> Path | None:
        """The pinned pip among the kept wheels: a wheel of pip runs as it is."""
        for pin in read_pins(self.requirements):
            if pin.name == "pip":
                wheel = self.wheels / f"pip-{pin.version}-py3-none-any.whl"
                if wheel.is_file() and stamps.sha256_of(wheel) in pin.hashes:
                    return wheel
        return None

    def _fill(self, installer: tuple[list[str | Path], dict[str, str]]) -> None:
        pip, environ = installer
        # Isolated: pip's settings are for the index, which this does not ask.
        install = [*pip, "--isolated", "install", *_QUIET, *_EXACT, "--no-index", "--find-links"]
        install += [self.wheels.as_uri(), "-r", self.requirements]
        if self.wheels.is_dir():
            try:
                run(install, "install the Python 3 packages", environ)
                return
            except OperatorError:
                print("bootstrap: kept wheels are missing; asking the package index", flush=True)
        self.wheels.mkdir(parents=True, exist_ok=True)
        run(
            [*pip, "download", *_QUIET, *_EXACT, "-d", self.wheels, "-r", self.requirements],
            "download the Python 3 packages",
            environ,
        )
        run(install, "install the Python 3 packages", environ)

    def _no_way(self) -> OperatorError:
        version = f"{sys.version_info[0]}.{sys.version_info[1]}"
        return OperatorError(
            "this Python cannot make a virtual environment",
            f"{sys.executable} ({version}) lacks venv or ensurepip, and has no pip of its own",
            f"Debian and Ubuntu: apt install python{version}-venv; elsewhere: run ./bootstrap by "
            "another Python 3.11 or later",
            ExitCode.NOT_INSTALLED,
        )


def _has_ensurepip() -> bool:
    """Whether this Python brings the pip that ``venv`` installs; Debian packages it apart."""
    try:
        importlib.import_module("ensurepip").version()
    except ImportError:
        return False
    return True


def _has_pip_for_others() -> bool:
    """Whether this Python has a pip that can fill another environment (pip 22.3 or later)."""
    return (
        subprocess.run(
            [sys.executable, "-m", "pip", "--python", sys.executable, "--version"],
            env=clean_environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        ).returncode
        == 0
    )
