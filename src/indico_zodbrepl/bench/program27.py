"""Runs a benchmark's program on Python 2.7, in a process of its own."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..cluster.installation import Installation
from ..errors import ExitCode, OperatorError

PACKAGE = "indico_zodbrepl.dataplane.benchmarks"
_TAIL_LINES = 12
_TRACEBACK = "Traceback (most recent call last):"


def run(installation: Installation, module: str, arguments: Sequence[str | Path], *,
        folder: Path, cores: Sequence[int] = (), seconds: float) -> dict[str, Any]:
    """Run ``python2.7 -m dataplane.benchmarks.MODULE`` and return what it prints.

    Args:
        folder: its working directory, where its standard error is kept as MODULE.err.
        cores: numbers of the cores that it may use; () for all.
        seconds: time limit; after it the process is killed.

    Raises:
        OperatorError: exit 1, it failed: with the end of its standard error; exit 7, not in time.
    """
    with start(installation, module, arguments, folder=folder, cores=cores) as process:
        try:
            output, _ = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired as error:
            _kill(process)
            raise OperatorError(f"{module} did not end in time", f"{seconds:.0f} seconds", "",
                                ExitCode.TIMED_OUT) from error
        except BaseException:
            _kill(process)
            raise
    return answer_of(module, process.returncode, output, folder)


def start(installation: Installation, module: str, arguments: Sequence[str | Path], *,
          folder: Path, cores: Sequence[int] = ()) -> subprocess.Popen[str]:
    """The same without waiting: standard input and output are pipes.  The caller ends it."""
    with errors_file(module, folder).open("wb") as errors:
        process = subprocess.Popen(
            [installation.python27, "-m", f"{PACKAGE}.{module}", *arguments], cwd=folder,
            env=installation.environment27(), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=errors, text=True, process_group=0)
    if cores:
        try:
            os.sched_setaffinity(process.pid, cores)
        except BaseException:
            with process:
                _kill(process)
            raise
    return process


def _kill(process: subprocess.Popen[str]) -> None:
    """End a program with all processes that it started, and wait for it."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def answer_of(module: str, status: int, output: str, folder: Path) -> dict[str, Any]:
    """The JSON object in the last line of a program's output.

    Raises:
        OperatorError: exit 1, it failed.
    """
    try:
        answer: Mapping[str, Any] = json.loads((output.splitlines() or [""])[-1])
    except ValueError:
        answer = {}
    if status or not isinstance(answer, dict):
        told = errors_file(module, folder).read_text("utf-8", "replace").splitlines()
        raise OperatorError(f"{module} failed", "\n".join(
            [f"exit status {status}", *telling(told)]))
    return answer


def telling(errors: Sequence[str]) -> Sequence[str]:
    """Those lines of standard error that say what went wrong: the last ones.

    After a traceback it is where the error was raised, and what it says; that may be a table of
    thousands of lines, of which only the first ones are needed.
    """
    begins = [number for number, line in enumerate(errors) if line.startswith(_TRACEBACK)]
    if begins:
        after = [number for number in range(begins[-1] + 1, len(errors))
                 if not errors[number].startswith(" ")]
        if after and len(errors) - after[0] > _TAIL_LINES // 2:
            return errors[max(begins[-1], after[0] - _TAIL_LINES // 2):
                          after[0] + _TAIL_LINES // 2]
    return errors[-_TAIL_LINES:]


def errors_file(module: str, folder: Path) -> Path:
    """Where a program's standard error is kept."""
    return folder / f"{module.replace('.', '-')}.err"
