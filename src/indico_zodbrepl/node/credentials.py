"""The admin user of a fresh Indico: made up once, kept in a file only its owner reads."""

from __future__ import annotations

import dataclasses
import json
import secrets
from pathlib import Path

from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.node.files import write_atomically

FILE_NAME = "indico-admin.json"


@dataclasses.dataclass(frozen=True)
class Credentials:
    login: str
    password: str = dataclasses.field(repr=False)
    email: str
    first_name: str
    last_name: str


def path_in(var_directory: Path) -> Path:
    """Where the credentials of the cluster with this var-directory are kept."""
    return var_directory / "secrets" / FILE_NAME


def ensure(path: Path) -> Credentials:
    """The credentials in ``path``; with a random password when there is no such file.

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
    """The credentials in ``path``.

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
