"""The demo's account on the admin page: an operator with a random password."""

from __future__ import annotations

import dataclasses
import json
import secrets
from pathlib import Path

from indico_zodbrepl.admin.access import accounts, passwords
from indico_zodbrepl.cluster.files import write_atomically
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.cluster.model import Cluster
from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.operations import journal

FILE_NAME = "admin-page.json"
NAME = "operator"


@dataclasses.dataclass(frozen=True)
class Login:
    """The login of the admin page, and the file that keeps it."""

    name: str
    password: str = dataclasses.field(repr=False)
    file: Path


def ensure(cluster: Cluster) -> Login | None:
    """Return the demo's operator; create it if there is no account; None if only others exist.

    Raises:
        OperatorError: the accounts or the demo's own file can't be used.
    """
    layout = Layout(cluster)
    file = layout.secrets / FILE_NAME
    users = accounts.read(layout.accounts).users
    password = _kept(file)
    if not users:
        password = password or secrets.token_urlsafe(12)
        _keep(file, password)
        with journal.journaled(cluster, "admin-user-add", NAME, "the demo's operator"):
            accounts.make(
                layout.accounts, accounts.add_user(NAME, accounts.Level.OPERATOR, password)
            )
        return Login(NAME, password, file)
    known = (
        NAME in users
        and password is not None
        and passwords.is_right(users[NAME].password, password)
    )
    return Login(NAME, password, file) if known and password is not None else None


def _keep(file: Path, password: str) -> None:
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_atomically(
            file, json.dumps({"login": NAME, "password": password}, indent=2) + "\n", 0o600
        )
    except OSError as error:
        raise OperatorError(
            "the demo's login of the admin page can't be kept",
            f"{file}: {error.strerror}",
            "is the disk full?",
        ) from error


def _kept(file: Path) -> str | None:
    try:
        text = file.read_text()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _unusable(file, error) from error
    try:
        return str(json.loads(text)["password"])
    except (ValueError, KeyError, TypeError) as error:
        raise _unusable(file, error) from error


def _unusable(file: Path, error: Exception) -> OperatorError:
    return OperatorError(
        "the file with the demo's login of the admin page can't be read",
        f"{file}: {error}",
        "move it away; `bin/zodbrepl admin user password "
        f"{NAME}` gives that account another password",
    )
