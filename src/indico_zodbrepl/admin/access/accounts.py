"""The accounts and tokens of the admin page: one JSON file, readable by its owner only.

The page reads the file again whenever it changes.  While the file is damaged, or other users may
read or write it, nobody can log in.  This module does not import Flask: commands use it.
"""

from __future__ import annotations

import dataclasses
import enum
import hashlib
import os
import re
import secrets
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from indico_zodbrepl.admin.access import passwords
from indico_zodbrepl.cluster import formats
from indico_zodbrepl.cluster.files import alone, write_atomically
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.probing import typed_json

NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,31}")
FIELDS = {"account": "users", "token": "tokens"}
"""Attributes of ``Accounts``."""


class Level(enum.StrEnum):
    """A viewer can read all but protected data; an operator also begins operations."""

    VIEWER = "viewer"
    OPERATOR = "operator"


@dataclasses.dataclass(frozen=True)
class Person:
    """The sender of a request: a user who is logged in, or a program with a token.

    Flask-Login expects the class attributes and ``get_id``.

    Attributes:
        stamp: changes with the password; empty for a token.
        by_token: True if the request carried a token.
    """

    name: str
    level: Level
    stamp: str = ""
    by_token: bool = False

    is_authenticated = True
    is_active = True
    is_anonymous = False

    def get_id(self) -> str:
        """Return the identity that a session stores."""
        return f"{self.name}:{self.stamp}"

    @property
    def actor(self) -> str:
        """Return the name for the journal."""
        return f"{self.name} ({'token' if self.by_token else 'admin page'})"


@dataclasses.dataclass(frozen=True)
class Account:
    """A user; ``password`` is a hash in the format of werkzeug.security."""

    name: str
    level: Level
    password: str = dataclasses.field(repr=False)

    @property
    def person(self) -> Person:
        stamp = hashlib.sha256(self.password.encode()).hexdigest()[:20]
        return Person(self.name, self.level, stamp)


@dataclasses.dataclass(frozen=True)
class Token:
    """A program; ``digest`` is the SHA-256 of its token, in hex."""

    name: str
    level: Level
    digest: str = dataclasses.field(repr=False)

    @property
    def person(self) -> Person:
        return Person(self.name, self.level, by_token=True)


@dataclasses.dataclass(frozen=True)
class Accounts:
    """All users and programs that may use the page, by name."""

    users: Mapping[str, Account] = dataclasses.field(default_factory=dict)
    tokens: Mapping[str, Token] = dataclasses.field(default_factory=dict)

    def of_token(self, text: str) -> Token | None:
        """Return the token with that text.  Comparing digests leaks no timing of the text."""
        found = digest_of(text)
        return next((each for each in self.tokens.values() if each.digest == found), None)


Change = Callable[[Accounts], Accounts]


class _User(msgspec.Struct):
    level: Level
    password: str


class _Program(msgspec.Struct):
    level: Level
    sha256: Annotated[str, msgspec.Meta(min_length=1)]


class _Document(msgspec.Struct):
    """The content of the file."""

    version: Literal[1]
    users: dict[str, _User]
    tokens: dict[str, _Program]


