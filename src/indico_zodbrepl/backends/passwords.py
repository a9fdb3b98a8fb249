"""Passwords of database users: generated once, or given by an administrator.

Each is kept in a file of mode 0600, in the format that the engine's clients read.
"""

from __future__ import annotations

import dataclasses
import secrets
import stat
from collections.abc import Callable
from pathlib import Path

from indico_zodbrepl.cluster.files import alone, write_atomically
from indico_zodbrepl.errors import ExitCode, OperatorError


def read_given(path: Path) -> str:
    """Return the password that an administrator wrote into ``password-file``.

    Raises:
        OperatorError: exit 8, the file can't be read, others may read it, or it is not one line.
    """
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise _refused(f"{path}: {reason}", f"{_ONE_LINE}, and set mode 0600") from error
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise _refused(
            f"{path}: others than its owner may use it (mode {mode:04o})", f"chmod 600 {path}"
        )
    if len(lines) != 1:
        raise _refused(f"{path}: it has {len(lines)} lines", _ONE_LINE)
    if not lines[0].strip():
        raise _refused(f"{path}: its line is blank", _ONE_LINE)
    return lines[0]


@dataclasses.dataclass(frozen=True)
class PasswordFile:
    """The file in which a user's password is kept for the engine's clients.

    Attributes:
        render: returns the content of the file for a password.
        parse: returns the password in such a content; None if it has another format.
        hint: what to do when the file has another format.
        given: reads the administrator's password; None if it is generated.
    """

    path: Path
    user: str
    render: Callable[[str], str]
    parse: Callable[[str], str | None]
    hint: str
    given: Callable[[], str] | None = None

    def ensure(self, *, generate: bool = True) -> str:
        """Return the password; write the file if it is missing or the given password changed.

        Args:
            generate: False on a host that gets generated passwords from another one.

        Raises OperatorError (exit 8): a file can't be read or written, has another format, or is
            missing.
        """
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            # Nodes start at the same time, and each would generate a password of its own.
            with alone(self.path.with_suffix(".lock")):
                if self.given is None and self.path.exists():
                    return self._kept()
                if self.given is None and not generate:
                    raise self._missing()
                password = self.given() if self.given else secrets.token_urlsafe(24)
                write_atomically(self.path, self.render(password), 0o600)
                return password
        except OSError as error:
            raise self._unusable(f"{error.filename or self.path}: {error.strerror}") from error

    def read(self) -> str | None:
        """Return the kept password; None without a file.  Raises OperatorError (exit 8)."""
        try:
            return self._kept()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._unusable(f"{self.path}: {error.strerror}") from error

    def _kept(self) -> str:
        password = self.parse(self.path.read_text("utf-8"))
        if password is None:
            raise self._unusable(f"{self.path} is damaged", self.hint)
        return password

    def _missing(self) -> OperatorError:
        return OperatorError(
            f"this host lacks the password of user {self.user}",
            f"no such file: {self.path}; the hosts of a cluster share it",
            "type this on the host that issues the certificates: bin/zodbrepl hosts push",
            ExitCode.REFUSED,
        )

    def _unusable(self, detail: str, hint: str = "") -> OperatorError:
        return OperatorError(
            f"the password of user {self.user} can't be read or kept",
            detail,
            hint,
            ExitCode.REFUSED,
        )


_ONE_LINE = "write the password, and nothing else, into its only line"


def _refused(detail: str, hint: str) -> OperatorError:
    return OperatorError("password-file can't be used", detail, hint, ExitCode.REFUSED)
