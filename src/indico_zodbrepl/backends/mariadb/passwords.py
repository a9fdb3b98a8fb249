"""The passwords of the servers' users: made up once, in files that only their owner reads."""

from __future__ import annotations

import re
import secrets
from pathlib import Path

from ...cluster import Cluster
from ...cluster.files import alone, write_atomically
from ...errors import ExitCode, OperatorError
from .. import password_file
from . import names

# What option files, and SQL, take between quotes as it is.
PASSWORD = re.compile(r"[!$-&(-:<-\[\]-_a-~]+")
_IN_FILE = re.compile(r'\[client\]\nuser=(\w+)\npassword="([^"]+)"\n')


def ensure(cluster: Cluster, user: str) -> str:
    """A user's password; it is in the user's option file afterwards.

    That of Indico's user comes from ``password-file`` if the cluster file names one.

    Raises:
        OperatorError: exit 8, a file can't be read or written, or is not what it should be.
    """
    path = names.client_cnf(cluster, user)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Nodes start at the same time, and each would make up a password of its own.
        with alone(path.with_suffix(".lock")):
            known = _parsed(path, user) if path.exists() else None
            given = names.settings(cluster).password_file
            if given is not None and user == names.settings(cluster).user:
                password = given_in(given)
            else:
                password = known or secrets.token_urlsafe(24)
            if password != known:
                write_atomically(path, f'[client]\nuser={user}\npassword="{password}"\n', 0o600)
    except OSError as error:
        raise OperatorError(
            f"the password of user {user} can't be read or kept",
            f"{error.filename or path}: {error.strerror}", exit_code=ExitCode.REFUSED) from error
    return password


def of(cluster: Cluster, user: str) -> str | None:
    """The password in a user's option file; None without one.  Raises OperatorError."""
    path = names.client_cnf(cluster, user)
    try:
        return _parsed(path, user)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise OperatorError(f"the password of user {user} can't be read",
                            f"{path}: {error.strerror}", exit_code=ExitCode.REFUSED) from error


def _parsed(path: Path, user: str) -> str:
    found = _IN_FILE.fullmatch(path.read_text("utf-8"))
    if found is None or found[1] != user:
        raise OperatorError(f"the password of user {user} can't be read",
                            f"{path} is not as it was written here",
                            "move it away, and a new password is made", ExitCode.REFUSED)
    return found[2]


def given_in(path: Path) -> str:
    """The password in ``password-file``.  Raises OperatorError (exit 8)."""
    password = password_file.read(path)
    if not PASSWORD.fullmatch(password):
        raise OperatorError(
            "password-file can't be used",
            f"{path}: it may hold letters, digits and signs, but no blank, quote, backslash, "
            "'#' or ';'", "choose another password", ExitCode.REFUSED)
    return password
