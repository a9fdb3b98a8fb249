"""The demo's operator on the admin page: what is shown is what works."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from indico_zodbrepl.admin.access import accounts, passwords
from indico_zodbrepl.admin.access.accounts import Level
from indico_zodbrepl.cluster import Cluster, load
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.demo import login
from indico_zodbrepl.errors import OperatorError

EXAMPLE = Path(__file__).parents[3] / "etc" / "cluster.conf"


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    return load(EXAMPLE, tmp_path)


def test_the_operator_is_made_once_with_a_random_password(cluster: Cluster) -> None:
    made = login.ensure(cluster)
    assert made is not None
    assert made == login.ensure(cluster)
    [account] = accounts.read(Layout(cluster).accounts).users.values()
    assert (made.name, Level.OPERATOR) == (account.name, account.level)
    assert passwords.is_right(account.password, made.password)
    assert made.password == json.loads(made.file.read_text())["password"]
    assert 0o600 == made.file.stat().st_mode & 0o777


def test_where_somebody_has_an_account_none_is_made(cluster: Cluster) -> None:
    path = Layout(cluster).accounts
    accounts.make(path, accounts.add_user("alice", Level.VIEWER, "four words of chance"))
    assert login.ensure(cluster) is None
    assert ["alice"] == list(accounts.read(path).users)


def test_no_password_is_shown_that_does_not_work_any_more(cluster: Cluster) -> None:
    made = login.ensure(cluster)
    assert made is not None
    accounts.make(
        Layout(cluster).accounts, accounts.set_password(made.name, "four words of chance")
    )
    assert login.ensure(cluster) is None


@pytest.mark.parametrize("text", ["", "{", "[]", "{}"])
def test_a_damaged_file_is_an_error_for_operators(cluster: Cluster, text: str) -> None:
    file = Layout(cluster).secrets / login.FILE_NAME
    file.parent.mkdir(parents=True)
    file.write_text(text)
    with pytest.raises(OperatorError, match="can't be read"):
        login.ensure(cluster)
