"""The page as it is served, and what it believes of a reverse proxy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import urljoin

import logins
import pytest
import requests
from bs4 import BeautifulSoup
from flask import request
from flask.testing import FlaskClient
from served_page import served

from indico_zodbrepl.cluster.programs import Admin

MakeClient = Callable[..., FlaskClient]
PUBLIC = "https://zodb.example/"
PATIENCE = 60


def log_in(address: str, **headers: str) -> requests.Response:
    """As a browser behind a proxy that sends these headers."""
    with requests.Session() as session:
        session.headers.update(headers)
        page = session.get(urljoin(address, "login"), timeout=PATIENCE)
        token = BeautifulSoup(page.text, "html.parser").find("input", {"name": "csrf_token"})
        assert token is not None
        sent = {"csrf_token": str(token["value"]), "name": "alice", "password": logins.PASSWORD}
        cookie = "; ".join(f"{each.name}={each.value}" for each in session.cookies)
        return session.post(
            urljoin(address, "login"),
            timeout=PATIENCE,
            data=sent,
            allow_redirects=False,
            headers={"Cookie": cookie, "Referer": PUBLIC},
        )


def admin(proxy: str | None) -> Admin:
    return Admin("127.0.0.1", 0, public_url=PUBLIC, trusted_proxy=proxy)


def test_a_trusted_proxy_says_who_asks_and_how(make_client: MakeClient) -> None:
    behind = admin("127.0.0.1")
    page = make_client({"admin": behind}).application
    seen: list[tuple[str | None, bool]] = []

    @page.after_request
    def remember(response: Any) -> Any:
        seen.append((request.remote_addr, request.is_secure))
        return response

    with served(page, behind) as address:
        answer = log_in(
            address,
            Host="zodb.example",
            **{"X-Forwarded-For": "6.6.6.6, 10.1.2.3", "X-Forwarded-Proto": "https"},
        )
    assert (303, "/") == (answer.status_code, answer.headers["Location"])
    assert {("10.1.2.3", True)} == set(seen)
    assert answer.headers["Set-Cookie"].count("Secure") == 2


@pytest.mark.parametrize("proxy", [None, "10.9.9.9"])
def test_nobody_else_is_believed(make_client: MakeClient, proxy: str | None) -> None:
    behind = Admin("127.0.0.1", 0, public_url=PUBLIC, trusted_proxy=proxy)
    page = make_client({"admin": behind}).application
    with served(page, behind) as address:
        wrong = [
            requests.post(
                urljoin(address, "login"),
                timeout=PATIENCE,
                data={},
                headers={"X-Forwarded-Host": "zodb.example", "Host": "attacker.example"},
            ).status_code
        ]
        assert [400] == wrong
        answer = log_in(address, **{"X-Forwarded-For": "6.6.6.6", "X-Forwarded-Proto": "https"})
        assert 303 == answer.status_code
        assert "Secure" not in answer.headers["Set-Cookie"], "it is HTTP on loopback, by a tunnel"


def test_attempts_count_for_the_address_that_the_proxy_names(make_client: MakeClient) -> None:
    behind = admin("127.0.0.1")
    page = make_client({"admin": behind}).application
    with served(page, behind) as address:

        def attempt(client: str, name: str) -> int:
            with requests.Session() as session:
                session.headers.update({"Host": "127.0.0.1", "X-Forwarded-For": client})
                text = session.get(urljoin(address, "login"), timeout=PATIENCE).text
                token = BeautifulSoup(text, "html.parser").find("input", {"name": "csrf_token"})
                assert token is not None
                return session.post(
                    urljoin(address, "login"),
                    timeout=PATIENCE,
                    data={"csrf_token": str(token["value"]), "name": name, "password": "wrong"},
                ).status_code

        assert [401] * 10 == [attempt("10.0.0.1", f"nobody{number}") for number in range(10)]
        assert 429 == attempt("10.0.0.1", "somebody")
        assert 401 == attempt("10.0.0.2", "somebody")


def test_a_long_body_is_refused_before_it_fills_the_disk(make_client: MakeClient) -> None:
    local = admin(None)
    page = make_client({"admin": local}).application
    with served(page, local) as address:
        answer = requests.post(
            urljoin(address, "login"), timeout=PATIENCE, data=b"name=" + b"a" * (2 << 20)
        )
    assert 413 == answer.status_code


@pytest.mark.parametrize("below", ["events/zodb/", ""], ids=["whole path", "path taken away"])
def test_below_a_path_every_address_of_every_page_is_below_it(
    make_client: MakeClient, below: str
) -> None:
    """Whether the proxy hands paths on as they are or without the prefix, as a tunnel does."""
    behind = Admin("127.0.0.1", 0, public_url=f"{PUBLIC}events/zodb/")
    page = make_client({"admin": behind}).application
    with served(page, behind) as address:
        answer = log_in(f"{address}{below}", Host="127.0.0.1")
        assert (303, "/events/zodb/") == (answer.status_code, answer.headers["Location"])
        assert 2 == answer.headers["Set-Cookie"].count("Path=/events/zodb;")
        cookies = {"Cookie": "; ".join(f"{each.name}={each.value}" for each in answer.cookies)}
        for path in ("", "node/a", "operations", "journal", "data", "data/benchmarks", "recover"):
            told = requests.get(f"{address}{below}{path}", headers=cookies, timeout=PATIENCE)
            assert 200 == told.status_code, path
            found = BeautifulSoup(told.text, "html.parser")
            links = [
                str(tag[name])
                for name in ("href", "src", "action", "content")
                for tag in found.select(f"[{name}]")
                if str(tag[name])[:1] == "/"
            ]
            assert len(links) > 7
            assert [] == [each for each in links if not each.startswith("/events/zodb/")], path
            current = found.select("nav [aria-current]")
            assert path.partition("/")[0] in ("node", "recover") or 1 <= len(current), path
        style = requests.get(f"{address}events/zodb/static/page.css", timeout=PATIENCE)
        assert 200 == style.status_code


def test_below_a_path_a_stranger_comes_back_to_where_they_wanted_to_be(
    make_client: MakeClient,
) -> None:
    behind = Admin("127.0.0.1", 0, public_url=f"{PUBLIC}zodb/")
    with served(make_client({"admin": behind}).application, behind) as address:
        answer = requests.get(
            f"{address}zodb/journal?kind=clone", allow_redirects=False, timeout=PATIENCE
        )
        expected = "/zodb/login?next=/zodb/journal?kind%3Dclone"
        assert (303, expected) == (answer.status_code, answer.headers["Location"])
