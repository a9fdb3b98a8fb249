"""Programs for Python 2.7, each in a process of its own that need not import the storages.

The processes are forked from one that has imported ZODB and ZEO, see dataplane/forking.py. A short
program takes a quarter of the CPU time then; all else is as with ``python -c``.
"""

from __future__ import annotations

import atexit
import json
import os
import select
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

FORKING = Path(__file__).parents[1] / "dataplane/forking.py"


class _Server:
    """The process of one interpreter that others are forked from; one at a time."""

    def __init__(self, python: Path) -> None:
        self._process = subprocess.Popen(
            [python, FORKING, "server"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
        )
        self._free = threading.Lock()

    def run(self, request: Mapping[str, object], seconds: float) -> int | None:
        """Return the exit code of the program; None if it took longer and was killed."""
        deadline = time.monotonic() + seconds
        with self._free:
            assert self._process.stdin
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            _started, pid = self._answer()
            in_time = self._answers_before(deadline)
            if not in_time:
                os.kill(pid, signal.SIGKILL)
            _ended, _pid, status = self._answer()
        return os.waitstatus_to_exitcode(status) if in_time else None

    def close(self) -> None:
        """Let the process end."""
        self._process.communicate()

    def _answers_before(self, deadline: float) -> bool:
        assert self._process.stdout
        remaining = max(0.0, deadline - time.monotonic())
        return bool(select.select([self._process.stdout], [], [], remaining)[0])

    def _answer(self) -> list[Any]:
        assert self._process.stdout
        found: list[Any] = json.loads(self._process.stdout.readline())
        return found


_servers: dict[Path, _Server] = {}
_start = threading.Lock()


def run(
    python: Path,
    program: str,
    *arguments: object,
    seconds: float,
    environ: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run ``PYTHON -c PROGRAM ARGUMENTS`` without input; return its exit code and output as text.

    Raises subprocess.TimeoutExpired, and kills the program, after ``seconds``.
    """
    with _start:
        if python not in _servers:
            _servers[python] = _Server(python)
            atexit.register(_servers[python].close)
    given = list(map(str, arguments))
    with tempfile.NamedTemporaryFile() as out, tempfile.NamedTemporaryFile() as err:
        request = {
            "args": ["-c", program, *given],
            "env": dict(os.environ if environ is None else environ),
            "cwd": str(folder or Path.cwd()),
            "out": out.name,
            "err": err.name,
        }
        code = _servers[python].run(request, seconds)
        told = [Path(each.name).read_text() for each in (out, err)]
    if code is None:
        raise subprocess.TimeoutExpired([program, *given], seconds, *told)
    return subprocess.CompletedProcess([program, *given], code, *told)


def output_of(
    python: Path,
    program: str,
    *arguments: object,
    seconds: float,
    environ: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> str:
    """Run a program that has to succeed, as ``run`` does; return its standard output."""
    done = run(python, program, *arguments, seconds=seconds, environ=environ, folder=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout
