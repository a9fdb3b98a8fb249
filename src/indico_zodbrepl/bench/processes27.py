"""Run a benchmark program on Python 2.7 in its own process."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host import py27
from indico_zodbrepl.host.py27 import Program

PACKAGE = "indico_zodbrepl.dataplane.benchmarks"
_TAIL_LINES = 12
_TRACEBACK = "Traceback (most recent call last):"


def run(
    installation: Installation,
    module: str,
    arguments: Sequence[str | Path],
    *,
    folder: Path,
    cores: Sequence[int] = (),
    seconds: float,
) -> dict[str, Any]:
    """Run ``python2.7 -m dataplane.benchmarks.MODULE`` and return its JSON result.

    Args:
        folder: working directory; standard error is kept there as MODULE.err.
        cores: numbers of the CPU cores to use; () for all.
        seconds: time limit; the process is killed afterwards.

    Raises:
        OperatorError: exit 1, it failed (with the end of standard error); exit 7, timeout.
    """
    with started(installation, module, arguments, folder=folder, cores=cores) as process:
        try:
            output, _ = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired as error:
            py27.kill(process)
            raise OperatorError(
                f"{module} did not end in time", f"{seconds:.0f} seconds", "", ExitCode.TIMED_OUT
            ) from error
    return answer_of(module, process.returncode, output, folder)


@contextlib.contextmanager
def started(
    installation: Installation,
    module: str,
    arguments: Sequence[str | Path],
    *,
    folder: Path,
    cores: Sequence[int] = (),
) -> Iterator[subprocess.Popen[str]]:
    """Start a program with pipes for its input and output; it has exited after the context."""
    command = [installation.python27, "-m", f"{PACKAGE}.{module}", *arguments]
    with (
        errors_file(module, folder).open("wb") as errors,
        py27.started(
            Program(f"{PACKAGE}.{module}", f"{module} failed"),
            command,
            installation.environment27(),
            errors=errors,
            folder=folder,
        ) as process,
    ):
        if cores:
            os.sched_setaffinity(process.pid, cores)
        yield process


def answer_of(module: str, status: int, output: str, folder: Path) -> dict[str, Any]:
    """Return the JSON object in the last line of a program's output.

    Raises:
        OperatorError: exit 1, the program failed.
    """
    try:
        answer: Mapping[str, Any] = json.loads((output.splitlines() or [""])[-1])
    except ValueError:
        answer = {}
    if status or not isinstance(answer, dict):
        told = errors_file(module, folder).read_text("utf-8", "replace").splitlines()
        raise OperatorError(
            f"{module} failed", "\n".join([f"exit status {status}", *telling(told)])
        )
    return answer


def telling(errors: Sequence[str]) -> Sequence[str]:
    """Return the last lines of standard error that explain a failure.

    After a traceback these are the raising line and the message, shortened if it is a long table.
    """
    begins = [number for number, line in enumerate(errors) if line.startswith(_TRACEBACK)]
    if begins:
        after = [
            number
            for number in range(begins[-1] + 1, len(errors))
            if not errors[number].startswith(" ")
        ]
        if after and len(errors) - after[0] > _TAIL_LINES // 2:
            return errors[
                max(begins[-1], after[0] - _TAIL_LINES // 2) : after[0] + _TAIL_LINES // 2
            ]
    return errors[-_TAIL_LINES:]


def errors_file(module: str, folder: Path) -> Path:
    """Return the path that keeps a program's standard error."""
    return folder / f"{module.replace('.', '-')}.err"
