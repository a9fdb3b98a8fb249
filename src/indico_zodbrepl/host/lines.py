"""Lines in the log of a program that supervisord runs."""

from __future__ import annotations

import contextlib


def write_line(text: str) -> None:
    """Write a line to the standard output, which supervisord reads.

    A killed supervisord leaves its programs running, and they have to go on: the line is lost.
    """
    with contextlib.suppress(BrokenPipeError):
        print(text, flush=True)
