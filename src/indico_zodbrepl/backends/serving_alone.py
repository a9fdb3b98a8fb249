"""A server on an ended node's data, for this program alone: started, waited for, ended."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO

from ..cluster import Node
from ..errors import ExitCode, OperatorError
from ..probing.wire import ProbeError

END_SECONDS = 120.0
ANSWER_SECONDS = 5.0
POLL_SECONDS = 0.2
OUTPUT_LINES = 10


@contextlib.contextmanager
def serving(node: Node, command: Sequence[str | Path], folder: Path,
            answers: Callable[[float], object], deadline: float, *,
            environment: Mapping[str, str] | None = None,
            end: signal.Signals = signal.SIGTERM, tells: str = "") -> Iterator[None]:
    """Run a server until the ``with`` block ends; it answers when that begins.

    Args:
        folder: its working directory, by which fencing finds it.
        answers: asks it, until a moment of ``time.monotonic``; ProbeError or OSError: not yet.
        deadline: until when it has to answer, a moment of ``time.monotonic``.
        environment: None for this program's.
        end: the signal that ends it in order; SIGKILL follows where it does not.
        tells: what a line of its output holds that says why it did not start.

    Raises:
        OperatorError: exit 8, it ended by itself, with its last lines; exit 7, it does not answer
            in time.
    """
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as said, \
            subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=said, stderr=said,
                             env=environment, cwd=folder, start_new_session=True) as server:
        try:
            try:
                _wait(node, server, answers, deadline)
            except OperatorError as error:
                raise OperatorError(
                    error.notice, "\n".join([error.detail, *_last_lines(said, tells)]),
                    exit_code=error.exit_code) from error
            yield
        finally:
            server.send_signal(end)
            try:
                server.wait(END_SECONDS)
            except subprocess.TimeoutExpired:
                server.kill()


def _wait(node: Node, server: subprocess.Popen[bytes], answers: Callable[[float], object],
          deadline: float) -> None:
    while True:
        try:
            answers(min(deadline, time.monotonic() + ANSWER_SECONDS))
        except (ProbeError, OSError) as error:
            if server.poll() is not None:
                raise OperatorError(f"the data of node {node.name} can't be opened",
                                    f"its server ended with exit {server.returncode}",
                                    exit_code=ExitCode.REFUSED) from error
            if time.monotonic() > deadline:
                raise OperatorError(f"the data of node {node.name} could not be opened in time",
                                    str(error), exit_code=ExitCode.TIMED_OUT) from error
            time.sleep(POLL_SECONDS)
        else:
            return


def _last_lines(said: IO[str], tells: str) -> list[str]:
    said.seek(0)
    return [line for line in said.read().splitlines() if tells in line][-OUTPUT_LINES:]
