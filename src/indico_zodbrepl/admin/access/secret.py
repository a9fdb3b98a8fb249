"""The key that sessions are signed with, in a file for its owner alone."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from indico_zodbrepl.cluster.files import write_atomically
from indico_zodbrepl.errors import ExitCode, OperatorError

LENGTH = 64
"""Characters, hexadecimal."""


def ensure(path: Path) -> str:
    """The key in a file; made when there is none.  Without the file all sessions end.

    Raises:
        OperatorError: it can't be read or written, or others may read it.
    """
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not path.exists():
            write_atomically(path, secrets.token_hex(LENGTH // 2) + "\n", 0o600)
        with path.open() as file:
            mode = os.fstat(file.fileno()).st_mode & 0o777
            key = file.read().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise _unusable(path, str(error)) from error
    if mode & 0o077:
        raise _unusable(path, f"its mode is {mode:04o}: others may read it")
    if len(key) != LENGTH:
        raise _unusable(path, "damaged")
    return key


def _unusable(path: Path, detail: str) -> OperatorError:
    return OperatorError("the key of the admin page's sessions can't be used", f"{path}: {detail}",
                         f"rm {path}; a new one is made, and everybody logs in again",
                         ExitCode.BAD_CONFIG)
