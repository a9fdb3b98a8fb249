"""The page under load: who is answered while others send too much, too slowly, or nothing."""

from __future__ import annotations

import contextlib
import http.client
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import logins
import pytest
import requests
from flask.testing import FlaskClient
from served_page import served
from werkzeug.exceptions import TooManyRequests

from indico_zodbrepl.admin import surveys
from indico_zodbrepl.admin.access import gate, login
from indico_zodbrepl.admin.access.quotas import Quota, Sender
from indico_zodbrepl.admin.pages import api
from indico_zodbrepl.cluster.programs import Admin
from indico_zodbrepl.monitor import http_server
from indico_zodbrepl.operations import planning
from indico_zodbrepl.operations.model import Refusal
from indico_zodbrepl.operations.planning import Request

MakeClient = Callable[..., FlaskClient]
ClientFor = Callable[[FlaskClient], FlaskClient]
ADMIN = Admin("127.0.0.1", 0)
PATIENCE = 60
AT_ONCE = 5.0
"""Seconds within which a request is answered that waits for no other."""
ANY = "http://127.0.0.1/"
ALICE, VICTOR = Sender("alice", is_operator=True), Sender("victor")


def cookie_of(client: FlaskClient) -> dict[str, str]:
    found = logins.cookie(client)
    return {"Cookie": f"{found['name']}={found['value']}"}


@contextlib.contextmanager
def connections(address: str, count: int, sent: bytes = b"") -> Iterator[list[socket.socket]]:
    """Open connections on which so much was sent."""
    parts = urlsplit(address)
    with contextlib.ExitStack() as opened:
        made = []
        for _number in range(count):
            made.append(
                opened.enter_context(socket.create_connection((parts.hostname, parts.port)))
            )
            made[-1].settimeout(PATIENCE)
            made[-1].sendall(sent)
        yield made


@pytest.fixture
def slow_plans(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Plans of a pack take until the event is set; all others are refused at once."""
    goes_on = threading.Event()

    def prepare(_cluster: object, _installation: object, request: Request) -> Refusal:
        if request.operation == "pack":
            goes_on.wait(PATIENCE)
        return Refusal("no", "wait", ())

    monkeypatch.setattr(surveys, "prepare", prepare)
    monkeypatch.setattr(planning, "prepare", prepare)
    yield goes_on
    goes_on.set()


def test_twelve_slow_requests_of_a_viewer_leave_an_operator_s_pages_and_plans_answered(
    make_client: MakeClient, viewer: ClientFor, slow_plans: threading.Event
) -> None:
    client = make_client({"admin": ADMIN})
    theirs, ours = cookie_of(viewer(client)), cookie_of(client)
    ours["X-CSRFToken"] = client.environ_base["HTTP_X_CSRFTOKEN"]

    with served(client.application, ADMIN) as address, ThreadPoolExecutor(12) as pool:

        def get(path: str, headers: Mapping[str, str], patience: float) -> requests.Response:
            return requests.get(
                f"{address}{path}", headers=headers, timeout=patience, allow_redirects=False
            )

        begun = [
            pool.submit(get, f"operations/pack?node=a&days={days}", theirs, PATIENCE)
            for days in range(1, 13)
        ]
        for path in ("", "operations/failover?node=b", "health", "metrics"):
            assert 200 == get(path, ours, AT_ONCE).status_code, path
        assert 409 == planned(address, {"operation": "failover"}, ours, AT_ONCE).status_code
        refused = [each.result() for each in begun if each.result().status_code == 429]
        assert 12 - surveys.EACH == len(refused)
        assert "Retry in a few seconds" in refused[0].text
        assert "2" == refused[0].headers["Retry-After"]
        slow_plans.set()


def test_twelve_slow_plans_of_a_viewer_s_program_leave_an_operator_s_plan_answered(
    make_client: MakeClient, slow_plans: threading.Event
) -> None:
    client = make_client({"admin": ADMIN})
    pack = {"operation": "pack", "target": "a"}
    with served(client.application, ADMIN) as address, ThreadPoolExecutor(12) as pool:
        begun = [
            pool.submit(planned, address, pack, bearer(logins.VIEWER_TOKEN), PATIENCE)
            for _number in range(12)
        ]
        eventually_busy(client)
        answer = planned(address, {"operation": "failover"}, bearer(logins.OPERATOR_TOKEN), AT_ONCE)
        assert 409 == answer.status_code
        slow_plans.set()
        codes = [each.result().status_code for each in begun]
        assert {409, 429} == set(codes)


def eventually_busy(client: FlaskClient) -> None:
    """Wait until the viewer's plans occupy all places that they get."""
    until = time.monotonic() + PATIENCE
    while sum(api._planning._taken.values()) < api.EACH:
        assert time.monotonic() < until
        client.get("/health")


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def planned(
    address: str, wanted: Mapping[str, str], headers: Mapping[str, str], patience: float
) -> requests.Response:
    return requests.post(
        f"{address}api/operations/plan",
        json=dict(wanted),
        headers={**headers, "Referer": address},
        timeout=patience,
    )


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Part: "])
@pytest.mark.parametrize(("count", "most"), [(99, http_server.MOST_CONNECTIONS), (150, 60)])
def test_idle_connections_leave_health_and_the_page_answered(
    make_client: MakeClient, monkeypatch: pytest.MonkeyPatch, count: int, most: int, sent: bytes
) -> None:
    """Also if there are more of them than the server accepts."""
    monkeypatch.setattr(http_server, "MOST_CONNECTIONS", most)
    monkeypatch.setattr(http_server, "MOST_WAITING", most // 2)
    client = make_client({"admin": ADMIN})
    page = client.application
    with served(page, ADMIN) as address, connections(address, count, sent):
        for path in ("health", "metrics", "login"):
            answer = requests.get(f"{address}{path}", timeout=PATIENCE)
            assert 200 == answer.status_code, path


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ",
        b"POST /login HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9999\r\n\r\nname=",
    ],
    ids=["nothing", "headers", "body"],
)
def test_a_client_that_sends_nothing_or_slowly_is_cut(
    make_client: MakeClient, monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    monkeypatch.setattr(http_server, "RECEIVE_SECONDS", 1.0)
    page = make_client({"admin": ADMIN}).application
    with served(page, ADMIN) as address, connections(address, 1, sent) as [slow]:
        began = time.monotonic()
        slow.settimeout(0.1)
        cut = False
        while not cut and time.monotonic() < began + PATIENCE:
            try:
                if sent:
                    slow.sendall(b"a")
                cut = slow.recv(1) == b""
            except TimeoutError:
                pass
            except ConnectionError:
                cut = True
        assert cut
        assert 0.9 < time.monotonic() - began


def test_a_request_that_takes_longer_than_a_client_may_send_is_answered(
    make_client: MakeClient, monkeypatch: pytest.MonkeyPatch, slow_plans: threading.Event
) -> None:
    monkeypatch.setattr(http_server, "RECEIVE_SECONDS", 0.3)
    client = make_client({"admin": ADMIN})
    ours = cookie_of(client)
    with served(client.application, ADMIN) as address:
        answer = requests.get(
            f"{address}operations/pack?node=a",
            headers=ours,
            timeout=PATIENCE,
            allow_redirects=False,
        )
        slow_plans.set()
    assert 303 == answer.status_code


def test_one_connection_serves_many_requests(
    make_client: MakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its time begins again with each request."""
    monkeypatch.setattr(http_server, "RECEIVE_SECONDS", 0.3)
    page = make_client({"admin": ADMIN}).application
    with (
        served(page, ADMIN) as address,
        contextlib.closing(http.client.HTTPConnection(urlsplit(address).netloc)) as kept,
    ):
        kept.connect()
        connection = kept.sock
        until = time.monotonic() + 1.0
        while time.monotonic() < until:
            kept.request("GET", "/health")
            with kept.getresponse() as answer:
                assert 200 == answer.status
                answer.read()
            assert connection is kept.sock, "it was closed"


def test_places_are_given_back_whatever_the_answer(make_client: MakeClient) -> None:
    client = make_client()
    for path in ("/", "/nothing", "/login", "/api/status", "/operations/nothing", "/health"):
        for _number in range(gate.PLACES + 1):
            with client.get(path) as answer:
                assert 429 != answer.status_code, path


def test_a_stranger_s_requests_count_for_the_address(
    make_client: MakeClient, anonymous: ClientFor
) -> None:
    client = make_client()
    stranger = anonymous(client)
    places = client.application.extensions[gate.STRANGERS]
    for _number in range(gate.EACH_STRANGER):
        places.take(Sender("127.0.0.1"))
    answer = stranger.get("/login")
    assert 429 == answer.status_code
    assert "Too many requests" in answer.text
    assert 200 == stranger.get("/login", environ_base={"REMOTE_ADDR": "10.0.0.2"}).status_code
    assert 200 == client.get("/").status_code
    for path in ("/health", "/metrics", "/static/page.css"):
        with stranger.get(path) as found:
            assert 200 == found.status_code, path


def test_a_browser_that_an_operator_has_used_can_log_in_while_strangers_send_too_much(
    make_client: MakeClient, anonymous: ClientFor
) -> None:
    client = make_client()
    places = client.application.extensions[gate.STRANGERS]
    page = client.application
    with page.test_request_context(ANY):
        marked = page.make_response("")
        login.know(page, marked, logins.EVERYBODY.users[logins.OPERATOR].person)
    name, _equals, rest = marked.headers["Set-Cookie"].partition("=")
    known = anonymous(client)
    known.set_cookie(name, rest.partition(";")[0])
    for number in range(gate.OF_STRANGERS - gate.FOR_KNOWN):
        places.take(Sender(f"10.0.0.{number}"))
    assert 429 == anonymous(client).get("/login").status_code
    assert 200 == known.get("/login").status_code


def test_a_viewer_with_a_session_and_a_token_does_not_keep_others_from_logging_in(
    make_client: MakeClient, anonymous: ClientFor
) -> None:
    client = make_client()
    places = client.application.extensions[gate.EXTENSION]
    for number in range(gate.PLACES - gate.FOR_OPERATORS):
        places.take(Sender(("victor (admin page)", "dashboard (token)")[number % 2]))
    new = anonymous(client)
    assert 200 == new.get("/login").status_code


def test_some_places_are_left_for_operators_and_each_sender_gets_a_few() -> None:
    quota = Quota(places=4, reserved=2, each=2)
    quota.take(VICTOR)
    quota.take(Sender("veronica"))
    with pytest.raises(TooManyRequests):
        quota.take(VICTOR)
    quota.take(ALICE)
    quota.take(ALICE)
    with pytest.raises(TooManyRequests):
        quota.take(Sender("bob", is_operator=True))
    quota.give_back(ALICE)
    with pytest.raises(TooManyRequests):
        quota.take(VICTOR)
    quota.take(ALICE)
