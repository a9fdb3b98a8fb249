"""The threads of the program: an error that none of them expects ends all of it.

A thread that ended alone would not be missed: nobody would renew a lease, or record acknowledged
commits.  Supervisor starts the program again, which takes its role again while its lease lasts.
"""

from __future__ import annotations

import os
import sys
import threading
import traceback
from collections.abc import Callable

from indico_zodbrepl.automation.log import say

CRASHED = 1


def thread(name: str, function: Callable[[], None]) -> threading.Thread:
    """Return a daemon thread that is not started yet."""

    def run() -> None:
        try:
            function()
        except BaseException:  # noqa: BLE001 - none is expected
            if not threading.main_thread().is_alive():
                return  # the program is ending, and starts no more threads, for example
            try:
                say(f"the program ends: an error in its thread {name!r} that should not be")
                traceback.print_exc()
                sys.stderr.flush()
            finally:  # also if nobody reads that any more
                os._exit(CRASHED)

    return threading.Thread(target=run, name=name, daemon=True)


class Repeated:
    """A thread that calls a function again and again, after a pause each time.

    Args:
        seconds: of the pause, also before the first call.
    """

    def __init__(self, name: str, seconds: float, function: Callable[[], None]) -> None:
        self._seconds = seconds
        self._function = function
        self._ended = threading.Event()
        self._thread = thread(name, self._run)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Let the present call be the last one; do not wait for it."""
        self._ended.set()

    def _run(self) -> None:
        while not self._ended.wait(self._seconds):
            self._function()
