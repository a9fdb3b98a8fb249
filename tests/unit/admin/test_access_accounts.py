"""The accounts file, and the commands that change it."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path

import logins
import pytest
from click.testing import CliRunner, Result
from flask.testing import FlaskClient

from indico_zodbrepl.admin.access import accounts, passwords, sessions
from indico_zodbrepl.admin.access.accounts import Account, Accounts, Level, Reader
from indico_zodbrepl.admin.site import EXTENSION
from indico_zodbrepl.cli import main
from indico_zodbrepl.errors import ExitCode, OperatorError

MakeClient = Callable[..., FlaskClient]
EXAMPLE = Path(__file__).parents[3] / "etc" / "cluster.conf"
GOOD = "four words of chance"
ALICE = Account("alice", Level.OPERATOR, "scrypt:1024:8:1$salt$" + 128 * "0")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "cluster.conf").write_text(EXAMPLE.read_text())
    monkeypatch.setenv("ZODBREPL_HOME", str(tmp_path))
    return tmp_path


def call(*arguments: str, typed: str | None = None) -> Result:
    return CliRunner().invoke(main, ["admin", *arguments], input=typed)


def kept(home: Path) -> Accounts:
    return accounts.read(home / "var" / "admin" / "accounts.json")


def journal() -> list[tuple[str, str, str]]:
    found = json.loads(CliRunner().invoke(main, ["journal", "--json"]).stdout)
    return [(each["plan"]["operation"], each["plan"]["target"], each["outcome"]) for each in found]


def test_what_is_written_is_read_again_and_is_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "new" / "accounts.json"
    accounts.write(path, logins.EVERYBODY)
    assert logins.EVERYBODY == accounts.read(path)
    assert 0o600 == path.stat().st_mode & 0o777
    assert 0o700 == path.parent.stat().st_mode & 0o777


def test_without_a_file_nobody_has_an_account(tmp_path: Path) -> None:
    assert Accounts() == accounts.read(tmp_path / "accounts.json")


def test_neither_passwords_nor_tokens_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "accounts.json"
    accounts.make(path, accounts.add_user("alice", Level.OPERATOR, GOOD))
    token = accounts.new_token()
    accounts.make(path, accounts.add_token("deploy", Level.OPERATOR, token))
    text = path.read_text()
    assert GOOD not in text
    assert token not in text
    assert "scrypt:" in text


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        "null",
        "{}",
        '{"version": 0, "users": {}, "tokens": {}}',
        '{"version": 1, "users": {"alice": {"level": "god", "password": "x"}}, "tokens": {}}',
        '{"version": 1, "users": {"alice": {"level": "viewer"}}, "tokens": {}}',
        '{"version": 1, "users": {"alice": {"level": "viewer", "password": ""}}, "tokens": {}}',
        '{"version": 1, "users": {"alice": []}, "tokens": {}}',
        '{"version": 1, "users": [], "tokens": {}}',
        "\xff",
    ],
)
def test_with_a_damaged_file_nobody_gets_in_and_everybody_sees_why(
    make_client: MakeClient, tmp_path: Path, content: str
) -> None:
    client = make_client()
    path = tmp_path / "admin" / "accounts.json"
    path.write_text(content, "latin-1")
    for page in ("/", "/login", "/nowhere"):
        answer = client.get(page)
        assert 503 == answer.status_code, page
        assert "nobody can log in" in answer.text, page
        assert f"mv {path}" in answer.text, page
    for headers in ({}, {"Authorization": f"Bearer {logins.OPERATOR_TOKEN}"}):
        answer = client.get("/api/status", headers=headers)
        assert 503 == answer.status_code
        assert answer.json is not None
        assert "nobody can log in" in answer.text
    assert 200 == client.get("/health").status_code
    logins.give_accounts(client.application.extensions[EXTENSION].cluster)
    assert 200 == client.get("/").status_code


@pytest.mark.parametrize("mode", [0o644, 0o620, 0o602])
def test_a_file_that_others_may_use_lets_nobody_in(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "accounts.json"
    accounts.write(path, logins.EVERYBODY)
    path.chmod(mode)
    with pytest.raises(OperatorError) as caught:
        accounts.read(path)
    assert f"chmod 600 {path}" == caught.value.hint


def test_without_an_account_every_page_says_how_to_make_one(
    make_client: MakeClient, tmp_path: Path
) -> None:
    client = logins.stranger(make_client())
    (tmp_path / "admin" / "accounts.json").unlink()
    for path in ("/", "/node/a", "/login"):
        answer = client.get(path, follow_redirects=True)
        assert 503 == answer.status_code
        assert "There is no account yet" in answer.text
        assert "admin user add NAME --level operator" in answer.text
    assert 200 == client.get("/health").status_code


def test_a_change_of_the_file_counts_at_once(tmp_path: Path) -> None:
    path = tmp_path / "accounts.json"
    reader = Reader(path)
    assert {} == reader.accounts().users
    accounts.make(path, accounts.add_user("alice", Level.VIEWER, GOOD))
    assert ["alice"] == list(reader.accounts().users)
    assert reader.accounts() is reader.accounts(), "it is read again only when it changed"
    path.unlink()
    assert {} == reader.accounts().users


def test_changes_at_once_lose_none(tmp_path: Path) -> None:
    path = tmp_path / "accounts.json"
    threads = [
        threading.Thread(
            target=accounts.make,
            args=(path, accounts.add_token(f"t{number}", Level.VIEWER, str(number))),
        )
        for number in range(12)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert 12 == len(accounts.read(path).tokens)


@pytest.mark.parametrize("password", ["", "short", "x" * 201, "four words of chance\0"])
def test_passwords_that_are_refused(password: str) -> None:
    with pytest.raises(OperatorError):
        passwords.hashed(password)


def test_a_password_is_right_only_whole() -> None:
    stored = passwords.hashed(GOOD)
    assert passwords.is_right(stored, GOOD)
    for other in (GOOD[:-1], GOOD + "x", GOOD + "\0", "", GOOD.upper()):
        assert not passwords.is_right(stored, other), other
    assert not passwords.is_right(None, ""), "not even what the hash of nobody was made of"


def test_the_key_of_sessions_is_made_once_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "admin" / "session-key"
    key = sessions.ensure(path)
    assert key == sessions.ensure(path)
    assert 0o600 == path.stat().st_mode & 0o777
    path.chmod(0o640)
    with pytest.raises(OperatorError, match="cannot use the key"):
        sessions.ensure(path)
    path.chmod(0o600)
    path.write_text("short")
    with pytest.raises(OperatorError, match="cannot use the key"):
        sessions.ensure(path)


def test_an_account_is_made_shown_changed_and_removed(home: Path) -> None:
    assert "There are no accounts.\n" == call("user", "list").stdout
    result = call("user", "add", "Alice", "--level", "operator", typed=f"{GOOD}\n{GOOD}\n")
    assert 0 == result.exit_code, result.output
    assert GOOD not in result.output
    before = kept(home).users["alice"]
    assert passwords.is_right(before.password, GOOD)
    assert f"{'alice':<32}  operator\n" == call("user", "list").stdout
    file = home / "password"
    file.write_text("four other words of chance\n")
    assert 0 == call("user", "password", "alice", "--password-file", str(file)).exit_code
    after = kept(home).users["alice"]
    assert passwords.is_right(after.password, "four other words of chance")
    assert before.person.get_id() != after.person.get_id()
    assert 0 == call("user", "remove", "alice").exit_code
    assert {} == kept(home).users
    assert [
        ("admin-user-add", "alice", "done"),
        ("admin-user-password", "alice", "done"),
        ("admin-user-remove", "alice", "done"),
    ] == journal()


def test_a_password_comes_from_standard_input_too(home: Path) -> None:
    assert (
        0 == call("user", "add", "alice", "--password-file", "-", typed=f"{GOOD}\nmore\n").exit_code
    )
    assert passwords.is_right(kept(home).users["alice"].password, GOOD)


def test_a_token_is_printed_once_and_works_until_it_is_removed(home: Path) -> None:
    result = call("token", "add", "dashboard")
    text = result.stdout.strip()
    found = kept(home).of_token(text)
    assert found is not None
    assert ("dashboard", Level.VIEWER) == (found.name, found.level)
    assert text not in call("token", "list").stdout
    assert 0 == call("token", "remove", "dashboard").exit_code
    assert kept(home).of_token(text) is None
    assert "There are no tokens.\n" == call("token", "list").stdout


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("user", "add", "alice"), ExitCode.REFUSED),
        (("user", "add", "al ice"), ExitCode.BAD_CONFIG),
        (("user", "add", "../x"), ExitCode.BAD_CONFIG),
        (("user", "add", "a" * 33), ExitCode.BAD_CONFIG),
        (("user", "remove", "bob"), ExitCode.BAD_CONFIG),
        (("user", "password", "bob"), ExitCode.BAD_CONFIG),
        (("token", "remove", "x"), ExitCode.BAD_CONFIG),
    ],
)
def test_what_can_t_be_done_changes_nothing(
    home: Path, arguments: tuple[str, ...], code: ExitCode
) -> None:
    accounts.write(home / "var" / "admin" / "accounts.json", Accounts({"alice": ALICE}))
    result = call(*arguments, typed=f"{GOOD}\n{GOOD}\n")
    assert code == result.exit_code, result.output
    assert Accounts({"alice": ALICE}) == kept(home)
    assert [] == journal()


@pytest.mark.parametrize(
    "arguments",
    [
        ("user", "add", "bob"),
        ("user", "password", "alice"),
        ("user", "remove", "alice"),
        ("token", "add", "x"),
    ],
)
def test_a_dry_run_changes_nothing_and_asks_for_nothing(
    home: Path, arguments: tuple[str, ...]
) -> None:
    path = home / "var" / "admin" / "accounts.json"
    accounts.write(path, Accounts({"alice": ALICE}))
    result = call(*arguments, "--dry-run")
    assert 0 == result.exit_code, result.output
    assert str(path) in result.stdout
    assert "This was a dry run: nothing was changed." in result.stdout
    assert Accounts({"alice": ALICE}) == kept(home)
    assert [] == journal()


def test_the_last_operator_s_removal_is_reported(home: Path) -> None:
    accounts.write(home / "var" / "admin" / "accounts.json", Accounts({"alice": ALICE}))
    assert "no account has the level operator" in call("user", "remove", "alice").stderr


def test_a_folder_that_can_t_be_written_is_reported(tmp_path: Path) -> None:
    (tmp_path / "admin").write_text("not a folder")
    with pytest.raises(OperatorError, match="cannot change the accounts"):
        accounts.make(
            tmp_path / "admin" / "accounts.json", accounts.add_token("x", Level.VIEWER, "x")
        )