class Reader:
    """The accounts as they are in the file now; read again only after a change.  Any thread."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._read: tuple[tuple[int, ...] | None, Accounts] | None = None

    def accounts(self) -> Accounts:
        """Return the accounts.  Raises OperatorError as ``read``."""
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


def read(path: Path) -> Accounts:
    """Return the accounts of a file; none if the file does not exist.

    Raises:
        OperatorError: exit 2, the file is unreadable, damaged, or other users may use it.
    """
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode & 0o777
            text = file.read()
    except FileNotFoundError:
        return Accounts()
    except PermissionError as error:
        raise _unusable(
            path,
            error.strerror or str(error),
            f"make it the admin page's own: chown USER {path}",
        ) from error
    except OSError as error:
        raise _unusable(path, error.strerror or str(error)) from error
    if mode & 0o077:
        raise _unusable(path, f"its mode is {mode:04o}: others may use it", f"chmod 600 {path}")
    try:
        formats.ACCOUNTS.refuse_newer(path, typed_json.decode(text, dict[str, Any]))
        found = typed_json.decode(text, _Document)
    except (msgspec.DecodeError, RecursionError) as error:
        raise _unusable(path, f"damaged: {error}") from error
    if not all(passwords.is_hash(each.password) for each in found.users.values()):
        raise _unusable(path, "damaged: a password's hash is not one of scrypt")
    return Accounts(
        {name: Account(name, each.level, each.password) for name, each in found.users.items()},
        {name: Token(name, each.level, each.sha256) for name, each in found.tokens.items()},
    )


def write(path: Path, accounts: Accounts) -> None:
    """Write the accounts to the file, atomically.  Raises OperatorError."""
    document = _Document(
        1,
        {each.name: _User(each.level, each.password) for each in accounts.users.values()},
        {each.name: _Program(each.level, each.digest) for each in accounts.tokens.values()},
    )
    text = msgspec.json.format(msgspec.json.encode(document), indent=2).decode()
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_atomically(path, text + "\n", 0o600)
    except OSError as error:
        raise OperatorError(
            "cannot write the accounts of the admin page",
            f"{path}: {error.strerror}",
            "check that the disk has space and that the folder is yours",
        ) from error


def make(path: Path, change: Change) -> None:
    """Apply a change to the file, one at a time.  Raises OperatorError, also from the change."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = path.with_name("accounts.lock")
        os.close(os.open(lock, os.O_CREAT | os.O_RDWR, 0o600))
        with alone(lock):
            write(path, change(read(path)))
    except OSError as error:
        raise OperatorError(
            "cannot change the accounts of the admin page",
            str(error),
            "check that the folder is yours",
        ) from error


def add_user(name: str, level: Level, password: str) -> Change:
    """Return the change.  Raises OperatorError (exit 2): the name or password is invalid."""
    return _add("account", Account(checked(name), level, passwords.hashed(password)))


def set_password(name: str, password: str) -> Change:
    """Return the change.  It also ends the account's sessions."""
    stored = passwords.hashed(password)

    def change(before: Accounts) -> Accounts:
        known = _known("account", name, before.users)
        changed = dataclasses.replace(before.users[known], password=stored)
        return dataclasses.replace(before, users={**before.users, known: changed})

    return change


def remove_user(name: str) -> Change:
    return _remove("account", name)


def new_token() -> str:
    """Return a random token."""
    return f"zodbrepl-{secrets.token_urlsafe(32)}"


def add_token(name: str, level: Level, text: str) -> Change:
    """Return the change.  Raises OperatorError (exit 2): the name is invalid."""
    return _add("token", Token(checked(name), level, digest_of(text)))


def remove_token(name: str) -> Change:
    return _remove("token", name)


def digest_of(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def normal(typed: str) -> str:
    """Return the stored form of a typed name."""
    return typed.strip().lower()


def checked(typed: str) -> str:
    """Return the name for a new account or token.  Raises OperatorError (exit 2)."""
    name = normal(typed)
    if not NAME.fullmatch(name):
        raise OperatorError(
            f"invalid name {typed!r}",
            "the name is typed to log in and is written to the journal",
            "use 1 to 32 letters, digits, dots, hyphens and underscores",
            ExitCode.BAD_CONFIG,
        )
    return name


def _add(what: str, new: Account | Token) -> Change:
    def change(before: Accounts) -> Accounts:
        known: dict[str, Any] = getattr(before, FIELDS[what])
        if new.name in known:
            raise OperatorError(
                f"{what} {new.name!r} exists already",
                "",
                "use another name, or remove it first",
                ExitCode.REFUSED,
            )
        return dataclasses.replace(before, **{FIELDS[what]: {**known, new.name: new}})

    return change


def _remove(what: str, typed: str) -> Change:
    def change(before: Accounts) -> Accounts:
        known: dict[str, Any] = getattr(before, FIELDS[what])
        name = _known(what, typed, known)
        left = {key: each for key, each in known.items() if key != name}
        return dataclasses.replace(before, **{FIELDS[what]: left})

    return change


def _known(what: str, typed: str, known: Mapping[str, object]) -> str:
    name = normal(typed)
    if name not in known:
        raise OperatorError(
            f"there is no {what} {typed!r}",
            f"{what}s: {', '.join(known) or 'none'}",
            "",
            ExitCode.BAD_CONFIG,
        )
    return name


def _unusable(path: Path, detail: str, hint: str = "") -> OperatorError:
    return OperatorError(
        "cannot use the accounts of the admin page, so nobody can log in",
        f"{path}: {detail}",
        hint
        or f"restore the file from a backup, or move it away and add the accounts again: "
        f"mv {path} {path}.damaged",
        ExitCode.BAD_CONFIG,
    )
