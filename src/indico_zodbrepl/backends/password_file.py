"""The file in which an administrator gives the password of a server's user: one line, mode 0600."""

from __future__ import annotations

import stat
from pathlib import Path

from ..errors import ExitCode, OperatorError


def read(path: Path) -> str:
    """The password.

    Raises:
        OperatorError: exit 8, the file can't be read, others may read it, or it is not one line.
    """
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise _refused(f"{path}: {reason}", "put the password, and nothing else, into its only "
                       "line, and let only its owner read it: mode 0600") from error
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise _refused(f"{path}: others than its owner may use it (mode {mode:04o})",
                       f"chmod 600 {path}")
    if len(lines) != 1 or not lines[0].strip():
        raise _refused(f"{path}: it has {len(lines)} lines" if len(lines) != 1 else
                       f"{path}: its line is blank",
                       "put the password, and nothing else, into its only line")
    return lines[0]


def _refused(detail: str, hint: str) -> OperatorError:
    return OperatorError("password-file can't be used", detail, hint, ExitCode.REFUSED)
