"""How far a long copy is, as lines for people: bytes, rate, time left."""

from __future__ import annotations

import time
from collections.abc import Callable

from ..node.datafs_answers import Progress

TELL_SECONDS = 2.0


class Teller:
    """Tells now and then how far it is.

    Args:
        say: takes one line.
    """

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._next = 0.0
        self._stage = ""
        self._first = (0.0, 0)

    def __call__(self, progress: Progress) -> None:
        now = time.monotonic()
        if progress.stage != self._stage:
            self._stage, self._first = progress.stage, (now, progress.done)
        elif now < self._next:
            return
        self._next = now + TELL_SECONDS
        began, before = self._first
        rate = (progress.done - before) / (now - began) if now > began else 0.0
        text = f"{progress.stage}: {progress.done / 2**20:.0f} MiB"
        if progress.total is not None:
            text += f" of {progress.total / 2**20:.0f} MiB"
        if rate > 0:
            text += f", {rate / 2**20:.0f} MiB/s"
            if progress.total is not None:
                text += f", {(progress.total - progress.done) / rate:.0f} s left"
        self._say(text)
