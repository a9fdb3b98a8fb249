"""Logging in and out, and what comes of sessions."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import logins
import pytest
from bs4 import BeautifulSoup
from flask.testing import FlaskClient
from logins import PASSWORD
from werkzeug.test import TestResponse

from indico_zodbrepl.admin.access import accounts, login, sessions
from indico_zodbrepl.admin.access.sessions import IDLE_SECONDS, LONGEST_SECONDS, is_over
from indico_zodbrepl.cluster.programs import Admin

MakeClient = Callable[..., FlaskClient]
ClientFor = Callable[[FlaskClient], FlaskClient]


@pytest.fixture
def stranger(make_client: MakeClient, anonymous: ClientFor) -> FlaskClient:
    return anonymous(make_client())


def type_in(
    client: FlaskClient,
    name: str = "alice",
    password: str = PASSWORD,
    path: str = "/login",
    base_url: str = "http://localhost/",
) -> TestResponse:
    """Fill in the login form as a browser does, and send it."""
    page = client.get(path, base_url=base_url).text
    form = BeautifulSoup(page, "html.parser").find("form", action=True)
    assert form is not None
    action = str(form["action"]).removeprefix(urlsplit(base_url).path.rstrip("/"))
    token = form.find("input", {"name": "csrf_token"})
    assert token is not None
    return client.post(
        action,
        base_url=base_url,
        headers={"Referer": base_url},
        data={"csrf_token": str(token["value"]), "name": name, "password": password},
    )


def test_a_stranger_is_sent_to_the_login_and_comes_back(stranger: FlaskClient) -> None:
    answer = stranger.get("/node/b?x=1")
    assert (303, "/login?next=/node/b?x%3D1") == (answer.status_code, answer.location)
    answer = type_in(stranger, path=answer.location)
    assert (303, "/node/b?x=1") == (answer.status_code, answer.location)
    assert 200 == stranger.get("/node/b").status_code


def test_names_are_taken_in_capitals_and_with_blanks_too(stranger: FlaskClient) -> None:
    assert 303 == type_in(stranger, " Alice ").status_code


@pytest.mark.parametrize(
    ("name", "password"),
    [
        ("alice", "wrong words of chance"),
        ("nobody", PASSWORD),
        ("alice", ""),
        ("", ""),
        ("alice", PASSWORD + "\0"),
        ("alice:", PASSWORD),
        ("a" * 5000, "b" * 5000),
    ],
)
def test_a_wrong_name_and_a_wrong_password_are_reported_alike(
    stranger: FlaskClient, name: str, password: str
) -> None:
    answer = type_in(stranger, name, password)
    assert 401 == answer.status_code
    assert "Wrong name or password." in answer.text
    assert 303 == stranger.get("/").status_code


def test_the_password_is_never_shown_again(stranger: FlaskClient) -> None:
    assert "wrong words" not in type_in(stranger, "alice", "wrong words of chance").text


@pytest.mark.parametrize(
    "wanted",
    [
        "https://attacker.example/",
        "//attacker.example/",
        "/\\attacker.example",
        "javascript:alert(1)",
        "/\t/attacker.example",
        "attacker.example",
        "///attacker.example",
        "\\\\attacker.example",
        "",
        "/%0d%0aSet-Cookie:x=1\r\n",
    ],
)
def test_a_login_leads_nowhere_else(stranger: FlaskClient, wanted: str) -> None:
    path = stranger.get("/login", query_string={"next": wanted}).request.full_path
    answer = type_in(stranger, path=path)
    assert (303, "/") == (answer.status_code, answer.location)


def test_who_is_logged_in_and_opens_the_login_page_comes_to_the_overview(
    make_client: MakeClient,
) -> None:
    answer = make_client().get("/login")
    assert (303, "/") == (answer.status_code, answer.location)


def test_the_session_before_a_login_is_not_the_one_after_it(stranger: FlaskClient) -> None:
    with stranger.session_transaction() as before:
        before["planted"] = "by somebody else"
    type_in(stranger)
    with stranger.session_transaction() as after:
        assert "planted" not in after


def test_logging_out_ends_the_session_and_every_copy_of_its_cookie(stranger: FlaskClient) -> None:
    type_in(stranger)
    stolen = logins.cookie(stranger)
    page = BeautifulSoup(stranger.get("/").text, "html.parser")
    form = page.find("form", {"action": "/logout"})
    assert form is not None
    token = form.find("input")
    assert token is not None
    assert 303 == stranger.post("/logout", data={"csrf_token": str(token["value"])}).status_code
    assert 303 == stranger.get("/").status_code
    thief = logins.stranger(stranger)
    thief.set_cookie(stolen["name"], stolen["value"])
    assert 303 == thief.get("/").status_code


@pytest.mark.parametrize(
    ("began", "seen", "expected"),
    [
        (0, 0, False),
        (0, -IDLE_SECONDS, True),
        (-LONGEST_SECONDS, 0, True),
        (-LONGEST_SECONDS + 1, -IDLE_SECONDS + 1, False),
        (3600, 3600, True),
    ],
)
def test_a_session_ends_when_nobody_is_there_and_after_the_longest_time(
    began: int, seen: int, expected: bool
) -> None:
    now = 1795172767
    assert expected == is_over({"began": now + began, "seen": now + seen}, now)


@pytest.mark.parametrize("kept", [{}, {"began": 1}, {"began": "1", "seen": 1}])
def test_a_session_without_times_is_over(kept: dict[str, object]) -> None:
    assert is_over(kept, 1.0)


def grow_old(client: FlaskClient) -> None:
    with client.session_transaction() as session:
        session["seen"] -= IDLE_SECONDS + 1


def test_an_ended_session_is_reported(make_client: MakeClient) -> None:
    client = make_client()
    grow_old(client)
    answer = client.get("/node/a", follow_redirects=True)
    assert "Your session has ended." in answer.text
    assert 200 == answer.status_code


def test_somebody_at_the_keyboard_stays_logged_in(make_client: MakeClient) -> None:
    client = make_client()
    almost = int(time.time()) - IDLE_SECONDS + 100
    with client.session_transaction() as session:
        session["seen"] = almost
    client.get("/", headers={sessions.REFRESH_HEADER: "1"})
    with client.session_transaction() as session:
        assert almost == session["seen"], "a page that refreshes itself is nobody"
    client.get("/")
    with client.session_transaction() as session:
        assert almost < session["seen"]


def test_a_page_that_refreshes_itself_is_told_by_status_that_its_session_ended(
    make_client: MakeClient,
) -> None:
    client = make_client()
    grow_old(client)
    assert 401 == client.get("/", headers={sessions.REFRESH_HEADER: "1"}).status_code


def test_what_was_typed_into_a_form_of_an_ended_session_is_shown_and_not_done(
    make_client: MakeClient,
) -> None:
    client = make_client()
    grow_old(client)
    answer = client.post(
        "/node/a?x=1", data={"reason": "the <disk> of a is full", "password": "typed by mistake"}
    )
    assert 401 == answer.status_code
    assert "nothing was done" in answer.text
    assert "the &lt;disk&gt; of a is full" in answer.text
    assert "typed by mistake" not in answer.text
    assert 'action="/login?next=/node/a?x%3D1"' in answer.text


def test_what_others_post_is_not_shown_on_the_login_page(stranger: FlaskClient) -> None:
    answer = stranger.post("/node/a", data={"reason": "call 555 0100 and tell your password"})
    assert 400 == answer.status_code
    assert "555" not in answer.text


def test_a_changed_password_and_a_removed_account_end_sessions_at_once(
    make_client: MakeClient, viewer: ClientFor, tmp_path: Path
) -> None:
    operator = make_client()
    other = viewer(operator)
    assert [200, 200] == [operator.get("/").status_code, other.get("/").status_code]
    path = tmp_path / "admin" / "accounts.json"
    accounts.make(path, accounts.set_password("alice", "four other words of chance"))
    accounts.make(path, accounts.remove_user("victor"))
    assert [303, 303] == [operator.get("/").status_code, other.get("/").status_code]


def test_failed_attempts_from_an_address_are_refused_after_ten(stranger: FlaskClient) -> None:
    for number in range(10):
        assert 401 == type_in(stranger, f"name{number}", "wrong").status_code
    answer = type_in(stranger, "alice", PASSWORD)
    assert 429 == answer.status_code
    assert "Too many failed logins." in answer.text
    assert 1 <= int(answer.headers["Retry-After"]) <= 61
    assert 303 == stranger.get("/").status_code


def from_address(client: FlaskClient, address: str) -> FlaskClient:
    client.environ_base["REMOTE_ADDR"] = address
    return client


def test_attempts_at_one_account_from_many_addresses_are_refused_but_not_its_owner_s_browser(
    stranger: FlaskClient,
) -> None:
    owner = from_address(logins.stranger(stranger), "10.0.0.1")
    assert 303 == type_in(owner).status_code
    owner.delete_cookie("zodbrepl-8100")
    for number in range(10):
        attacker = from_address(logins.stranger(stranger), f"10.1.0.{number}")
        assert 401 == type_in(attacker, "alice", "wrong").status_code
    assert 429 == type_in(from_address(logins.stranger(stranger), "10.1.0.99")).status_code
    assert (
        303 == type_in(from_address(logins.stranger(stranger), "10.1.0.98"), "victor").status_code
    )
    assert 303 == type_in(owner).status_code


def test_attempts_from_the_same_address_do_not_lock_out_a_known_browser(
    stranger: FlaskClient,
) -> None:
    owner = logins.stranger(stranger)
    assert 303 == type_in(owner).status_code
    owner.delete_cookie("zodbrepl-8100")
    for number in range(10):
        assert 401 == type_in(logins.stranger(stranger), f"name{number}", "wrong").status_code
    assert 429 == type_in(logins.stranger(stranger), "victor").status_code
    assert 429 == type_in(owner, "victor").status_code, "it is known for its own account only"
    assert 303 == type_in(owner).status_code


def test_a_known_browser_is_blocked_by_its_own_failures(stranger: FlaskClient) -> None:
    type_in(stranger)
    stranger.delete_cookie("zodbrepl-8100")
    for _number in range(10):
        assert 401 == type_in(stranger, "alice", "wrong").status_code
    assert 429 == type_in(stranger).status_code
    assert 303 == type_in(logins.stranger(stranger)).status_code


def test_a_mark_of_a_known_browser_counts_for_its_account_alone(stranger: FlaskClient) -> None:
    type_in(stranger, "victor")
    stranger.delete_cookie("zodbrepl-8100")
    for number in range(10):
        from_address(stranger, f"10.1.0.{number}")
        assert 401 == type_in(stranger, "alice", "wrong").status_code
    assert 429 == type_in(from_address(logins.stranger(stranger), "10.1.0.99")).status_code


def test_a_browser_is_known_until_the_password_changes(
    stranger: FlaskClient, tmp_path: Path
) -> None:
    """Whoever copied its mark has no more attempts than other strangers then."""
    type_in(stranger)
    stranger.delete_cookie("zodbrepl-8100")
    for number in range(10):
        other = logins.stranger(stranger)
        assert 401 == type_in(other, f"name{number}", "wrong").status_code
    assert 401 == type_in(stranger, "alice", "wrong").status_code
    path = tmp_path / "admin" / "accounts.json"
    accounts.make(path, accounts.set_password("alice", "another four words"))
    assert 429 == type_in(stranger, "alice", "wrong").status_code


def test_logins_that_succeed_are_not_counted(stranger: FlaskClient) -> None:
    for _number in range(12):
        client = logins.stranger(stranger)
        assert 303 == type_in(client).status_code


@pytest.mark.parametrize(
    ("address", "expected"),
    [("10.0.0.1", "10.0.0.1"), ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"), ("", "unknown")],
)
def test_attempts_count_for_an_address_or_for_a_network_of_ipv6(
    stranger: FlaskClient, address: str, expected: str
) -> None:
    with stranger.application.test_request_context(environ_base={"REMOTE_ADDR": address}):
        assert expected == login.address()


def test_cookies_are_for_this_page_alone(stranger: FlaskClient) -> None:
    answer = type_in(stranger)
    cookies = answer.headers.getlist("Set-Cookie")
    assert {"zodbrepl-8100", "zodbrepl-8100-known"} == {each.partition("=")[0] for each in cookies}
    for each in cookies:
        assert "HttpOnly" in each
        assert "SameSite=Lax" in each
        assert "Secure" not in each, "it is plain HTTP on loopback"
        assert "Domain" not in each


@pytest.mark.parametrize("scheme", ["https", "http"])
def test_cookies_go_over_tls_alone_where_the_page_is_reached_by_tls(
    make_client: MakeClient, anonymous: ClientFor, scheme: str
) -> None:
    """Also if the proxy is not trusted to say that it was."""
    admin = Admin("127.0.0.1", 8100, public_url="https://zodb.example/", trusted_proxy="127.0.0.1")
    client = anonymous(make_client({"admin": admin}))
    answer = type_in(client, base_url=f"{scheme}://zodb.example/")
    assert 303 == answer.status_code
    cookies = answer.headers.getlist("Set-Cookie")
    assert {"__Host-zodbrepl-8100", "__Host-zodbrepl-8100-known"} == {
        each.partition("=")[0] for each in cookies
    }
    for each in cookies:
        assert {"Secure", "HttpOnly", "Path=/"} <= set(each.split("; "))
        assert "Domain" not in each
    assert 200 == client.get("/", base_url=f"{scheme}://zodb.example/").status_code


def test_a_cookie_of_another_site_is_no_session_over_tls(
    make_client: MakeClient, anonymous: ClientFor
) -> None:
    """Other names below the domain, and pages without TLS, can set cookies without the prefix."""
    admin = Admin("127.0.0.1", 8100, public_url="https://zodb.example/")
    client = anonymous(make_client({"admin": admin}))
    type_in(client, base_url="https://zodb.example/")
    session = client.get_cookie("__Host-zodbrepl-8100", domain="zodb.example")
    assert session is not None
    tossed = logins.stranger(client)
    tossed.set_cookie("zodbrepl-8100", session.value, domain="zodb.example", secure=True)
    assert 303 == tossed.get("/", base_url="https://zodb.example/").status_code


def test_below_a_path_cookies_keep_the_path_and_get_the_prefix_that_allows_one(
    make_client: MakeClient, anonymous: ClientFor
) -> None:
    admin = Admin("127.0.0.1", 8100, public_url="https://www.example/zodb/")
    client = anonymous(make_client({"admin": admin}))
    answer = type_in(client, base_url="https://www.example/zodb/")
    assert 303 == answer.status_code
    cookies = answer.headers.getlist("Set-Cookie")
    assert {"__Secure-zodbrepl-8100", "__Secure-zodbrepl-8100-known"} == {
        each.partition("=")[0] for each in cookies
    }
    assert all("Path=/zodb" in each.split("; ") for each in cookies)


def test_the_form_can_be_used_by_keyboard_and_screen_reader(stranger: FlaskClient) -> None:
    page = BeautifulSoup(stranger.get("/login").text, "html.parser")
    for name in ("name", "password"):
        field = page.find("input", {"name": name})
        assert field is not None
        label = page.find("label", {"for": field["id"]})
        assert label is not None
        assert field.get("autocomplete") in ("username", "current-password")
