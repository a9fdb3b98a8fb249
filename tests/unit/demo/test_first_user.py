"""The demo's first user: the password that is shown is the one that works."""

from __future__ import annotations

import dataclasses
import json
import stat
from pathlib import Path

import pytest

from indico_zodbrepl.cluster import load
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.demo.data import first_user
from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.host import secrets
from indico_zodbrepl.host.indico_programs import Indico27

EXAMPLE = Path(__file__).parents[3] / "etc" / "cluster.conf"


class Database(Indico27):
    """An Indico whose first run makes the user of the file unless it has one."""

    def __init__(self, home: Path) -> None:
        super().__init__(load(EXAMPLE, home), Installation(home))
        self.password: str | None = None

    def first_run(self, admin_file: Path) -> dict[str, bool]:
        created = self.password is None
        if created:
            self.password = json.loads(admin_file.read_text())["password"]
        return {"created": created}


@pytest.fixture
def database(tmp_path: Path) -> Database:
    return Database(tmp_path)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return secrets.path_in(tmp_path / "var")


def test_the_first_user_is_made_once_and_kept(database: Database, file: Path) -> None:
    steps: list[str] = []
    first = first_user(database, file, steps.append)
    again = first_user(database, file, steps.append)
    assert (database.password, first) == (first.password, again)
    assert ["Indico's first user, admin, is made", "Indico's first user, admin, is there"] == steps


def test_the_file_is_its_owners_alone(database: Database, file: Path) -> None:
    first_user(database, file, print)
    assert [0o600, 0o700] == [stat.S_IMODE(path.stat().st_mode) for path in (file, file.parent)]


def test_no_password_is_shown_that_the_database_does_not_know(
    database: Database, file: Path
) -> None:
    first_user(database, file, print)
    file.unlink()
    for _run in range(2):
        with pytest.raises(OperatorError, match="password of Indico's first user is lost"):
            first_user(database, file, print)
        assert not file.exists()


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"login": "admin", "extra": 1}'])
def test_a_damaged_file_is_an_error_for_operators_and_stays(
    database: Database, file: Path, text: str
) -> None:
    file.parent.mkdir(parents=True)
    file.write_text(text)
    with pytest.raises(OperatorError, match="cannot be read"):
        first_user(database, file, print)
    assert text == file.read_text()


def test_the_password_is_not_in_what_is_printed_of_credentials() -> None:
    fields = {field.name: field.name * 2 for field in dataclasses.fields(secrets.Credentials)}
    assert "passwordpassword" not in repr(secrets.Credentials(**fields))
