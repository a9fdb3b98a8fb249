"""``./bootstrap``: create or update the environments, Indico and the commands in ``bin/``."""

from __future__ import annotations

import argparse
import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.setup import debian, interpreters, stamps
from indico_zodbrepl.setup.control_environment import ControlEnvironment
from indico_zodbrepl.setup.processes import LOCK_VARIABLE, clean_environment, explain, run

OUTPUTS = (
    "bin/zodbrepl",
    "bin/bulkload",
    "bin/indico-python",
    "bin/supervisord",
    "bin/supervisorctl",
    "bin/control-python",
    "bin/pytest",
    "bin/mypy",
    "bin/ruff",
    "parts/python27/.made-of.json",
    "parts/python27/bin/python",
    "parts/indico/.made-of.json",
    "src/indico_zodbrepl.egg-info/entry_points.txt",
)

_BUILDOUT = """
import sys
from zc.buildout.buildout import main
try:
    main()
except KeyboardInterrupt:
    sys.exit(130)
"""


def main(home: Path, arguments: list[str]) -> int:
    """Run ``./bootstrap``.

    Args:
        home: folder of the clone, absolute.
        arguments: command line without the program name.

    Returns:
        The process's exit code.
    """
    parser = argparse.ArgumentParser(
        prog="./bootstrap",
        description="Install everything, or bring it up to date. Finished parts are skipped; "
        "an interrupted run is completed by the next one.",
    )
    parser.add_argument(
        "--install-python27",
        action="store_true",
        help="if no Python 2.7 is found: install it from the last Debian suite that has it "
        "(Debian only, as root)",
    )
    options = parser.parse_args(arguments)
    try:
        with lock(home):
            return _bootstrap(home, options.install_python27)
    except OperatorError as error:
        print(error, file=sys.stderr)
        return int(error.exit_code)
    except KeyboardInterrupt:
        print("bootstrap: interrupted; rerun ./bootstrap to finish", file=sys.stderr)
        return int(ExitCode.INTERRUPTED)
    except OSError as error:
        print(explain("complete the installation", f"ERROR: {error}"), file=sys.stderr)
        return int(ExitCode.FAILED)


@contextmanager
def lock(home: Path) -> Iterator[None]:
    """Hold the clone's installation lock.

    Wait for another bootstrap, and for child processes that a killed one left running.
    """
    downloads = home / "downloads"
    downloads.mkdir(exist_ok=True)
    with (downloads / ".lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("bootstrap: another bootstrap is running; waiting for it", flush=True)
            fcntl.flock(file, fcntl.LOCK_EX)
        os.environ[LOCK_VARIABLE] = str(file.fileno())
        yield


def facts_of(home: Path, python27: str) -> dict[str, str]:
    """Return the inputs of the installation; unchanged inputs mean nothing needs to be done."""
    inputs = [
        home / name
        for name in (
            "bootstrap",
            "buildout.cfg",
            "versions.cfg",
            "setup.py",
            "requirements-bootstrap.txt",
            "requirements-2.7.txt",
            "src/indico_zodbrepl/errors.py",
        )
    ]
    inputs += (home / "src/indico_zodbrepl/setup").glob("*.py")
    inputs += (path for path in (home / "patches").rglob("*") if path.is_file())
    return {"home": str(home), "inputs": stamps.digest_of(inputs), "python27": python27}


def _bootstrap(home: Path, may_install_python27: bool) -> int:
    parts = home / "parts"
    before = stamps.read_stamp(parts).get("python27", "")
    environment = ControlEnvironment(home)
    named = os.environ.get(interpreters.VARIABLE, "")
    if (
        named in ("", before)
        and stamps.is_fresh(parts, facts_of(home, before))
        and _all_made(home)
        and environment.is_fresh()
        and _runs(parts / "python27/bin/python")
    ):
        print("bootstrap: everything is up to date")
        return 0
    python27 = _python27(home, before, may_install_python27)
    print(f"bootstrap: Python 2.7 is {python27.path}", flush=True)
    if not shutil.which("patch"):
        raise OperatorError(
            "the program `patch` is missing",
            "it applies the patches to Indico",
            "install it (Debian: apt install patch), then rerun ./bootstrap",
            ExitCode.NOT_INSTALLED,
        )
    if not environment.is_fresh():
        print("bootstrap: creating .venv, the Python 3 environment", flush=True)
        environment.make()
    code = _buildout(environment, named or python27.path)
    if code == 0:
        stamps.write_stamp(parts, facts_of(home, named or python27.path))
        print("bootstrap: done")
    return code


def _python27(home: Path, before: str, may_install: bool) -> interpreters.Python27:
    def find() -> interpreters.Python27:
        return interpreters.find(os.environ, before=before, never_below=home / "parts")

    try:
        return find()
    except OperatorError:
        if not may_install or os.environ.get(interpreters.VARIABLE):
            raise
    debian.install_python27()
    return find()


def _buildout(environment: ControlEnvironment, python27: str) -> int:
    """Run buildout and return its exit code; buildout itself prints what went wrong."""
    # Python 2.7 finds our Indico plugin through src/*.egg-info. Refresh it first: buildout reads
    # it too, and an old one would mislead it.
    describe: list[str | Path] = [environment.python, "setup.py", "-q", "egg_info"]
    run(describe, "describe this distribution", cwd=environment.home)
    environ = clean_environment()
    environ[interpreters.VARIABLE] = python27
    # For pip, 0 means "no isolation" here. With isolation the develop egg would download
    # setuptools at each run.
    environ["PIP_NO_BUILD_ISOLATION"] = "0"
    finished = subprocess.run(
        [environment.python, "-c", _BUILDOUT, "-U"],
        cwd=environment.home,
        env=environ,
        stdin=subprocess.DEVNULL,
        check=False,
        pass_fds=(int(os.environ[LOCK_VARIABLE]),),
    )
    return finished.returncode if finished.returncode >= 0 else int(ExitCode.FAILED)


def _all_made(home: Path) -> bool:
    return all((home / name).exists() for name in OUTPUTS)


def _runs(python27: Path) -> bool:
    try:
        interpreters.probe(python27)
    except interpreters.Unusable:
        return False
    return True
