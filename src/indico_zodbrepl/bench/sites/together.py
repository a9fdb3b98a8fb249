"""Run several Python 2.7 programs that start their work at the same moment."""

from __future__ import annotations

import contextlib
import select
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from indico_zodbrepl.bench import processes27
from indico_zodbrepl.bench.sites.site import Site
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host import py27

READY = "ready"
READY_SECONDS = 60.0


def run(
    site: Site, module: str, arguments: Sequence[Sequence[str | Path]], *, seconds: float
) -> list[dict[str, Any]]:
    """Run a program once for each list of arguments and return their results.

    All start working when the last one is ready.

    Args:
        module: in ``dataplane.benchmarks``.
        seconds: time limit for all; they are killed afterwards.

    Raises:
        OperatorError: exit 1, one failed (with the end of standard error); exit 7, timeout.  All
            have stopped by then.
    """
    deadline = time.monotonic() + seconds
    with contextlib.ExitStack() as started:
        programs = [
            started.enter_context(Program(site, module, str(number), each))
            for number, each in enumerate(arguments)
        ]
        for program in programs:
            program.wait_until_ready(_left(deadline))
        for program in programs:
            program.tell("go")
        return [program.answer(_left(deadline)) for program in programs]


class Program:
    """Context manager for a program: started on entry, gone on exit.  One thread only.

    Args:
        name: distinguishes it from other programs of the same module.
        cores: numbers of the CPU cores to use; () for all.
    """

    def __init__(
        self,
        site: Site,
        module: str,
        name: str,
        arguments: Sequence[str | Path],
        cores: Sequence[int] = (),
    ) -> None:
        self._module = module
        self._folder = site.folder / f"{module}-{name}"
        self._folder.mkdir(exist_ok=True)
        self._stack = contextlib.ExitStack()
        self._process = self._stack.enter_context(
            processes27.started(
                site.installation, module, arguments, folder=self._folder, cores=cores
            )
        )
        self._said, self._told = _piped(self._process.stdout), _piped(self._process.stdin)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        py27.kill(self._process)
        self._stack.close()

    @property
    def pid(self) -> int:
        return self._process.pid

    def wait_until_ready(self, seconds: float = READY_SECONDS) -> None:
        """Wait for the line that reports readiness.

        Raises:
            OperatorError: exit 7, timeout; exit 1, it exited (with the end of its output).
        """
        if self._line(seconds) != READY:
            self._process.communicate()
            self._of(self._process.returncode or 1, "")

    def tell(self, line: str) -> None:
        """Send a line."""
        try:
            self._told.write(line + "\n")
            self._told.flush()
        except BrokenPipeError:
            pass  # it has ended: what it answered says why

    def next_answer(self, seconds: float) -> dict[str, Any]:
        """Wait for the next JSON object of a program that continues afterwards.

        Raises:
            OperatorError: as ``wait_until_ready``.
        """
        if line := self._line(seconds):
            return self._of(0, line)
        self._process.communicate()
        return self._of(self._process.returncode or 1, "")

    def answer(self, seconds: float) -> dict[str, Any]:
        """Wait for the program's exit and return its JSON result.

        Raises:
            OperatorError: as ``wait_until_ready``.
        """
        return self._of(*self._end(seconds))

    def wait_for_end(self, seconds: float) -> None:
        """Wait for the exit of a program that has answered.

        Raises:
            OperatorError: as ``wait_until_ready``.
        """
        status, _ = self._end(seconds)
        self._of(status, "{}")

    def _line(self, seconds: float) -> str:
        """Return the next line; '' at the end of the output."""
        said, _, _ = select.select([self._said], [], [], seconds)
        if not said:
            raise self._late(seconds)
        return self._said.readline().strip()

    def _end(self, seconds: float) -> tuple[int, str]:
        """Close its input; return exit status and remaining output."""
        try:
            output, _ = self._process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            raise self._late(seconds) from None
        return self._process.returncode, output

    def _of(self, status: int, output: str) -> dict[str, Any]:
        return processes27.answer_of(self._module, status, output, self._folder)

    def _late(self, seconds: float) -> OperatorError:
        return OperatorError(
            f"{self._module} did not end in time",
            f"{seconds:.0f} seconds",
            exit_code=ExitCode.TIMED_OUT,
        )


def _piped(stream: IO[str] | None) -> IO[str]:
    if stream is None:
        raise ValueError("the program was started without a pipe")
    return stream


def _left(deadline: float) -> float:
    return max(0.0, deadline - time.monotonic())
