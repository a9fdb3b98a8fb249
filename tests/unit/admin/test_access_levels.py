"""Who may open and do what: every address of the page, by each kind of visitor."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import logins
import pytest
from flask.testing import FlaskClient
from werkzeug.routing import Rule

from indico_zodbrepl.admin.access import gate
from indico_zodbrepl.admin.access.accounts import Level
from indico_zodbrepl.admin.access.gate import actor, why_not_operate
from indico_zodbrepl.cluster.programs import Admin

MakeClient = Callable[..., FlaskClient]
ClientFor = Callable[[FlaskClient], FlaskClient]
OPEN = {
    "/login",
    "/logout",
    "/health",
    "/primary",
    "/replica",
    "/metrics",
    "/static/<path:filename>",
}
HARMLESS = {"/api/operations/plan"}
"""Posts that change nothing, so that viewers may."""
READS = {"/journal/<identifier>/tail"}
"""Posts because the journal has to name the reader; also in read-only mode, but not for viewers."""
READ_ONLY = Admin("127.0.0.1", 8100, read_only=True)


def addresses(client: FlaskClient, method: str) -> Iterator[tuple[Rule, str]]:
    """Each address that takes a method, with something in the place of its variables."""
    for rule in client.application.url_map.iter_rules():
        if method in (rule.methods or ()):
            yield (
                rule,
                re.sub(
                    r"<(?:\w+:)?name>",
                    "a",
                    re.sub(
                        r"<path:filename>",
                        "page.css",
                        re.sub(r"<(?!(?:\w+:)?name>|path:file)[^>]*>", "failover", rule.rule),
                    ),
                ),
            )


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def files_in(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_strangers_open_nothing_but_the_login_and_what_machines_ask(
    make_client: MakeClient, anonymous: ClientFor
) -> None:
    stranger = anonymous(make_client())
    asked = 0
    for method in ("GET", "POST"):
        for rule, path in addresses(stranger, method):
            if rule.rule in OPEN:
                continue
            asked += 1
            answer = stranger.open(path, method=method)
            if path.startswith("/api/"):
                assert 401 == answer.status_code, path
                assert answer.headers["WWW-Authenticate"].startswith("Bearer"), path
                assert answer.json is not None, path
            elif method == "GET":
                assert (303, True) == (
                    answer.status_code,
                    answer.location.startswith("/login?next="),
                ), path
            else:
                assert 400 == answer.status_code, path
            assert "primary" not in answer.text, path
    assert asked >= 3


def test_what_is_open_says_so_itself(make_client: MakeClient) -> None:
    app = make_client().application
    with app.app_context():
        found = {
            rule.rule
            for rule in app.url_map.iter_rules()
            if gate.needed(rule.endpoint) == gate.NOBODY
        }
    assert found <= OPEN
    assert {"/login", "/logout", "/health"} <= found


@pytest.mark.parametrize("path", ["/health"])
def test_machines_ask_without_a_login_and_get_no_cookie(
    make_client: MakeClient, anonymous: ClientFor, path: str
) -> None:
    answer = anonymous(make_client()).get(path)
    assert 200 == answer.status_code
    assert "Set-Cookie" not in answer.headers


def test_nothing_is_changed_by_a_get(make_client: MakeClient, tmp_path: Path) -> None:
    client = make_client()
    before = files_in(tmp_path)
    for _rule, path in addresses(client, "GET"):
        with client.get(path) as answer:
            assert answer.status_code < 500, path
        assert before == files_in(tmp_path), path


def test_every_post_needs_a_token_of_the_form(make_client: MakeClient, tmp_path: Path) -> None:
    client = make_client()
    del client.environ_base["HTTP_X_CSRFTOKEN"]
    before = files_in(tmp_path)
    posts = list(addresses(client, "POST"))
    assert {"/login", "/logout"} <= {path for _rule, path in posts}
    for _rule, path in posts:
        for sent in ({}, {"csrf_token": "made up"}):
            answer = client.post(path, data=sent)
            assert 400 == answer.status_code, path
            assert before == files_in(tmp_path), path


def test_only_operators_do_anything(make_client: MakeClient, viewer: ClientFor) -> None:
    client = viewer(make_client())
    for rule, path in addresses(client, "POST"):
        if rule.rule not in OPEN | HARMLESS:
            assert 403 == client.post(path).status_code, path


def test_in_read_only_mode_nobody_does_anything(make_client: MakeClient) -> None:
    client = make_client({"admin": READ_ONLY})
    assert 200 == client.get("/").status_code
    for rule, path in addresses(client, "POST"):
        if rule.rule not in OPEN | HARMLESS | READS:
            answer = client.post(path)
            assert 403 == answer.status_code, path
            assert "read-only" in answer.text, path


@pytest.mark.parametrize(
    ("token", "level"), [(logins.OPERATOR_TOKEN, "operator"), (logins.VIEWER_TOKEN, "viewer")]
)
def test_the_api_takes_tokens(
    make_client: MakeClient, anonymous: ClientFor, token: str, level: str
) -> None:
    client = anonymous(make_client())
    answer = client.get("/api/status", headers=bearer(token))
    assert 200 == answer.status_code
    assert "Set-Cookie" not in answer.headers
    with client.application.test_request_context("/api/status", headers=bearer(token)):
        assert (level == "operator") != bool(why_not_operate())


@pytest.mark.parametrize(
    "headers",
    [
        {},
        bearer(""),
        bearer("made up"),
        bearer(logins.OPERATOR_TOKEN[:-1]),
        {"Authorization": "Basic " + "YWxpY2U6Zm91ciB3b3JkcyBvZiBjaGFuY2U="},
        {"Authorization": "Bearer"},
        {"Authorization": "\xff"},
    ],
)
def test_the_api_refuses_whatever_is_no_token(
    make_client: MakeClient, anonymous: ClientFor, headers: dict[str, str]
) -> None:
    answer = anonymous(make_client()).get("/api/status", headers=headers)
    assert 401 == answer.status_code
    assert answer.json is not None
    assert "admin token add" in answer.json["detail"]


def test_tokens_open_no_pages(make_client: MakeClient, anonymous: ClientFor) -> None:
    answer = anonymous(make_client()).get("/", headers=bearer(logins.OPERATOR_TOKEN))
    assert 303 == answer.status_code


def test_an_operator_s_token_needs_no_form(make_client: MakeClient, anonymous: ClientFor) -> None:
    client = anonymous(make_client())
    for rule, path in addresses(client, "POST"):
        if path.startswith("/api/") and rule.rule not in HARMLESS:
            answer = client.post(path, headers=bearer(logins.OPERATOR_TOKEN), json={})
            assert 400 <= answer.status_code < 500, path
            assert "CSRF" not in answer.text, path
            assert (
                403 == client.post(path, headers=bearer(logins.VIEWER_TOKEN), json={}).status_code
            ), path


def test_the_journal_s_name_of_whoever_asks(make_client: MakeClient) -> None:
    client = make_client()
    name, value = logins.cookie(client).values()
    app = client.application
    with app.test_request_context("/", headers={"Cookie": f"{name}={value}"}):
        assert ("alice (admin page)", "") == (actor(), why_not_operate())
    with app.test_request_context("/api/status", headers=bearer(logins.OPERATOR_TOKEN)):
        assert "deploy (token)" == actor()
    with app.test_request_context("/api/status", headers=bearer(logins.VIEWER_TOKEN)):
        assert "dashboard is a viewer. Only operators can begin operations." == why_not_operate()
    with app.test_request_context("/"), pytest.raises(RuntimeError):
        actor()


@pytest.mark.parametrize(
    ("who", "shown", "hidden"),
    [("alice", "alice</span>", "viewer"), ("victor", "victor, viewer</span>", "alice")],
)
def test_every_page_says_who_is_logged_in(
    make_client: MakeClient, who: str, shown: str, hidden: str
) -> None:
    client = logins.log_in(logins.stranger(make_client()), who)
    header = client.get("/").text.partition("<main")[0]
    assert shown in header
    assert hidden not in header
    assert 'action="/logout"' in header


def test_the_levels_are_two() -> None:
    assert ["viewer", "operator"] == list(Level)
