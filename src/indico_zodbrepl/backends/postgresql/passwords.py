"""The passwords of the servers' users: made up once, in files that only their owner reads."""

from __future__ import annotations

import secrets
from pathlib import Path

from ...cluster import Cluster
from ...cluster.files import alone, write_atomically
from ...errors import ExitCode, OperatorError
from .. import password_file
from . import names


def ensure(cluster: Cluster, user: str) -> str:
    """A user's password; it is in its file for libpq afterwards.

    That of Indico's user comes from ``password-file`` if the cluster file names one.

    Raises:
        OperatorError: exit 8, a file can't be read or written, or is not what it should be.
    """
    path = names.passfile(cluster, user)
    given = names.settings(cluster).password_file
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Nodes start at the same time, and each would make up a password of its own.
        with alone(path.with_suffix(".lock")):
            if given is not None and user == names.settings(cluster).user:
                password = password_file.read(given)
            elif path.exists():
                return _parsed(path, user)
            else:
                password = secrets.token_urlsafe(24)
            write_atomically(path, line(user, password), 0o600)
    except OSError as error:
        raise OperatorError(
            f"the password of user {user} can't be read or kept",
            f"{error.filename or path}: {error.strerror}", exit_code=ExitCode.REFUSED) from error
    return password


def line(user: str, password: str) -> str:
    """What libpq's passfile says for a user of any server and database."""
    escaped = password.replace("\\", "\\\\").replace(":", "\\:")
    return f"*:*:*:{user}:{escaped}\n"


def _parsed(path: Path, user: str) -> str:
    text = path.read_text("utf-8")
    start = f"*:*:*:{user}:"
    if not text.startswith(start) or not text.endswith("\n"):
        raise OperatorError(f"the password file of user {user} is damaged", str(path),
                            "restore it from a backup; the server knows that password only",
                            ExitCode.REFUSED)
    return text[len(start):-1].replace("\\:", ":").replace("\\\\", "\\")
