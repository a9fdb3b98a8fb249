"""Receive parts of files of another host; what breaks off is continued."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, TypeVar

from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host.datafs import FAILURES
from indico_zodbrepl.host.datafs_answers import Progress
from indico_zodbrepl.host.interface import HostAwayError
from indico_zodbrepl.host.node_files import BLOCK, Range, ReplacedError
from indico_zodbrepl.host.part_file import GarbledError, PartFile

REPORT_EACH = 0.5
TRIES = 4
"""Tries without a new block before a copy is given up; PAUSE between two of them."""
PAUSE = 0.5
Value = TypeVar("Value")


class Stream(Protocol):
    """The content of some ranges, in their order.  All methods raise HostAwayError."""

    def length(self) -> int | None:
        """Return the length of the next range; None if its file does not exist."""

    def block(self, into: memoryview) -> bytes:
        """Receive the next block of the range; return its digest."""


class Streams(Protocol):
    """Files of another host.  All methods raise OperatorError, HostAwayError."""

    def stream(self, ranges: Sequence[Range]) -> contextlib.AbstractContextManager[Stream]:
        """Send parts of files."""


class Receiving:
    """The receiver of files.

    Args:
        on_progress: called about twice a second, in this thread.
        deadline: on the clock of ``time.monotonic``.
    """

    def __init__(
        self, streams: Streams, on_progress: Callable[[Progress], None] | None, deadline: float
    ) -> None:
        self._streams = streams
        self._on_progress = on_progress
        self._deadline = deadline
        self._reported = 0.0

    def grow(self, part: PartFile, whole: Range, stage: str) -> None:
        """Receive what a part lacks of a range; continue after a failure.

        Args:
            whole: a range with an end, of which the part has the beginning.
            stage: for the progress.

        Raises OperatorError: ReplacedError, the file is another one; TIMED_OUT.
        """
        length = (whole.end or 0) - whole.begin
        failures = 0
        while part.size < length:
            before = part.size
            try:
                self._receive(part, whole, stage)
            except (HostAwayError, GarbledError) as error:
                failures = 1 if part.size > before else failures + 1
                if failures >= TRIES:
                    raise self._given_up(error) from error
                self._pause()

    def _receive(self, part: PartFile, whole: Range, stage: str) -> None:
        wanted = dataclasses.replace(whole, begin=whole.begin + part.size)
        with self._streams.stream([wanted]) as stream:
            length = stream.length()
            if length != (wanted.end or 0) - wanted.begin:
                raise ReplacedError(FAILURES["copy"], f"the source's file {whole.name} is gone")
            total = part.size + length
            buffer = memoryview(bytearray(BLOCK))
            for size in sizes(length):
                self.check_time()
                part.append(buffer[:size], stream.block(buffer[:size]))
                self.report(stage, part.size, total)

    def again(self, do: Callable[..., Value], *arguments: object) -> Value:
        """Do something that may be repeated, a few times while the host is away."""
        for _ in range(TRIES - 1):
            try:
                return do(*arguments)
            except (HostAwayError, GarbledError):
                self._pause()
        try:
            return do(*arguments)
        except GarbledError as error:
            raise self._given_up(error) from error

    def _given_up(self, error: Exception) -> OperatorError:
        if isinstance(error, OperatorError):
            return error
        return failed("blocks arrive garbled again and again: is the memory of a host broken?")

    def _pause(self) -> None:
        self.check_time()
        time.sleep(PAUSE)

    def check_time(self) -> None:
        """Raise OperatorError (TIMED_OUT) at the deadline."""
        if time.monotonic() >= self._deadline:
            raise OperatorError(
                FAILURES["copy"],
                "it did not finish in time; what is there is kept",
                "repeat the command: the copy continues",
                ExitCode.TIMED_OUT,
            )

    def report(self, stage: str, done: int, total: int | None, *, now: bool = False) -> None:
        """Report progress, at most twice a second unless ``now``."""
        moment = time.monotonic()
        if self._on_progress is not None and (now or moment >= self._reported + REPORT_EACH):
            self._reported = moment
            self._on_progress(Progress(stage, done, total))


def sizes(length: int) -> Iterator[int]:
    """Yield the sizes of the blocks of a range."""
    for position in range(0, length, BLOCK):
        yield min(BLOCK, length - position)


def failed(why: str, code: ExitCode = ExitCode.FAILED) -> OperatorError:
    """Return the error of a copy that failed."""
    return OperatorError(FAILURES["copy"], why, exit_code=code)
