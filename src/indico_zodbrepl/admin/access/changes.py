"""Changes of who may use the admin page: checked first, so that a dry run can tell them."""

from __future__ import annotations

import dataclasses
import os
import secrets
from collections.abc import Callable, Mapping
from pathlib import Path

from indico_zodbrepl.admin.access import accounts, names, passwords
from indico_zodbrepl.admin.access.accounts import Account, Accounts, Token
from indico_zodbrepl.admin.access.levels import Level
from indico_zodbrepl.cluster.files import alone
from indico_zodbrepl.errors import ExitCode, OperatorError

Change = Callable[[Accounts], Accounts]


def make(path: Path, change: Change) -> None:
    """Apply a change to the file, one at a time.  Raises OperatorError, as the change does."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = path.with_name("accounts.lock")
        os.close(os.open(lock, os.O_CREAT | os.O_RDWR, 0o600))
        with alone(lock):
            accounts.write(path, change(accounts.read(path)))
    except OSError as error:
        raise OperatorError("the accounts of the admin page can't be changed", str(error),
                            "is the folder another user's?") from error


def add_user(name: str, level: Level, password: str) -> Change:
    """Raises OperatorError: the name or the password can't be used."""
    account = Account(names.checked(name), level, passwords.hashed(password))

    def change(before: Accounts) -> Accounts:
        _refuse_known("account", account.name, before.users)
        return dataclasses.replace(before, users={**before.users, account.name: account})

    return change


def set_password(name: str, password: str) -> Change:
    """Ends the account's sessions too, as they depend on the password."""
    stored = passwords.hashed(password)

    def change(before: Accounts) -> Accounts:
        known = _known("account", name, before.users)
        changed = dataclasses.replace(before.users[known], password=stored)
        return dataclasses.replace(before, users={**before.users, known: changed})

    return change


def remove_user(name: str) -> Change:
    def change(before: Accounts) -> Accounts:
        known = _known("account", name, before.users)
        return dataclasses.replace(before, users={
            key: each for key, each in before.users.items() if key != known})

    return change


def new_token() -> str:
    """A token nobody guesses."""
    return f"zodbrepl-{secrets.token_urlsafe(32)}"


def add_token(name: str, level: Level, text: str) -> Change:
    """Raises OperatorError: the name can't be used."""
    token = Token(names.checked(name), level, accounts.digest_of(text))

    def change(before: Accounts) -> Accounts:
        _refuse_known("token", token.name, before.tokens)
        return dataclasses.replace(before, tokens={**before.tokens, token.name: token})

    return change


def remove_token(name: str) -> Change:
    def change(before: Accounts) -> Accounts:
        known = _known("token", name, before.tokens)
        return dataclasses.replace(before, tokens={
            key: each for key, each in before.tokens.items() if key != known})

    return change


def _refuse_known(what: str, name: str, known: Mapping[str, object]) -> None:
    if name in known:
        raise OperatorError(f"there is one already: {what} {name!r}", "",
                            "take another name, or remove it first", ExitCode.REFUSED)


def _known(what: str, typed: str, known: Mapping[str, object]) -> str:
    name = names.normal(typed)
    if name not in known:
        listed = ", ".join(known) or "none"
        raise OperatorError(f"there is no {what} {typed!r}", f"there are: {listed}", "",
                            ExitCode.BAD_CONFIG)
    return name

