"""Commands of ``bin/zodbrepl``, each in a process of its own that need not import anything.

The processes are forked from one that has imported the program. A command takes half of the time
then; all else is as if it were typed.
"""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from unittest import mock

from indico_zodbrepl.cli import main

HERE = str(Path(__file__).parent)
_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["every_command"])
_start = threading.Lock()


def run(
    arguments: Sequence[str], home: Path, *, seconds: float
) -> subprocess.CompletedProcess[str]:
    """Run ``bin/zodbrepl ARGUMENTS`` of an installation without input; output as text.

    Raises subprocess.TimeoutExpired, and kills the command, after ``seconds``.
    """
    return _run(None, arguments, home, seconds)


def run_program(
    program: str, arguments: Sequence[str], home: Path, *, seconds: float
) -> subprocess.CompletedProcess[str]:
    """Run ``python -c PROGRAM ARGUMENTS`` as ``run`` runs a command."""
    return _run(program, arguments, home, seconds)


def _run(
    program: str | None, arguments: Sequence[str], home: Path, seconds: float
) -> subprocess.CompletedProcess[str]:
    with tempfile.NamedTemporaryFile() as out, tempfile.NamedTemporaryFile() as err:
        environ = {**os.environ, "ZODBREPL_HOME": str(home)}
        process = _context.Process(
            target=_command,
            args=(program, list(arguments), environ, os.getcwd(), (out.name, err.name)),
        )
        # The first start is that of the server too, which has its path from the environment.
        with _start, mock.patch.dict(os.environ, PYTHONPATH=os.pathsep.join([HERE, *sys.path])):
            process.start()
        process.join(seconds)
        late = process.exitcode is None
        if late:
            process.kill()
            process.join()
        code = process.exitcode
        process.close()
        told = [Path(each.name).read_text() for each in (out, err)]
    if late:
        raise subprocess.TimeoutExpired(list(arguments), seconds, *told)
    assert code is not None
    return subprocess.CompletedProcess(list(arguments), code, *told)


def _command(
    program: str | None,
    arguments: list[str],
    environ: dict[str, str],
    folder: str,
    output: tuple[str, str],
) -> None:
    """Become the command, or the program; runs in the new process."""
    for number, path in enumerate(output, 1):
        opened = os.open(path, os.O_WRONLY | os.O_APPEND)
        os.dup2(opened, number)
        os.close(opened)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environ)
    if program is None:
        main(arguments, prog_name="zodbrepl")
    else:
        sys.argv[:] = ["-c", *arguments]
        exec(compile(program, "<string>", "exec"), {"__name__": "__main__"})  # noqa: S102
