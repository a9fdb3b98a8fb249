"""The log of what an agent has done for whom: one JSON object a line, in ``Layout.actions``."""

from __future__ import annotations

import logging
import logging.handlers
import os
from pathlib import Path

import msgspec

MOST_BYTES = 1 << 20
"""A longer log becomes FILE.1, and a new one begins."""


class Action(msgspec.Struct):
    """One call that was not only a read.

    Attributes:
        at: when it ended, ISO 8601 in UTC.
        actor: user and host name, as the caller says.
        certificate: role and name in the caller's certificate, which are proven.
        about: the node, host or program, if the call names one.
        outcome: ``done``, or the notice of its error.
        seconds: how long it took.
    """

    at: str
    actor: str
    certificate: str
    call: str
    about: str
    outcome: str
    seconds: float


class Actions:
    """The log; any thread may write to it.  A line that can't be written stops no call."""

    def __init__(self, path: Path) -> None:
        self._handler = logging.handlers.RotatingFileHandler(
            path, maxBytes=MOST_BYTES, backupCount=1, encoding="utf-8", delay=True
        )
        self._handler.setFormatter(logging.Formatter("%(message)s"))

    def note(self, action: Action) -> None:
        """Add a line."""
        text = msgspec.json.encode(action).decode()
        self._handler.handle(logging.makeLogRecord({"msg": text, "levelno": logging.INFO}))

    def close(self) -> None:
        self._handler.close()


def open_in(path: Path) -> Actions:
    """Return the log of an agent; make its private folder if it is missing."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600))
    return Actions(path)
