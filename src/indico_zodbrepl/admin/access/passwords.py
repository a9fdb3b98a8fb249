"""Password hashes by scrypt, compared in the same time for known and unknown names."""

from __future__ import annotations

import functools
import re
import threading

from indico_zodbrepl.errors import ExitCode, OperatorError

SHORTEST, LONGEST = 12, 200
"""Characters."""
HASH = re.compile(r"scrypt:(\d{1,7}):(\d{1,2}):(\d{1,2})\$[^$]+\$[0-9a-f]{128}")

_at_once = threading.BoundedSemaphore(2)  # each takes 32 MiB and a core for some 60 ms


def hashed(password: str) -> str:
    """Return the hash of a new password.

    Raises:
        OperatorError: exit 2, it is too short or too long.
    """
    if not SHORTEST <= len(password) <= LONGEST or "\0" in password:
        raise OperatorError(
            "invalid password",
            f"it has {len(password)} characters; {SHORTEST} to {LONGEST} are allowed, and no NUL",
            "use several unrelated words",
            ExitCode.BAD_CONFIG,
        )
    return _generate(password)


def is_hash(stored: str) -> bool:
    """Return True for a hash as ``hashed`` makes them."""
    found = HASH.fullmatch(stored)
    if found is None:
        return False
    n, r, p = map(int, found.groups())
    return n > 1 and n & (n - 1) == 0 and r > 0 and p > 0


def is_right(stored: str | None, password: str) -> bool:
    """Return True if the password has that hash; without a hash return False as slowly.

    scrypt ignores NULs at the end of a password; this function does not.
    """
    from werkzeug.security import check_password_hash  # noqa: PLC0415  # imports a web server

    with _at_once:
        right = check_password_hash(stored or _nobodys(), password[: LONGEST + 1])
    return right and stored is not None and "\0" not in password


def _generate(password: str) -> str:
    from werkzeug.security import generate_password_hash  # noqa: PLC0415  # the same

    return generate_password_hash(password, "scrypt")


@functools.cache
def _nobodys() -> str:
    return _generate("")
