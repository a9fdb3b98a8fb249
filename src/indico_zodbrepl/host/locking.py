"""Lock files and signal handling: one ``up`` or ``down`` at a time, one writer in a folder."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import TextIO

from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.probing.waiting import wait_until, wait_while

POLL_SECONDS = 0.1
FOLDER_SECONDS = 10.0
"""Seconds; the holder of a folder only reads and writes a small file."""
FOLDER_POLL_SECONDS = 0.002


@contextlib.contextmanager
def exclusive(
    path: Path,
    seconds: float,
    progress: Callable[[str], None],
    what: str = "'up' or 'down'",
) -> Iterator[None]:
    """Hold a lock file; the end of its process releases it in any case.

    Args:
        path: the lock file; its folder exists.
        seconds: how long to wait for another holder.
        progress: called once if it has to wait.
        what: what another holder does, for people.

    Raises OperatorError: exit 7 if another process still holds it after ``seconds``, exit 8 if the
    file belongs to another user.
    """
    deadline = time.monotonic() + seconds
    told = False
    with _open(path) as lock:

        def is_held() -> bool:
            nonlocal told
            if take(lock.fileno()):
                return False
            if not told:
                progress(f"waiting: another {what} is running ({_holder(lock)})")
                told = True
            return True

        if wait_while(is_held, deadline, POLL_SECONDS):
            raise OperatorError(
                f"another {what} is running ({_holder(lock)})",
                f"{path} is still held after {seconds:g} s",
                "wait until it has ended",
                ExitCode.TIMED_OUT,
            )
        note_pid(lock.fileno())
        yield


def _holder(lock: TextIO) -> str:
    lock.seek(0)
    return f"process {lock.read().strip()}"


def note_pid(lock: int) -> None:
    """Write this process's PID into a lock file, for people; ignore a full disk."""
    with contextlib.suppress(OSError):
        os.ftruncate(lock, 0)
        os.write(lock, str(os.getpid()).encode())


@contextlib.contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Hold a folder while a file in it is compared and replaced; process end releases it.

    Raises OSError: TimeoutError if another process holds it for FOLDER_SECONDS.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        deadline = time.monotonic() + FOLDER_SECONDS
        if not wait_until(lambda: take(descriptor), deadline, FOLDER_POLL_SECONDS):
            raise TimeoutError(errno.ETIMEDOUT, f"another process works in {folder}")
        yield
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def tried(path: Path, deadline: float) -> Iterator[bool]:
    """Hold a lock file, whose folder is made; the value is False if another process keeps it.

    Args:
        deadline: a moment of ``time.monotonic``.

    Raises OSError.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with path.open("a+b") as lock:
        yield wait_until(lambda: take(lock.fileno()), deadline, POLL_SECONDS)


def _open(path: Path) -> TextIO:
    try:
        return open(path, "a+", encoding="ascii")
    except PermissionError as error:
        raise OperatorError(
            "the cluster belongs to another user",
            f"{path}: {error.strerror}",
            "run this as that user",
            ExitCode.REFUSED,
        ) from error


def take(descriptor: int) -> bool:
    """Take the lock of an open file; return False if another process has it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def as_keyboard_interrupt() -> contextlib.AbstractContextManager[None]:
    """Context: each of ``SIGNALS`` raises KeyboardInterrupt.  Main thread only."""
    return _handled_by(_interrupt)


def held_off() -> contextlib.AbstractContextManager[None]:
    """Context: ``SIGNALS`` are ignored, so that a stop is not interrupted."""
    return _handled_by(signal.SIG_IGN)


@contextlib.contextmanager
def _handled_by(
    handler: Callable[[int, FrameType | None], None] | signal.Handlers,
) -> Iterator[None]:
    before = {number: signal.signal(number, handler) for number in SIGNALS}
    try:
        yield
    finally:
        for number, previous in before.items():
            signal.signal(number, previous)
