"""Alerts are silenced on the page by operators, with a reason, and stay visible."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import looks
import pytest
import situations
from chromium import NewTab
from flask.testing import FlaskClient
from read_pages import soup

from indico_zodbrepl.admin import silence_view
from indico_zodbrepl.cluster.model import Cluster
from indico_zodbrepl.operations import journal, silences
from indico_zodbrepl.operations.silences import key_of, name_of

ClientFor = Callable[[FlaskClient], FlaskClient]
ALERT = situations.snapshot(**situations.SECONDARY_KILLED).warnings[0]
PATH = f"/alerts/{name_of(key_of(ALERT))}/silence"
END = f"/alerts/{name_of(key_of(ALERT))}/end"


@pytest.fixture
def client(make_client: Callable[..., FlaskClient]) -> FlaskClient:
    return make_client(**situations.SECONDARY_KILLED)


@pytest.fixture
def of(tmp_path: Path) -> Cluster:
    return dataclasses.replace(situations.cluster(), var_directory=tmp_path)


def send(client: FlaskClient, path: str, **fields: str) -> int:
    """Send a form with the token of the page; return the status."""
    token = soup(client, PATH).select_one("input[name=csrf_token]")
    value = "" if token is None else str(token["value"])
    return client.post(path, data={"csrf_token": value, **fields}).status_code


def problems(client: FlaskClient) -> str:
    found = soup(client, "/").select_one("#problems")
    assert found is not None
    return " ".join(found.get_text(" ").split())


def test_an_operator_silences_an_alert_which_stays_visible_with_name_reason_and_time_left(
    client: FlaskClient, of: Cluster, viewer: ClientFor
) -> None:
    before = client.get("/health")
    assert 303 == send(client, PATH, hours="1.5", reason="<b>disk</b> ordered")
    shown = problems(viewer(client))
    assert ALERT.text in shown
    assert "Silenced by alice (admin page) , 1 h 30 min left: <b>disk</b> ordered" in shown
    after = client.get("/health")
    assert before.status_code == after.status_code
    assert before.text.partition("taken")[0] == after.text.partition("taken")[0]
    (entry,) = journal.read(of)[0]
    assert ("silence", "alice (admin page)", "<b>disk</b> ordered") == (
        entry.plan.operation,
        entry.actor,
        entry.plan.reason,
    )
    assert "Alert silenced: " in soup(client, "/journal").get_text()
    assert 400 == send(client, END, reason=" ")
    assert 303 == send(client, END, reason="it has arrived")
    assert "Silenced by" not in problems(client)
    end = journal.read(of)[0][1].plan
    assert ("silence-end", "it has arrived") == (end.operation, end.reason)


def test_a_page_computes_the_active_silences_once_and_the_next_page_again(
    make_client: Callable[..., FlaskClient], of: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    alerts = situations.snapshot(**situations.ALL_STOPPED).warnings
    assert len(alerts) > 1
    client = make_client(**situations.ALL_STOPPED)
    computed = []

    def active(*arguments: Any) -> dict[silences.Key, silences.Silence]:
        computed.append(arguments)
        return silences.active(*arguments)

    monkeypatch.setattr(silence_view, "active", active)
    assert "Silenced by" not in problems(client)
    assert 1 == len(computed)
    silences.silence(of, alerts[1], 2, "disk ordered", "anna", now=time.time())
    assert "Silenced by anna" in problems(client)
    assert 2 == len(computed)


def test_what_is_not_silenced_cannot_be_ended(client: FlaskClient, of: Cluster) -> None:
    assert 404 == send(client, END, reason="x")
    assert [] == journal.read(of)[0]


def test_a_silence_of_an_alert_that_is_gone_is_shown_and_can_be_ended(
    make_client: Callable[..., FlaskClient], of: Cluster, viewer: ClientFor
) -> None:
    client = make_client()
    silences.silence(of, ALERT, 2, "<b>disk</b> ordered", "anna", now=time.time())
    shown = problems(viewer(client))
    assert "Silences of alerts that are gone" in shown
    assert ALERT.text in shown
    assert "Silenced by anna , 2 h 0 min left: <b>disk</b> ordered" in shown
    assert PATH in [link["href"] for link in soup(client, "/").select("#problems a")]
    assert [END] == [form["action"] for form in soup(client, PATH).select("form.confirm")]
    assert 404 == send(client, PATH, hours="1", reason="x")
    assert 303 == send(client, END, reason="repaired")
    assert "" == problems(client)
    assert 404 == client.get(PATH).status_code


@pytest.mark.parametrize(
    "fields",
    [
        {"hours": "73", "reason": "x"},
        {"hours": "0", "reason": "x"},
        {"hours": "nan", "reason": "x"},
        {"hours": "", "reason": "x"},
        {"hours": "1", "reason": "  "},
    ],
)
def test_without_a_reason_or_a_bounded_time_nothing_is_silenced(
    client: FlaskClient, of: Cluster, fields: dict[str, str]
) -> None:
    assert 400 == send(client, PATH, **fields)
    assert [] == journal.read(of)[0]


def test_viewers_and_foreign_forms_silence_nothing(
    client: FlaskClient, of: Cluster, viewer: ClientFor
) -> None:
    fields = {"hours": "1", "reason": "x"}
    assert 403 == send(viewer(client), PATH, **fields)
    assert 403 == send(viewer(client), END, reason="x")
    client.environ_base.pop("HTTP_X_CSRFTOKEN")
    assert 400 == client.post(PATH, data=fields).status_code
    assert [] == journal.read(of)[0]


def test_an_alert_that_is_over_cannot_be_silenced(client: FlaskClient) -> None:
    assert 404 == client.get("/alerts/00000000/silence").status_code


def test_the_page_that_silences_fits_and_can_be_read(
    new_tab: NewTab, serve_client: Callable[[FlaskClient], str], client: FlaskClient
) -> None:
    assert 303 == send(client, PATH, hours="1.5", reason="disk ordered")
    address = serve_client(client)
    tab = new_tab()
    for path in (PATH, "/"):
        tab.open(address + path)
        looks.check_at(tab, path, (1280, 390))


def test_the_page_of_a_silence_whose_alert_is_gone_fits_and_can_be_read(
    new_tab: NewTab,
    serve_client: Callable[[FlaskClient], str],
    make_client: Callable[..., FlaskClient],
    of: Cluster,
) -> None:
    silences.silence(of, ALERT, 2, "disk ordered", "anna", now=time.time())
    address = serve_client(make_client())
    tab = new_tab()
    for path in (PATH, "/"):
        tab.open(address + path)
        looks.check_at(tab, path, (1280, 390))
