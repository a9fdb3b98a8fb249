"""Passwords: scrypt, and the same work for a name that nobody has."""

from __future__ import annotations

import functools
import re
import threading

from werkzeug.security import check_password_hash, generate_password_hash

from indico_zodbrepl.errors import ExitCode, OperatorError

SHORTEST, LONGEST = 12, 200
"""Characters."""

HASH = re.compile(r"scrypt:(\d{1,7}):(\d{1,2}):(\d{1,2})\$[^$]+\$[0-9a-f]{128}")

_at_once = threading.BoundedSemaphore(2)  # each takes 32 MiB and a core for some 60 ms


def hashed(password: str) -> str:
    """A hash of a new password.

    Raises:
        OperatorError: exit 2, it is too short or too long.
    """
    if not SHORTEST <= len(password) <= LONGEST or "\0" in password:
        raise OperatorError("this password can't be used",
                            f"it has {len(password)} characters; {SHORTEST} to {LONGEST} are "
                            "needed, none of them NUL", "take some words that don't belong "
                            "together", ExitCode.BAD_CONFIG)
    return generate_password_hash(password, "scrypt")


def is_hash(stored: str) -> bool:
    """Whether it can be checked against passwords: a hash as ``hashed`` makes them."""
    found = HASH.fullmatch(stored)
    if found is None:
        return False
    n, r, p = map(int, found.groups())
    return n > 1 and n & (n - 1) == 0 and r > 0 and p > 0


def is_right(stored: str | None, password: str) -> bool:
    """Whether a password is the one of a hash; for no hash it takes as long, and is False.

    To scrypt a password is the same with NULs at its end; here it is not.
    """
    with _at_once:
        right = check_password_hash(stored or _nobodys(), password[:LONGEST + 1])
    return right and stored is not None and "\0" not in password


@functools.cache
def _nobodys() -> str:
    return generate_password_hash("", "scrypt")
