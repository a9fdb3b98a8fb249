"""Wait for what several hosts do, and leave the processors to them meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from indico_zodbrepl.probing import waiting

Found = TypeVar("Found")


def wait_until(
    check: Callable[[], Found], deadline: float, poll: float = waiting.POLL_SECONDS
) -> Found:
    """Call a function until it returns something true or the deadline has passed.

    Many checks start a program such as ``status``, which computes for half a second. One after
    another they would take a whole processor from the servers that they ask about. So each pause
    is as long as the call before it, or ``poll`` if that is longer. Arguments and result as of
    ``indico_zodbrepl.probing.waiting.wait_until``.
    """
    took = 0.0

    def paced() -> Found:
        nonlocal took
        time.sleep(max(took - poll, 0.0))
        began = time.monotonic()
        try:
            return check()
        finally:
            took = time.monotonic() - began

    return waiting.wait_until(paced, deadline, poll)
