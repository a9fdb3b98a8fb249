"""A secret that authenticates a recipient's requests, in a file that only its owner may read."""

from __future__ import annotations

import os
from pathlib import Path

from indico_zodbrepl.errors import ExitCode, OperatorError

MOST = 1000
"""Characters."""


def read_secret(path: Path, what: str) -> str:
    """Return the secret in a file.

    Args:
        what: whose it is, for messages: "the webhook's secret".

    Raises:
        OperatorError: exit 2, the file is unreadable, others may read it, or it is not one line of
            printable ASCII.
    """
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode & 0o777
            secret = file.read(MOST + 1).strip()
    except OSError as error:
        raise _unusable(what, path, f"can't be read: {error.strerror}", "") from error
    if mode & 0o077:
        raise _unusable(
            what, path, f"its mode is {mode:04o}: others may read it", f"chmod 600 {path}"
        )
    if not secret or len(secret) > MOST or not all(32 < byte < 127 for byte in secret):
        raise _unusable(
            what, path, f"it has to hold 1 to {MOST} printable ASCII characters without blanks", ""
        )
    return secret.decode("ascii")


def _unusable(what: str, path: Path, detail: str, hint: str) -> OperatorError:
    return OperatorError(
        f"{what} can't be used",
        f"{path}: {detail}",
        hint or "write it there, for its owner alone",
        ExitCode.BAD_CONFIG,
    )
