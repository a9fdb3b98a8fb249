"""Files in ``var/secrets``, which only their owner can read; most are the same on all hosts."""

from __future__ import annotations

import dataclasses
import json
import re
import secrets
from collections.abc import Mapping
from pathlib import Path

from indico_zodbrepl.backends import backend_of
from indico_zodbrepl.cluster import Cluster
from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.cluster.files import alone, differs, write_atomically
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.errors import ExitCode, OperatorError

FILE_NAME = "indico-admin.json"
SECRET_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
"""A file name without a folder in it."""
NOT_SHARED = frozenset({".lock", ".sql"})
"""Suffixes of the files that belong to one host: locks, and what a database server reads first."""


@dataclasses.dataclass(frozen=True)
class Credentials:
    login: str
    password: str = dataclasses.field(repr=False)
    email: str
    first_name: str
    last_name: str


def path_in(var_directory: Path) -> Path:
    """Return the path of the cluster's credentials in this var-directory."""
    return var_directory / "secrets" / FILE_NAME


def ensure(path: Path) -> Credentials:
    """Return the credentials in ``path``; create them with a random password if missing.

    Raises:
        OperatorError: the file is not what this function writes.
    """
    try:
        return read(path)
    except FileNotFoundError:
        pass
    credentials = Credentials(
        login="admin",
        password=secrets.token_urlsafe(12),
        email="admin@indico.invalid",
        first_name="Ada",
        last_name="Ministrator",
    )
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_atomically(path, json.dumps(dataclasses.asdict(credentials), indent=2) + "\n", 0o600)
    return credentials


def read(path: Path) -> Credentials:
    """Return the credentials in ``path``.

    Raises:
        FileNotFoundError: there is no such file.
        OperatorError: the file is not what ``ensure`` writes.
    """
    text = path.read_text()
    try:
        return Credentials(**json.loads(text))
    except (ValueError, TypeError) as error:
        raise OperatorError(
            "the file with Indico's admin user cannot be read",
            f"{path}: {error}",
            "move it away; the demo then makes a new one, but the database keeps the old password",
        ) from error


def ensure_bench_secret(cluster: Cluster) -> None:
    """Create the secret if there is none; the folder exists.

    Raises:
        OperatorError: exit 8, it cannot be stored.
    """
    path = Layout(cluster).bench_secret
    try:
        with alone(path.with_suffix(".lock")):
            if not path.exists():
                write_atomically(path, secrets.token_urlsafe(32) + "\n", 0o600)
    except OSError as error:
        raise OperatorError(
            "the secret for benchmarks can't be kept",
            f"{error.filename or path}: {error.strerror}",
            "make room there, or see whose it is; then try again",
            ExitCode.REFUSED,
        ) from error


def make_shared(cluster: Cluster) -> None:
    """Make the secrets that all hosts share, if they are missing.

    Raises OperatorError (exit 8): one can't be made.
    """
    folder = Layout(cluster).secrets
    path = Layout(cluster).cluster_id
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with alone(path.with_suffix(".lock")):
            if not path.exists():
                write_atomically(path, secrets.token_hex(16) + "\n", 0o600)
    except OSError as error:
        raise _unusable(folder, error) from error
    ensure_bench_secret(cluster)
    backend_of(cluster).make_passwords(cluster)


def shared(cluster: Cluster) -> dict[str, str]:
    """Return the secrets that all hosts share, by file name.

    These are the cluster's identity, Indico's first user, the secret for benchmarks and the
    generated passwords of database users.  Locks, and files that nodes write when they start, are
    not shared.  Nor are the accounts and the session key of the admin page, which runs on one host:
    an old copy would revive accounts that were removed.

    Raises OperatorError (exit 8): one can't be read.
    """
    folder = Layout(cluster).secrets
    try:
        return {
            path.name: path.read_text("utf-8")
            for path in sorted(folder.iterdir())
            if path.is_file() and not path.name.startswith(".") and path.suffix not in NOT_SHARED
        }
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise _unusable(folder, error) from error


def install_shared(cluster: Cluster, secrets_by_name: Mapping[str, str]) -> list[str]:
    """Write the secrets of another host; return the names of those that changed.

    Raises OperatorError (exit 8): one can't be written.
    """
    folder = Layout(cluster).secrets
    changed = []
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.chmod(0o700)
        for name, text in secrets_by_name.items():
            if differs(folder / name, text):
                write_atomically(folder / name, text, 0o600)
                changed.append(name)
    except OSError as error:
        raise _unusable(folder, error) from error
    return changed


def add_shared(cluster: Cluster, secrets_by_name: Mapping[str, str]) -> list[str]:
    """Write the secrets of another host that this host lacks; return their names.

    Raises OperatorError (exit 8): one can't be written, or has a name that no secret has.
    """
    wrong = [name for name in secrets_by_name if not SECRET_NAME.fullmatch(name)]
    if wrong:
        raise OperatorError(f"no secret can be named {wrong[0]!r}", exit_code=ExitCode.REFUSED)
    known = shared(cluster)
    return install_shared(
        cluster, {name: text for name, text in secrets_by_name.items() if name not in known}
    )


def _unusable(folder: Path, error: Exception) -> OperatorError:
    reason = (
        f"{error.filename or folder}: {error.strerror}"
        if isinstance(error, OSError)
        else f"{folder}: {error}"
    )
    return OperatorError(
        "the secrets that all hosts share can't be read or written",
        reason,
        "run this as the user that runs the cluster",
        ExitCode.REFUSED,
    )


def read_bench_secret(cluster: Cluster) -> str:
    """Return the secret.

    Raises:
        OperatorError: exit 8, there is none, or it can't be read.
    """
    path = Layout(cluster).bench_secret
    try:
        return path.read_text("ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise OperatorError(
            "the secret that starts benchmarks can't be read",
            f"{path}: {reason}",
            f"`{Commands.here(cluster).zodbrepl('up')}` makes one, and lets Indico know of it",
            ExitCode.REFUSED,
        ) from error


def check_mail_password(cluster: Cluster) -> None:
    """Raise OperatorError (exit 2) if Indico's mail password can't be read, or others may read it.

    Indico reads the file itself, each time it reads its configuration.
    """
    path = cluster.mail and cluster.mail.password_file
    if not path:
        return
    where = cluster.where("mail", None, "password-file")
    try:
        mode = path.stat().st_mode & 0o777
        path.read_bytes()
    except OSError as error:
        raise OperatorError(
            "the password of <mail> can't be used",
            f"{where}: {path}: {error.strerror}",
            "write it there in one line, for its owner alone",
            ExitCode.BAD_CONFIG,
        ) from error
    if mode & 0o077:
        raise OperatorError(
            "the password of <mail> can't be used",
            f"{where}: others may read {path}: its mode is {mode:04o}",
            f"chmod 600 {path}",
            ExitCode.BAD_CONFIG,
        )
