"""Run the data plane's Python 2.7 programs as child processes.

A program prints one JSON object as the last line of standard output.  On standard error it
writes progress as JSON objects, one a line, and errors as plain text.  It exits when this
process exits.  Its exit status says what failed.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, TypeVar

import msgspec

from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.probing import typed_json

CHILD = "indico_zodbrepl.dataplane.programs.child"
INTERRUPTED = 130
INTERRUPT_SECONDS = 20.0
"""Time that an interrupted program has for a clean end before it is killed."""
TICK_SECONDS = 30.0
KEPT_LINES = 12
QUOTED = 200

Argument = str | Path
Stream = int | IO[bytes] | None
Value = TypeVar("Value")
Answer = TypeVar("Answer")
Progress = TypeVar("Progress")


@dataclasses.dataclass(frozen=True)
class Program:
    """A Python 2.7 module that runs as a program.

    Attributes:
        module: its full name.
        failure: the notice of the error when it fails.
        exit_codes: exit status -> exit code of the error; FAILED for all others.
        accepted: exit statuses that come with an answer.
        hint: the hint of the error.
        shown: how many lines of standard error the error quotes at most.
    """

    module: str
    failure: str
    exit_codes: Mapping[int, ExitCode] = dataclasses.field(default_factory=dict)
    accepted: tuple[int, ...] = (0,)
    hint: str = ""
    shown: int = 1

    def command(self, installation: Installation, *arguments: Argument) -> list[str]:
        """Return a command line that exits when its standard input is closed."""
        return [
            *(str(installation.python27), "-m", CHILD, self.module),
            *map(str, arguments),
        ]


class ProgramError(OperatorError):
    """A program that failed.

    Attributes:
        status: its exit status.
        lines: the last lines of its standard error, without progress.
    """

    def __init__(self, program: Program, status: int, lines: Sequence[str]) -> None:
        super().__init__(
            program.failure,
            "\n".join(lines[-program.shown :]) or f"exit status {status}",
            program.hint,
            program.exit_codes.get(status, ExitCode.FAILED),
        )
        self.status = status
        self.lines = tuple(lines)


def run(
    installation: Installation,
    program: Program,
    *arguments: Argument,
    answer: type[Answer],
    progress: type[Progress] | None = None,
    on_progress: Callable[[Progress], None] | None = None,
    on_tick: Callable[[float], None] | None = None,
    seconds: float | None = None,
    silence: float | None = None,
    environment: Mapping[str, str] | None = None,
    command: Sequence[Argument] = (),
    inherited: Sequence[int] = (),
) -> Answer:
    """Run a program and return its answer.

    Args:
        answer, progress: types that the program's JSON is decoded to.
        on_progress: called with each progress line, in this thread.
        on_tick: called every half minute with the seconds since the start, in this thread.
        seconds: time limit; None for no limit.
        silence: time limit for the next output; None for no limit.
        environment: more variables.
        command: what to run in place of the module.
        inherited: descriptors that the program has too.

    Raises:
        ProgramError: the program failed, or printed something else than it should.
        OperatorError: TIMED_OUT, a time limit was reached; NOT_INSTALLED, there is no Python 2.7.
        KeyboardInterrupt: the program was interrupted.

    Whatever this function raises, the program has exited by then.
    """
    output, errors = bytearray(), collections.deque[str](maxlen=KEPT_LINES)

    def hear(line: bytes) -> None:
        if progress is not None and line.startswith(b"{"):
            value = _decode(program, line, progress)
            if on_progress is not None:
                on_progress(value)
        elif line.strip():
            errors.append(line.decode("utf-8", "replace").strip())

    with started(
        program,
        command or program.command(installation, *arguments),
        environment_of(installation, environment or {}),
        inherited=inherited,
    ) as process:
        clock = _Clock(seconds, silence, on_tick)
        pending = b""
        for stream, part in _read(process, clock, program):
            if stream is process.stdout:
                output += part
            else:
                *lines, pending = (pending + part).split(b"\n")
                for line in lines:
                    hear(line)
        hear(pending)
        status = _wait(process, clock, program)
    if status == INTERRUPTED:
        raise KeyboardInterrupt
    if status in program.accepted:
        try:
            return _decode(program, (bytes(output).splitlines() or [b""])[-1], answer)
        except ProgramError:
            if status == 0:
                raise
    raise ProgramError(program, status, list(errors))


def attend(
    installation: Installation,
    program: Program,
    command: Sequence[Argument],
    *,
    environment: Mapping[str, str],
    quiet: bool,
) -> None:
    """Run a command that writes to the terminal.

    Args:
        environment: more variables.
        quiet: keep its output from the terminal.

    Raises as ``run``.
    """
    with started(
        program,
        command,
        environment_of(installation, environment),
        output=subprocess.DEVNULL if quiet else None,
        errors=subprocess.PIPE if quiet else None,
    ) as process:
        _, errors = process.communicate()
    if process.returncode == INTERRUPTED:
        raise KeyboardInterrupt
    if process.returncode:
        raise ProgramError(program, process.returncode, (errors or "").splitlines()[-KEPT_LINES:])


@contextlib.contextmanager
def started(
    program: Program,
    command: Sequence[Argument],
    environment: Mapping[str, str],
    *,
    output: Stream = subprocess.PIPE,
    errors: Stream = subprocess.PIPE,
    folder: Path | None = None,
    inherited: Sequence[int] = (),
) -> Iterator[subprocess.Popen[str]]:
    """Start a program; on exit of the context it and all its children have exited.

    An exception in the context interrupts the program first.  It runs in its own process group, so
    that a Ctrl-C in the terminal reaches it once, through this function.

    Raises:
        OperatorError: NOT_INSTALLED, it can't be started.
    """
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=errors,
            encoding="utf-8",
            errors="replace",
            cwd=folder,
            env=environment,
            process_group=0,
            pass_fds=inherited,
        )
    except OSError as error:
        raise OperatorError(
            program.failure,
            f"{command[0]}: {error.strerror}",
            "./bootstrap",
            ExitCode.NOT_INSTALLED,
        ) from error
    with process:
        try:
            yield process
        except BaseException:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.send_signal(signal.SIGINT)
                process.wait(INTERRUPT_SECONDS)
            raise
        finally:
            kill(process)


def end(process: subprocess.Popen[Any], seconds: float) -> None:
    """Stop a program by SIGTERM, or by SIGKILL after these seconds, and wait for its end."""
    process.terminate()
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def kill(process: subprocess.Popen[str]) -> None:
    """Kill a program that ``started`` started, with its children, and wait for its end."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def environment_of(installation: Installation, more: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a program."""
    return installation.environment27(**{"ZODBREPL_HOME": str(installation.home), **more})


