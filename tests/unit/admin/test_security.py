"""What the page refuses, and the headers it sends."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from flask.testing import FlaskClient

from indico_zodbrepl.admin.access.gate import is_own_host
from indico_zodbrepl.cluster.programs import Admin

MakeClient = Callable[..., FlaskClient]
ClientFor = Callable[[FlaskClient], FlaskClient]
PATHS = ["/", "/node/a", "/api/status", "/health", "/static/live.js", "/nothing"]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
def test_nothing_but_reading_is_allowed(make_client: MakeClient, method: str, path: str) -> None:
    answer = make_client().open(path, method=method)
    assert (404 if path == "/nothing" else 405) == answer.status_code
    if path != "/nothing":
        assert "GET, HEAD" == answer.headers["Allow"]


@pytest.mark.parametrize("path", PATHS)
def test_every_answer_carries_the_security_headers(make_client: MakeClient, path: str) -> None:
    with make_client().get(path) as answer:
        headers = answer.headers
    policy = headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert "nosniff" == headers["X-Content-Type-Options"]
    assert "same-origin" == headers["Referrer-Policy"]
    assert "no-" in headers["Cache-Control"]
    assert "Set-Cookie" not in headers


def test_the_policy_allows_our_own_files_and_forms_and_nothing_else(
    make_client: MakeClient,
) -> None:
    policy = make_client().get("/").headers["Content-Security-Policy"]
    assert {
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'self'",
        "frame-ancestors 'none'",
    } == set(policy.split("; "))


@pytest.mark.parametrize("path", ["/login", "/", "/api/status"])
def test_what_strangers_see_is_kept_by_nobody(
    make_client: MakeClient, anonymous: ClientFor, path: str
) -> None:
    assert "no-store" == anonymous(make_client()).get(path).headers["Cache-Control"]


@pytest.mark.parametrize("path", PATHS)
def test_a_foreign_host_name_is_refused(make_client: MakeClient, path: str) -> None:
    answer = make_client().get(path, headers={"Host": "attacker.example:8100"})
    assert 400 == answer.status_code
    assert "as assigned" not in answer.text


@pytest.mark.parametrize(
    ("bound", "host", "expected"),
    [
        ("127.0.0.1", "127.0.0.1:8100", True),
        ("127.0.0.1", "localhost:8100", True),
        ("127.0.0.1", "localhost:9999", True),
        ("127.0.0.1", "[::1]:8100", True),
        ("127.0.0.1", "10.0.0.5:8100", False),
        ("127.0.0.1", "localhost.attacker.example:8100", False),
        ("127.0.0.1", "attacker@127.0.0.1:8100", False),
        ("127.0.0.1", "127.0.0.1:8100/x", False),
        ("127.0.0.1", "127.0.0.1:port", False),
        ("127.0.0.1", "[::1", False),
        ("127.0.0.1", "", False),
        ("10.0.0.5", "10.0.0.5:8100", True),
        ("10.0.0.5", "10.0.0.5:8101", False),
        ("Control.example", "control.EXAMPLE:8100", True),
        ("control.example", "other.example:8100", False),
        ("0.0.0.0", "192.168.1.7:8100", True),  # noqa: S104 - a header's text; nothing is bound
        ("0.0.0.0", "attacker.example:8100", False),  # noqa: S104 - as above
        ("::", "[fd00::7]:8100", True),
    ],
)
def test_own_host_names(bound: str, host: str, expected: bool) -> None:
    assert expected == is_own_host(host, Admin(bound, 8100))


@pytest.mark.parametrize(
    ("url", "host", "expected"),
    [
        ("https://zodb.example/", "zodb.example", True),
        ("https://zodb.example/", "ZODB.example:443", True),
        ("https://zodb.example/", "zodb.example:8443", False),
        ("https://zodb.example:8443/", "zodb.example:8443", True),
        ("http://zodb.example/", "zodb.example:80", True),
        ("https://zodb.example/events/zodb/", "zodb.example", True),
        ("https://zodb.example/events/zodb/", "events.example", False),
        ("https://zodb.example/", "zodb.example.attacker.example", False),
        ("https://zodb.example/", "127.0.0.1:8100", True),
    ],
)
def test_the_host_name_of_the_public_url_is_ours_too(url: str, host: str, expected: bool) -> None:
    assert expected == is_own_host(host, Admin("127.0.0.1", 8100, public_url=url))


@pytest.mark.parametrize(
    ("host", "expected"),
    [("10.77.0.13:8100", True), ("10.77.0.13:8101", False), ("10.77.0.12:8100", False)],
)
def test_the_address_of_its_host_is_ours_where_a_tunnel_has_the_page(
    host: str, expected: bool
) -> None:
    assert expected == is_own_host(host, Admin("127.77.0.13", 8100), "10.77.0.13")
