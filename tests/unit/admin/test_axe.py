"""axe-core can fail, and passes on the states and widths that no other test shows a browser.

``looks.check`` has it look at every page that is shown to a browser.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import axe
import looks
import past
import pytest
import situations
import states
from chromium import NewTab
from flask.testing import FlaskClient
from logs_of_three import LogsOfThree
from spread import H1_LOST, WELL, spread
from werkzeug.test import TestResponse

from indico_zodbrepl.admin.pages import logs
from indico_zodbrepl.cluster.model import Cluster
from indico_zodbrepl.monitor.host_status import Automation, Pause
from indico_zodbrepl.monitor.snapshot import Snapshot

WIDTHS = (390, 768, 1280, 1920)
HOSTS = {"h1": WELL, "h2": WELL, "h3": WELL}
PAUSED = Automation(3.0, paused=Pause("ada", "new switch", "2026-11-24T18:00:00Z"))
ADD = "document.querySelector('main').insertAdjacentHTML('beforeend', '{}')"
FAULTS = {
    "aria-allowed-role": ADD.format('<ul><li role="note">x</li></ul>'),
    "image-alt": ADD.format("<p>x <img></p>"),
    "label": ADD.format("<p>x <input></p>"),
    "color-contrast": "document.querySelector('h1').style.color = '#aaa'",
    "aria-valid-attr-value": "document.getElementById('pause')"
    ".setAttribute('aria-describedby', 'nowhere')",
}

ClientFor = Callable[[FlaskClient], FlaskClient]
MakeClient = Callable[..., FlaskClient]
Serve = Callable[[Cluster, Callable[[], Snapshot]], FlaskClient]
Check = Callable[[str, dict[str, TestResponse]], None]
ServeClient = Callable[[FlaskClient], str]


@pytest.mark.parametrize("rule", FAULTS)
def test_a_fault_is_found(
    new_tab: NewTab, serve_client: ServeClient, make_client: MakeClient, rule: str
) -> None:
    tab = new_tab()
    tab.open(serve_client(make_client()) + "/")
    tab.evaluate(FAULTS[rule])
    assert rule in {each.partition(" ")[0] for each in axe.broken(tab, [])}


@pytest.fixture
def check(new_tab: NewTab) -> Check:
    """A function: see that answers can be read at each width, light and dark."""

    def look(address: str, answers: dict[str, TestResponse]) -> None:
        tab = new_tab()
        for name, answer in answers.items():
            looks.show(tab, address, answer)
            looks.check_at(tab, name, WIDTHS)

    return look


def test_pages_of_people_who_are_not_logged_in(
    check: Check,
    serve_client: ServeClient,
    make_client: MakeClient,
    anonymous: ClientFor,
) -> None:
    client = make_client()
    stranger = anonymous(client)
    login = stranger.get("/login")
    found = re.search('name="csrf_token" value="([^"]*)"', login.text)
    assert found is not None
    sent = {"csrf_token": found[1], "name": "alice", "password": "wrong"}
    answers = {
        "the login": login,
        "the login after a session": stranger.get("/login?over=1"),
        "a wrong password": stranger.post("/login", data=sent),
        "a form that came too late": stranger.post(
            "/automation/pause", data={"csrf_token": found[1], "reason": "new switch"}
        ),
        "a form without its token": stranger.post("/login", data={"name": "alice"}),
    }
    check(serve_client(client), answers)


def test_pages_of_errors_and_notices(
    check: Check,
    serve_client: ServeClient,
    make_client: MakeClient,
    viewer: ClientFor,
    tmp_path: Path,
) -> None:
    client = make_client(**situations.PRIMARY_KILLED)
    cluster = dataclasses.replace(situations.cluster(), var_directory=tmp_path)
    past.keep(cluster, past.failover(past.tail(cluster)))
    answers = {
        "no such page, with lost transactions": client.get("/nowhere"),
        "a method that is not accepted": client.get("/automation/resume"),
        "what a viewer may not do": viewer(client).post("/automation/resume"),
        "a journal's wrong filter": client.get("/journal?text=" + 1000 * "x"),
        "a decision": client.get(f"/recover/{past.TAIL}/decide"),
        "a decision without a reason": client.post(f"/recover/{past.TAIL}/decide", data={}),
        "a viewer's recovery exports": viewer(client).get("/recover"),
        "a viewer's node": viewer(client).get("/node/a"),
    }
    check(serve_client(client), answers)


def test_pages_while_the_automatic_failover_is_paused(
    check: Check,
    serve_client: ServeClient,
    page_of: Serve,
    viewer: ClientFor,
    tmp_path: Path,
) -> None:
    cluster = dataclasses.replace(spread(), var_directory=tmp_path, automatic=True)
    client = page_of(cluster, lambda: situations.snapshot(cluster, hosts=HOSTS, automation=PAUSED))
    answers = {
        "a paused overview": client.get("/"),
        "a paused journal": client.get("/journal"),
        "a viewer's paused operations": viewer(client).get("/operations"),
    }
    check(serve_client(client), answers)


def test_logs_of_several_hosts_of_which_one_is_away(
    check: Check,
    serve_client: ServeClient,
    page_of: Serve,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setattr(logs, "host_of", lambda _cluster: SimpleNamespace(logs=LogsOfThree))
    cluster = dataclasses.replace(spread(), var_directory=tmp_path)
    client = page_of(cluster, lambda: situations.snapshot(cluster, hosts=HOSTS))
    paths = ("/logs", "/logs?program=h1/node-b", "/node/a")
    check(serve_client(client), {path: client.get(path) for path in paths})


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", [*states.STATES, "host lost"])
def test_each_state_at_the_widths_between(
    check: Check,
    serve_client: ServeClient,
    page_of: Serve,
    tmp_path: Path,
    name: str,
) -> None:
    made = spread() if name == "host lost" else situations.cluster()
    cluster = dataclasses.replace(made, var_directory=tmp_path)
    found = {**H1_LOST, "hosts": {**HOSTS, **H1_LOST["hosts"]}}
    found = states.STATES.get(name, found)
    client = page_of(cluster, lambda: situations.snapshot(cluster, **found))
    paths = ("/", "/node/a", "/operations", "/journal")
    check(serve_client(client), {path: client.get(path) for path in paths})
