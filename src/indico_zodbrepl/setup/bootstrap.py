"""Set up an installation: both environments, Indico and the commands in ``bin/``."""

from __future__ import annotations

import argparse
import dataclasses
import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.setup import debian, interpreters, stamps
from indico_zodbrepl.setup.control_environment import ControlEnvironment
from indico_zodbrepl.setup.material import Material
from indico_zodbrepl.setup.processes import LOCK_VARIABLE, clean_environment, explain, run
from indico_zodbrepl.setup.wanted import Wanted

OUTPUTS = (
    "bin/zodbrepl",
    "bin/bulkload",
    "bin/indico-python",
    "bin/supervisord",
    "bin/supervisorctl",
    "bin/control-python",
    "parts/python27/.made-of.json",
    "parts/python27/bin/python",
    "parts/indico/.made-of.json",
)
OUTPUTS_OF_A_CLONE = (
    "bin/pytest",
    "bin/mypy",
    "bin/ruff",
    "src/indico_zodbrepl.egg-info/entry_points.txt",
)
BUILD = "indico_zodbrepl.setup.software"
EXAMPLE = "cluster.conf"
REPAIR = "repair"
"""Name of the file with the command that repeats the installation."""


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
    return reporting(
        lambda: set_up(
            Wanted(home, Material.of(home / "src"), home / "downloads"),
            install_python27=options.install_python27,
        )
    )


def reporting(work: Callable[[], object]) -> int:
    """Do the work of an installation; return the exit code after one message for a failure."""
    try:
        work()
    except OperatorError as error:
        print(error, file=sys.stderr)
        return int(error.exit_code)
    except KeyboardInterrupt:
        print("setup: interrupted; run it again to finish", file=sys.stderr)
        return int(ExitCode.INTERRUPTED)
    except OSError as error:
        print(explain("complete the installation", f"ERROR: {error}"), file=sys.stderr)
        return int(ExitCode.FAILED)
    return int(ExitCode.OK)


def set_up(wanted: Wanted, python27: str = "", *, install_python27: bool = False) -> None:
    """Install what is wanted; do nothing if it is installed already.

    Args:
        python27: a Python 2.7 to use; "" for the one named by ``$INDICO_PYTHON27``, the one used
            before, or one that is found.
        install_python27: install one on Debian if none is found.

    Raises:
        OperatorError: something is missing; what was installed before is kept where possible.
    """
    with lock(wanted.downloads):
        _set_up(wanted, python27 or os.environ.get(interpreters.VARIABLE, ""), install_python27)


@contextmanager
def lock(downloads: Path) -> Iterator[None]:
    """Hold the installation lock, which is in the folder of downloads.

    Wait for another installation, and for child processes that a killed one left running.
    """
    downloads.mkdir(parents=True, exist_ok=True)
    with (downloads / ".lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("setup: another one is running; waiting for it", flush=True)
            fcntl.flock(file, fcntl.LOCK_EX)
        os.environ[LOCK_VARIABLE] = str(file.fileno())
        yield


def _set_up(wanted: Wanted, named: str, may_install_python27: bool) -> None:
    parts = wanted.parts
    before = stamps.read_stamp(parts).get("python27", "")
    environment = ControlEnvironment(wanted.home, wanted.requirements, wanted.downloads)
    if (
        named in ("", before)
        and stamps.is_fresh(parts, wanted.facts(before))
        and _all_made(wanted)
        and environment.is_fresh()
        and _runs(parts / "python27/bin/python")
    ):
        print("setup: everything is up to date")
        return
    python27 = _python27(wanted, before, named, may_install_python27)
    print(f"setup: Python 2.7 is {python27.path}", flush=True)
    if not shutil.which("patch"):
        raise OperatorError(
            "the program `patch` is missing",
            "it applies the patches to Indico",
            f"install it (Debian: apt install patch), then repeat: {wanted.again}",
            ExitCode.NOT_INSTALLED,
        )
    parts.mkdir(parents=True, exist_ok=True)
    stamps.write_atomically(parts / REPAIR, f"{wanted.again}\n")
    _write_example(wanted)
    facts = wanted.facts(named or python27.path)
    (parts / stamps.STAMP).unlink(missing_ok=True)
    if not environment.is_fresh():
        print("setup: creating .venv, the Python 3 environment", flush=True)
        environment.make()
    _build(wanted, environment, python27.path)
    stamps.write_stamp(parts, facts)
    print("setup: done")


def _python27(wanted: Wanted, before: str, named: str, may_install: bool) -> interpreters.Python27:
    environ = {**os.environ, interpreters.VARIABLE: named}

    def find() -> interpreters.Python27:
        return interpreters.find(environ, before=before, never_below=wanted.parts)

    try:
        return find()
    except OperatorError:
        if not may_install or named:
            raise
    debian.install_python27()
    return find()


def _write_example(wanted: Wanted) -> None:
    """Give an installation that names no cluster file one to begin with."""
    path = wanted.cluster_file
    if wanted.cluster is None and not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        stamps.write_atomically(path, (wanted.material.examples / EXAMPLE).read_text("utf-8"))
        print(f"setup: wrote {path}, an example: a ZRS pair on this machine", flush=True)


def _build(wanted: Wanted, environment: ControlEnvironment, python27: str) -> None:
    """Let the new environment, which has the pinned pip, install the rest; it prints failures."""
    material = wanted.material
    carried = wanted.parts / "package"
    if wanted.is_clone:
        # Python 2.7 finds our Indico plugin through src/*.egg-info.
        describe: list[str | Path] = [environment.python, "setup.py", "-q", "egg_info"]
        run(describe, "describe this distribution", cwd=wanted.home)
    elif material.packages != carried:
        material = material.copy_to(carried)
    environment.see(material.packages)
    request = dataclasses.replace(wanted, material=material).to_json()
    finished = subprocess.run(
        [environment.python, "-m", BUILD, request, python27],
        cwd=wanted.home,
        env=clean_environment(),
        stdin=subprocess.DEVNULL,
        check=False,
        pass_fds=(int(os.environ[LOCK_VARIABLE]),),
    )
    if finished.returncode:
        raise SystemExit(finished.returncode if finished.returncode > 0 else int(ExitCode.FAILED))


def _all_made(wanted: Wanted) -> bool:
    outputs = OUTPUTS + (OUTPUTS_OF_A_CLONE if wanted.is_clone else ())
    return all((wanted.home / name).exists() for name in outputs)


def _runs(python27: Path) -> bool:
    try:
        interpreters.probe(python27)
    except interpreters.Unusable:
        return False
    return True
