"""Times as text, in UTC."""

from __future__ import annotations

import time


def moment(seconds: float) -> str:
    """Return a time for people, to the second: ``2026-11-22 19:57:31 UTC``.

    Args:
        seconds: since 1970, as in all functions here.
    """
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(seconds))


def iso(seconds: float) -> str:
    """Return a time for records, logs and programs, to the second: ``2026-11-22T19:57:31Z``."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def now() -> str:
    """Return the present time as ``iso`` does."""
    return iso(time.time())


def stamp(seconds: float) -> str:
    """Return a time as a part of a file's name, to the second: ``20261122T195731Z``."""
    return time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(seconds))
