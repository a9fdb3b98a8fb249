"""The secret with which the control plane has an Indico instance measure itself.

Made up once, in a file that only its owner reads; Indico reads the same file at each request.
"""

from __future__ import annotations

import secrets

from ..cluster import Cluster
from ..cluster.commands import Commands
from ..cluster.files import alone, write_atomically
from ..cluster.layout import Layout
from ..errors import ExitCode, OperatorError


def ensure(cluster: Cluster) -> None:
    """Make the secret if there is none; the folder is there.

    Raises:
        OperatorError: exit 8, it can't be kept.
    """
    path = Layout(cluster).bench_secret
    try:
        with alone(path.with_suffix(".lock")):
            if not path.exists():
                write_atomically(path, secrets.token_urlsafe(32) + "\n", 0o600)
    except OSError as error:
        raise OperatorError("the secret for benchmarks can't be kept",
                            f"{error.filename or path}: {error.strerror}",
                            "make room there, or see whose it is; then try again",
                            ExitCode.REFUSED) from error


def read(cluster: Cluster) -> str:
    """The secret.

    Raises:
        OperatorError: exit 8, there is none, or it can't be read.
    """
    path = Layout(cluster).bench_secret
    try:
        return path.read_text("ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise OperatorError(
            "the secret with which benchmarks are begun can't be read", f"{path}: {reason}",
            f"`{Commands.here(cluster).zodbrepl('up')}` makes one, and lets Indico know of it",
            ExitCode.REFUSED) from error
