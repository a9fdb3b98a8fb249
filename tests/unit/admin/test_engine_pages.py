"""What the pages show of clusters of other backends than ZRS."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from engines import FOREIGN, NEO, POSTGRESQL, SITUATIONS, SQLITE, Situation
from flask.testing import FlaskClient

from indico_zodbrepl import backends

ClientOf = Callable[[Situation], FlaskClient]


def words(page: str) -> str:
    return " ".join(re.sub("<[^>]*>", " ", page).split())


@pytest.mark.parametrize("situation", SITUATIONS.values(), ids=SITUATIONS)
def test_every_page_shows_every_situation(client_of: ClientOf, situation: Situation) -> None:
    client = client_of(situation)
    for path in ("/", "/api/status", *(f"/node/{node.name}" for node in situation.cluster.nodes)):
        answer = client.get(path)
        assert 200 == answer.status_code, path
        assert "None" not in answer.text, path
        if not backends.backend_of(situation.cluster).has_epochs and path != "/api/status":
            assert "poch" not in answer.text, path


def test_facts_are_on_the_node_s_page_and_below_the_table(client_of: ClientOf) -> None:
    client = client_of(POSTGRESQL)
    assert "WAL receiver streaming" in words(client.get("/node/b").text)
    overview = client.get("/").text
    assert "Reported by PostgreSQL" in words(overview)
    assert '<details id="facts"' in overview
    assert {"label": "WAL receiver", "value": "streaming"} in client.get("/api/status").json[
        "nodes"
    ][1]["facts"]  # type: ignore[index]


def test_a_master_that_leads_is_distinguished_from_one_that_stands_by(client_of: ClientOf) -> None:
    text = words(client_of(NEO).get("/").text)
    assert "master leads" in text
    assert "master standby" in text
    assert "Upstream" not in text
    assert "storage read-only" not in text
    assert "Writes accepted" in words(client_of(NEO).get("/node/m1").text)
    assert "Writes" not in words(client_of(NEO).get("/node/s1").text)


def test_a_node_without_a_server_shows_neither_address_nor_log(client_of: ClientOf) -> None:
    page = words(client_of(SQLITE).get("/node/a").text)
    assert "Program none needed" in page
    assert "Storage address" not in page
    assert "End of the log" not in page
    assert "its own process" in client_of(SQLITE).get("/").text


def test_a_server_of_somebody_else_is_called_so(client_of: ClientOf) -> None:
    page = words(client_of(FOREIGN).get("/node/a").text)
    assert "Program not managed here" in page
    assert "End of the log" not in page
