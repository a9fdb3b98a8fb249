"""Ends what has to be undone the same way for Ctrl-C, a closed terminal and SIGTERM."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def as_keyboard_interrupt() -> contextlib.AbstractContextManager[None]:
    """Within, each of ``SIGNALS`` raises KeyboardInterrupt.  Main thread only."""
    return _handled_by(_interrupt)


def held_off() -> contextlib.AbstractContextManager[None]:
    """Within, ``SIGNALS`` are ignored, so that what stops things is not stopped itself."""
    return _handled_by(signal.SIG_IGN)


@contextlib.contextmanager
def _handled_by(handler: Callable[[int, FrameType | None], None] | signal.Handlers,
                ) -> Iterator[None]:
    before = {number: signal.signal(number, handler) for number in SIGNALS}
    try:
        yield
    finally:
        for number, previous in before.items():
            signal.signal(number, previous)
