"""Making and filling a Python 2.7 environment from exactly the wheels it is to have."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from pip._vendor.packaging import tags

from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.recipe.index import IndexFile, Target
from indico_zodbrepl.recipe.interpreters import Python27
from indico_zodbrepl.recipe.processes import clean_environment, run
from indico_zodbrepl.recipe.wheels import Wheel, WheelFolder

_QUIET = ("-q", "--disable-pip-version-check", "--no-python-version-warning", "--no-input")
# Sources that take seconds to compile: each begins a group of its own.
SLOW_TO_BUILD = ("relstorage", "reportlab", "ujson", "simplejson", "scandir", "setproctitle")


def make_environment(executable: str, location: Path) -> None:
    """Make an empty Python 2.7 environment; virtualenv brings its pip, setuptools and wheel.

    Args:
        executable: a Python 2.7.
        location: the folder; must not exist.
    """
    # virtualenv would else keep data in the user's home.
    with tempfile.TemporaryDirectory(prefix="virtualenv-") as data:
        environ = {**clean_environment(), "VIRTUALENV_OVERRIDE_APP_DATA": data}
        command: list[str | Path] = [sys.executable, "-m", "virtualenv", "-q", "--no-download"]
        command += ["--no-periodic-update", "-p", executable, location]
        run(command, "make the Python 2.7 environment", environ)


def target_of(interpreter: Python27) -> Target:
    """What files serve a Python 2.7 on this machine."""
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
    """Build wheels of sources, by the environment's own pinned setuptools, into the folder.

    Each source is named to pip by its URL with its pinned SHA-256, which pip checks; unlike pip's
    ``--require-hashes`` that lets it use the wheels it built of the same files before.

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
    """Share sources among a few long runs of pip (it starts slowly), the slow ones apart."""

    def slowness(file: IndexFile) -> int:
        name = file.pin.key[0]
        return SLOW_TO_BUILD.index(name) if name in SLOW_TO_BUILD else len(SLOW_TO_BUILD)

    ordered = sorted(sources, key=slowness)
    return [group for number in range(jobs) if (group := ordered[number::jobs])]


def install_wheels(python: Path, wheels: Sequence[Wheel]) -> None:
    """Install exactly these wheels into an environment; pip checks each against its SHA-256."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as requirements:
        requirements.writelines(
            f"{wheel.pin.name} @ {wheel.path.as_uri()} --hash=sha256:{wheel.sha256}\n"
            for wheel in wheels
        )
        requirements.flush()
        command: list[str | Path] = [python, "-m", "pip", "--isolated", "install", *_QUIET]
        command += ["--no-deps", "--no-index", "--require-hashes", "-r", requirements.name]
        run(command, "install the packages for Python 2.7")
