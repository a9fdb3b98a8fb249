"""The accounts and tokens of the admin page: one JSON file for its owner alone.

The page reads the file whenever it has changed, so a change counts at once.  A file that is
damaged, or that others may write, lets nobody in.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flask_babel import gettext as _

from indico_zodbrepl.admin.access import passwords
from indico_zodbrepl.admin.access.levels import Level, Person
from indico_zodbrepl.cluster.files import write_atomically
from indico_zodbrepl.errors import ExitCode, OperatorError

VERSION = 1


@dataclasses.dataclass(frozen=True)
class Account:
    """Somebody who logs in; ``password`` is a hash as werkzeug.security writes it."""

    name: str
    level: Level
    password: str = dataclasses.field(repr=False)

    @property
    def person(self) -> Person:
        stamp = hashlib.sha256(self.password.encode()).hexdigest()[:20]
        return Person(self.name, self.level, stamp)


@dataclasses.dataclass(frozen=True)
class Token:
    """A program that asks the API; ``digest`` is the SHA-256 of its token, in hex."""

    name: str
    level: Level
    digest: str = dataclasses.field(repr=False)

    @property
    def person(self) -> Person:
        return Person(self.name, self.level, by_token=True)


@dataclasses.dataclass(frozen=True)
class Accounts:
    """Everybody who may use the page, by name."""

    users: Mapping[str, Account] = dataclasses.field(default_factory=dict)
    tokens: Mapping[str, Token] = dataclasses.field(default_factory=dict)

    def of_token(self, text: str) -> Token | None:
        """Whose token this is.  Equal digests are found, not similar ones: no timing to measure."""
        found = digest_of(text)
        return next((each for each in self.tokens.values() if each.digest == found), None)


def digest_of(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def read(path: Path) -> Accounts:
    """The accounts in a file; none when there is no such file.

    Raises:
        OperatorError: exit 2, the file can't be read, is damaged, or may be written by others.
    """
    try:
        with path.open("rb") as file:
            about = os.fstat(file.fileno())
            text = file.read()
    except FileNotFoundError:
        return Accounts()
    except PermissionError as error:
        raise _unusable(path, error.strerror or str(error), _(
            "it has to belong to whoever runs the admin page: %(command)s",
            command=f"chown USER {path}")) from error
    except OSError as error:
        raise _unusable(path, error.strerror or str(error)) from error
    if about.st_mode & 0o077:
        raise _unusable(path, _("its mode is %(mode)s: others may use it",
                                mode=f"{about.st_mode & 0o777:04o}"), f"chmod 600 {path}")
    try:
        return _parsed(json.loads(text))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise _unusable(path, _("damaged: %(problem)s",
                                problem=f"{type(error).__name__}: {error}")) from error


def write(path: Path, accounts: Accounts) -> None:
    """Put the accounts into the file, whole or not at all.  Raises OperatorError."""
    document = {
        "version": VERSION,
        "users": {each.name: {"level": each.level, "password": each.password}
                  for each in accounts.users.values()},
        "tokens": {each.name: {"level": each.level, "sha256": each.digest}
                   for each in accounts.tokens.values()}}
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_atomically(path, json.dumps(document, indent=2) + "\n", 0o600)
    except OSError as error:
        raise OperatorError("the accounts of the admin page can't be written",
                            f"{path}: {error.strerror}",
                            "is the disk full, or is the folder another user's?") from error


def _parsed(document: Any) -> Accounts:
    if document["version"] != VERSION:
        raise ValueError(f"version {document['version']!r} is not {VERSION}")
    return Accounts(
        {name: Account(name, Level(each["level"]), _hash(each["password"]))
         for name, each in document["users"].items()},
        {name: Token(name, Level(each["level"]), _text(each["sha256"]))
         for name, each in document["tokens"].items()})


def _hash(value: Any) -> str:
    if not passwords.is_hash(_text(value)):
        raise ValueError("the hash of a password is none that can be checked")
    return str(value)


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError("a hash is missing")
    return value


def _unusable(path: Path, detail: str, hint: str = "") -> OperatorError:
    return OperatorError(
        _("the accounts of the admin page can't be used, so nobody gets in"), f"{path}: {detail}",
        hint or _("put the file back from a backup, or move it away and make the accounts anew: "
                  "%(command)s", command=f"mv {path} {path}.damaged"), ExitCode.BAD_CONFIG)


class Reader:
    """The accounts as the file has them now; read again only when it changed.  Any thread."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._read: tuple[tuple[int, ...] | None, Accounts] | None = None

    def accounts(self) -> Accounts:
        """Raises OperatorError as ``read``."""
        with self._lock:
            state = self._state()
            if self._read is None or self._read[0] != state:
                self._read = (state, read(self._path))
            return self._read[1]

    def _state(self) -> tuple[int, ...] | None:
        try:
            about = self._path.stat()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise _unusable(self._path, error.strerror or str(error)) from error
        return about.st_ino, about.st_mtime_ns, about.st_size, about.st_mode