class _Clock:
    """The time limits of one run."""

    def __init__(
        self,
        seconds: float | None,
        silence: float | None,
        on_tick: Callable[[float], None] | None,
    ) -> None:
        self._began = self._heard = self._ticked = time.monotonic()
        self._seconds, self._silence, self._on_tick = seconds, silence, on_tick

    def heard(self) -> None:
        self._heard = time.monotonic()

    def left(self) -> float | None:
        """Return the seconds until ``check`` has something to do; None for never."""
        limits = [
            *([] if self._seconds is None else [self._began + self._seconds]),
            *([] if self._silence is None else [self._heard + self._silence]),
            *([] if self._on_tick is None else [self._ticked + TICK_SECONDS]),
        ]
        return max(0.0, min(limits) - time.monotonic()) if limits else None

    def check(self) -> str:
        """Return which limit was exceeded, '' if none."""
        now = time.monotonic()
        if self._seconds is not None and now >= self._began + self._seconds:
            return f"it did not finish within {self._seconds:g} seconds"
        if self._silence is not None and now >= self._heard + self._silence:
            return f"it printed nothing for {self._silence:g} seconds"
        if self._on_tick is not None and now >= self._ticked + TICK_SECONDS:
            self._ticked = now
            self._on_tick(now - self._began)
        return ""


def _read(
    process: subprocess.Popen[str], clock: _Clock, program: Program
) -> Iterator[tuple[Any, bytes]]:
    with selectors.DefaultSelector() as selector:
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                selector.register(stream, selectors.EVENT_READ)
        while selector.get_map():
            for key, _events in selector.select(clock.left()):
                part = os.read(key.fd, 65536)
                if part:
                    clock.heard()
                    yield key.fileobj, part
                else:
                    selector.unregister(key.fileobj)
            _check(process, clock, program)


def _wait(process: subprocess.Popen[str], clock: _Clock, program: Program) -> int:
    while True:
        try:
            return process.wait(clock.left())
        except subprocess.TimeoutExpired:
            _check(process, clock, program)


def _check(process: subprocess.Popen[str], clock: _Clock, program: Program) -> None:
    exceeded = clock.check()
    if exceeded:
        kill(process)
        raise OperatorError(program.failure, exceeded, program.hint, ExitCode.TIMED_OUT)


def _decode(program: Program, line: bytes, kind: type[Value]) -> Value:
    try:
        return typed_json.decode(line, kind, _path)
    except msgspec.MsgspecError as error:
        quoted = line[:QUOTED].decode("utf-8", "replace")
        raise ProgramError(
            program, 0, [f"{program.module} printed something unexpected: {quoted!r} ({error})"]
        ) from error


def _path(kind: type, value: object) -> object:
    if kind is Path and isinstance(value, str):
        return Path(value)
    raise NotImplementedError(f"{kind} is not decoded")
