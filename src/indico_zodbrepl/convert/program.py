"""The data plane's program that copies and verifies, run and listened to."""

from __future__ import annotations

import dataclasses
import json
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any

from ..cluster.installation import Installation
from ..errors import ExitCode, OperatorError

PROGRAM = "indico_zodbrepl.dataplane.convert"
SILENT_SECONDS = 900.0  # one huge transaction may take long; a storage that hangs takes for ever
END_SECONDS = 30.0

# The program's exit status: what it means, and what becomes of it here.
FAILURES: Mapping[int, tuple[str, ExitCode]] = {
    3: ("the data can't be read", ExitCode.FAILED),
    4: ("the data can't be read", ExitCode.FAILED),
    5: ("a server has the data open", ExitCode.REFUSED),
    6: ("the source holds what can't be converted", ExitCode.REFUSED),
    7: ("the copy is not what the source is", ExitCode.FAILED),
    9: ("the target's disk is full", ExitCode.REFUSED),
}
OTHER_DATA = 8


class OtherDataError(OperatorError):
    """The target holds what is not the beginning of the source; it was left as it is."""

    def __init__(self, detail: str) -> None:
        super().__init__("the target holds other data", detail,
                         "name a target without data, or remove those that nobody needs",
                         ExitCode.REFUSED)


@dataclasses.dataclass(frozen=True)
class Progress:
    """How far a stage is.

    Attributes:
        stage: survey (of what is current), compare (what the target held before), copy, verify.
        transactions, bytes: of the source, in this stage.
        fraction: of the stage, 0 to 1.
        seconds: since the stage began.
    """

    stage: str
    transactions: int
    bytes: int
    fraction: float
    seconds: float


@dataclasses.dataclass(frozen=True)
class Done:
    """A target that was verified.

    Attributes:
        held: transactions that it had before.
        copied: those that were added; ``records`` and ``bytes`` are what they hold.
        last: tid of the last one; None for an empty database.
        unfinished: bytes of a transaction at the end of a source file that a kill left.
        seconds: of each stage.
        lost: what the target doesn't keep: numbers of ``transactions`` that are nothing without
            history, of ``records``, of transactions whose ``status`` says packed, of
            ``undo_pointers``.
    """

    held: int
    copied: int
    records: int
    bytes: int
    last: str | None
    unfinished: int
    seconds: Mapping[str, float]
    lost: Mapping[str, int]


def run(installation: Installation, source: Path, target: Path,
        on_progress: Callable[[Progress], None]) -> Done:
    """Copy and verify.  The end of this process ends the program, whatever way it comes.

    Args:
        source, target: each a Data.fs or a ZODB configuration.
        on_progress: called about twice a second, in this thread.

    Raises:
        OperatorError: exit 8, the target holds other data, a file is open elsewhere, there are
            blobs, or the disk is full; exit 7, nothing was heard for a quarter of an hour; exit
            1, anything else.
        KeyboardInterrupt: after the program has ended.
    """
    try:
        process = subprocess.Popen(
            [installation.python27, "-m", PROGRAM, "--end-with-input", source, target],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            errors="replace", env=installation.environment27())
    except OSError as error:
        raise OperatorError("the conversion can't be started",
                            f"{installation.python27}: {error.strerror}", "./bootstrap",
                            ExitCode.NOT_INSTALLED) from error
    with process:
        said: list[str] = []
        assert process.stdout is not None  # noqa: S101  # for the type checker
        assert process.stderr is not None  # noqa: S101
        listener = threading.Thread(target=_keep, args=(process.stderr, said), daemon=True)
        listener.start()
        try:
            answer, late = _listen(process, process.stdout, on_progress)
        except BaseException:
            _end(process)
            raise
        process.wait()
        listener.join()
    if late:
        raise OperatorError("the conversion was given up",
                            f"nothing was heard of it for {SILENT_SECONDS:g} s", "",
                            ExitCode.TIMED_OUT)
    if process.returncode == 130:
        raise KeyboardInterrupt
    detail = said[-1] if said else f"exit status {process.returncode}"
    if process.returncode == OTHER_DATA:
        raise OtherDataError(detail)
    if process.returncode or answer is None:
        notice, exit_code = FAILURES.get(process.returncode,
                                         ("the conversion failed", ExitCode.FAILED))
        raise OperatorError(notice, detail, exit_code=exit_code)
    return Done(**answer)


def _listen(process: subprocess.Popen[str], output: IO[str],
            on_progress: Callable[[Progress], None]) -> tuple[dict[str, Any] | None, bool]:
    """The answer, if there was one, and whether the program was ended for its silence."""
    answer, late = None, threading.Event()

    def give_up() -> None:
        late.set()
        process.kill()

    timer = threading.Timer(SILENT_SECONDS, give_up)
    timer.start()
    try:
        for line in output:
            timer.cancel()
            values = json.loads(line)
            if "done" in values:
                answer = values["done"]
            else:
                on_progress(Progress(**values))
            timer = threading.Timer(SILENT_SECONDS, give_up)
            timer.start()
    finally:
        timer.cancel()
    return answer, late.is_set()


def _keep(stream: IO[str], said: list[str]) -> None:
    said += [line.strip() for line in stream if line.strip()]


def _end(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGINT)
    try:
        process.wait(END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
