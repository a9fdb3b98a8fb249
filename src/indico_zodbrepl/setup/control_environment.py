"""The Python 3 environment: ``.venv`` with pinned packages, installed from cached wheels."""

from __future__ import annotations

import importlib
import importlib.util
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.setup import stamps
from indico_zodbrepl.setup.pins import read_pins
from indico_zodbrepl.setup.processes import clean_environment, run

_QUIET = ("-q", "--disable-pip-version-check", "--no-input")
_EXACT = ("--no-deps", "--require-hashes", "--only-binary", ":all:")


class ControlEnvironment:
    """The ``.venv`` of one installation.

    Args:
        home: folder of the installation.
        requirements: files of pins.
        downloads: folder that keeps downloaded packages.
    """

    def __init__(self, home: Path, requirements: Sequence[Path], downloads: Path) -> None:
        self.home = home
        self.folder = home / ".venv"
        self.python = self.folder / "bin/python"
        self.requirements = tuple(requirements)
        self.wheels = downloads / "wheels-3"

    def is_fresh(self) -> bool:
        """Return True if it is complete, matches the pins and this path, and its Python runs."""
        return stamps.is_fresh(self.folder, self._facts()) and self._runs()

    def make(self) -> None:
        """Create it from scratch.

        Raises:
            OperatorError: this Python cannot create one, or a package is not available.
        """
        shutil.rmtree(self.folder, ignore_errors=True)
        installer = self._make_empty()
        self._fill(installer)
        stamps.write_stamp(self.folder, self._facts())

    def see(self, packages: Path) -> None:
        """Put a folder of packages on its path."""
        show = "import sysconfig; print(sysconfig.get_path('purelib'))"
        found = Path(run([self.python, "-c", show], "find the packages of Python 3").strip())
        stamps.write_atomically(found / "zz-indico-zodbrepl.pth", f"{packages}\n")

    def _facts(self) -> dict[str, str]:
        return {"home": str(self.home), "pins": stamps.digest_of(self.requirements)}

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
        """Create it without packages; return the pip command to fill it, and its environment."""
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
            "create the Python 3 environment .venv",
        )
        return pip, environ

    def _kept_pip(self) -> Path | None:
        """Return the cached wheel of the pinned pip; it can run without being installed."""
        for pin in (pin for path in self.requirements for pin in read_pins(path)):
            if pin.name == "pip":
                wheel = self.wheels / f"pip-{pin.version}-py3-none-any.whl"
                if wheel.is_file() and stamps.sha256_of(wheel) in pin.hashes:
                    return wheel
        return None

    def _fill(self, installer: tuple[list[str | Path], dict[str, str]]) -> None:
        pip, environ = installer
        # Isolated: this step does not use the index, so pip's settings do not apply.
        install = [*pip, "--isolated", "install", *_QUIET, *_EXACT, "--no-index", "--find-links"]
        install += [self.wheels.as_uri(), *self._files()]
        if self.wheels.is_dir():
            try:
                run(install, "install the Python 3 packages", environ)
                return
            except OperatorError:
                print(
                    "setup: cached wheels are missing; downloading them",
                    flush=True,
                )
        self.wheels.mkdir(parents=True, exist_ok=True)
        run(
            [*pip, "download", *_QUIET, *_EXACT, "-d", self.wheels, *self._files()],
            "download the Python 3 packages",
            environ,
        )
        run(install, "install the Python 3 packages", environ)

    def _files(self) -> list[str | Path]:
        return [argument for path in self.requirements for argument in ("-r", path)]

    def _no_way(self) -> OperatorError:
        version = f"{sys.version_info[0]}.{sys.version_info[1]}"
        return OperatorError(
            "this Python cannot create a virtual environment",
            f"{sys.executable} ({version}) lacks venv or ensurepip, and has no pip",
            f"Debian and Ubuntu: apt install python{version}-venv; elsewhere: use another "
            "Python 3.11 or later",
            ExitCode.NOT_INSTALLED,
        )


def _has_ensurepip() -> bool:
    """Return True if this Python bundles pip for ``venv``; Debian packages it separately."""
    try:
        importlib.import_module("ensurepip").version()
    except ImportError:
        return False
    return True


def _has_pip_for_others() -> bool:
    """Return True if this Python's pip can install into another environment (pip 22.3+)."""
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
