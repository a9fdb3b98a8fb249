"""Create a Python 2.7 environment from pinned wheels, kept in a cache folder.

With a complete cache, an environment can be rebuilt without a network. ``SHA256SUMS`` in the
folder (format of ``sha256sum``) records the wheels built here. A wheel is used only if its SHA-256
is pinned (downloaded from the index) or recorded (built from a pinned source).
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

from pip._vendor.packaging import tags

from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.setup import stamps
from indico_zodbrepl.setup.index import PARTIAL, IndexFile, Target, wheel_key
from indico_zodbrepl.setup.interpreters import Python27
from indico_zodbrepl.setup.pins import Pin
from indico_zodbrepl.setup.processes import clean_environment, run

_QUIET = ("-q", "--disable-pip-version-check", "--no-python-version-warning", "--no-input")
MANIFEST = "SHA256SUMS"
STAGING = ".staging-"
# Packages that take long to compile; each starts its own group.
SLOW_TO_BUILD = ("relstorage", "reportlab", "ujson", "simplejson", "scandir", "setproctitle")


def make_environment(executable: str, location: Path) -> None:
    """Create a Python 2.7 environment with only virtualenv's pip, setuptools and wheel.

    Args:
        executable: a Python 2.7.
        location: the folder; must not exist.
    """
    # Otherwise virtualenv stores data in the user's home.
    with tempfile.TemporaryDirectory(prefix="virtualenv-") as data:
        environ = {**clean_environment(), "VIRTUALENV_OVERRIDE_APP_DATA": data}
        command: list[str | Path] = [sys.executable, "-m", "virtualenv", "-q", "--no-download"]
        command += ["--no-periodic-update", "-p", executable, location]
        run(command, "create the Python 2.7 environment", environ)


def target_of(interpreter: Python27) -> Target:
    """Return the version, ABI and platform tags that this interpreter accepts."""
    platform = subprocess.run(
        [interpreter.path, "-c", "import sysconfig; print(sysconfig.get_platform())"],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        env=clean_environment(),
    ).stdout.strip()
    own = re.sub(r"[-.]", "_", platform)
    platforms = tuple(tags.platform_tags()) if own.startswith("linux") else (own,)
    return Target(interpreter.version, interpreter.abi, platforms)


def build_wheels(python: Path, sources: Sequence[IndexFile], folder: WheelFolder) -> None:
    """Build wheels from source releases with the environment's pinned setuptools.

    pip gets each source as a URL with its pinned SHA-256 and checks it. Unlike
    ``--require-hashes``, this lets pip reuse wheels that it built earlier from the same file.

    Raises:
        OperatorError: one cannot be fetched or built.
    """
    jobs = 2 * (os.cpu_count() or 1)
    groups = spread(sources, jobs)

    def build(number: int) -> list[Path]:
        staging = folder.staging(str(number))
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as requirements:
            requirements.writelines(
                f"{file.pin.name} @ {file.url}#sha256={file.sha256}\n" for file in groups[number]
            )
            requirements.flush()
            command: list[str | Path] = [python, "-m", "pip", "wheel", *_QUIET, "--no-deps"]
            command += ["--no-build-isolation", "-w", staging, "-r", requirements.name]
            run(command, "build packages for Python 2.7")
        return sorted(staging.glob("*.whl"))

    with ThreadPoolExecutor(jobs) as pool:
        failures = []
        for result in as_completed([pool.submit(build, number) for number in range(len(groups))]):
            try:
                folder.take(result.result())
            except OperatorError as error:
                failures.append(error)
    if failures:
        raise failures[0]


def spread(sources: Sequence[IndexFile], jobs: int) -> list[list[IndexFile]]:
    """Distribute sources over a few runs of pip, one slow package each; pip starts slowly."""

    def slowness(file: IndexFile) -> int:
        name = file.pin.key[0]
        return SLOW_TO_BUILD.index(name) if name in SLOW_TO_BUILD else len(SLOW_TO_BUILD)

    ordered = sorted(sources, key=slowness)
    return [group for number in range(jobs) if (group := ordered[number::jobs])]


def install_wheels(python: Path, wheels: Sequence[Wheel]) -> None:
    """Install exactly these wheels; pip checks each SHA-256."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as requirements:
        requirements.writelines(
            f"{wheel.pin.name} @ {wheel.path.as_uri()} --hash=sha256:{wheel.sha256}\n"
            for wheel in wheels
        )
        requirements.flush()
        command: list[str | Path] = [python, "-m", "pip", "--isolated", "install", *_QUIET]
        command += ["--no-deps", "--no-index", "--require-hashes", "-r", requirements.name]
        run(command, "install the packages for Python 2.7")


@dataclass(frozen=True)
class Wheel:
    """A verified wheel in the folder."""

    pin: Pin
    path: Path
    sha256: str


class WheelFolder:
    """A folder of wheels for one ABI. One process at a time: ``./bootstrap`` holds the lock.

    Args:
        folder: created if missing.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        for leftover in folder.glob(f"{STAGING}*"):
            shutil.rmtree(leftover)
        for leftover in folder.glob(f"{PARTIAL}*"):
            leftover.unlink()

    def good(self, pins: Iterable[Pin]) -> tuple[dict[Pin, Wheel], list[str]]:
        """Return the usable wheels for these pins, and the names of altered files."""
        recorded = self._manifest()
        by_key = {wheel_key(path.name): path for path in sorted(self.folder.glob("*.whl"))}
        found, altered = {}, []
        for pin in pins:
            path = by_key.get(pin.key)
            if path is None:
                continue
            digest = stamps.sha256_of(path)
            if digest in pin.hashes or recorded.get(path.name) == digest:
                found[pin] = Wheel(pin, path, digest)
            else:
                altered.append(path.name)
        return found, altered

    def staging(self, name: str) -> Path:
        """Return an empty folder to build in; the next run removes leftovers."""
        folder = self.folder / f"{STAGING}{name}"
        folder.mkdir()
        return folder

    def take(self, built: Sequence[Path]) -> None:
        """Record built wheels, then move them into the folder."""
        recorded = self._manifest()
        recorded.update((path.name, stamps.sha256_of(path)) for path in built)
        text = "".join(f"{digest}  {name}\n" for name, digest in sorted(recorded.items()))
        stamps.write_atomically(self.folder / MANIFEST, text)
        for path in built:
            path.replace(self.folder / path.name)

    def remove(self, names: Iterable[str]) -> None:
        """Delete wheels by file name."""
        for name in names:
            (self.folder / name).unlink()

    def _manifest(self) -> dict[str, str]:
        path = self.folder / MANIFEST
        if not path.is_file():
            return {}
        entries = (line.split("  ", 1) for line in path.read_text().splitlines() if "  " in line)
        return {name: digest for digest, name in entries}
