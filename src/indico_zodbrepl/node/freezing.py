"""Stopping processes where they are, so that they do nothing more, not even end in order."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Collection

from ..probing.process_state import FROZEN, state_of

FREEZE_SECONDS = 0.5
POLL_SECONDS = 0.002


def freeze(pids: Collection[int]) -> None:
    """Send SIGSTOP to processes, in their order, and wait until each has stopped.

    The signal is only noted when it is sent: a SIGTERM that comes before a process has stopped
    still ends it.  Those that are gone are passed over; one that does not stop within half a
    second, as its disk hangs, is left to stop when it can.
    """
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)
    deadline = time.monotonic() + FREEZE_SECONDS
    while any(map(_runs, pids)) and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)


def _runs(pid: int) -> bool:
    state = state_of(pid)
    return bool(state) and state not in FROZEN
