"""What the pages say in each situation."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient
from situations import (
    ALL_STOPPED,
    HEALTHY,
    PRIMARY_KILLED,
    REFUSED,
    SECONDARY_KILLED,
    TID,
    UNKNOWN,
    program,
    server,
)

from indico_zodbrepl.host.history import Condition
from indico_zodbrepl.monitor.snapshot import EpochWord
from indico_zodbrepl.probing.answers import Hold, RefusedFollower, ServerAnswer
from indico_zodbrepl.probing.comparison import Failure
from indico_zodbrepl.probing.wire import FailureKind

MakeClient = Callable[..., FlaskClient]
SITUATIONS = [HEALTHY, SECONDARY_KILLED, PRIMARY_KILLED, ALL_STOPPED, UNKNOWN]


def test_the_page_states_the_situation_first(make_client: MakeClient) -> None:
    page = make_client().get("/").text
    assert "<title>Healthy: demo</title>" in page
    assert "<h1>Indico is writable; a is primary, b follows.</h1>" in page
    assert "Nothing to do." in page
    assert "Problems" not in re.sub("<[^>]*>", "", page)


def test_a_problem_without_steps_of_its_own_is_not_nothing_to_do(make_client: MakeClient) -> None:
    unusable = EpochWord("the control host", None, None, "it is no JSON")
    page = make_client(records=(unusable,)).get("/").text
    assert "Follow the hints above." in page
    assert "Nothing to do" not in page


def test_problems_come_with_their_hints_and_steps(make_client: MakeClient) -> None:
    page = make_client(**PRIMARY_KILLED).get("/").text
    assert "primary a is stopped" in page
    assert "<code>bin/zodbrepl restart a</code>" in page
    assert "Only if node a does not come back: fail over to node b" in page


@pytest.mark.parametrize(
    ("situation", "status", "state"),
    [
        (HEALTHY, 200, "healthy"),
        (SECONDARY_KILLED, 200, "degraded"),
        (PRIMARY_KILLED, 503, "down"),
        (UNKNOWN, 503, "unknown"),
    ],
)
def test_health_answers_as_load_balancers_expect(
    make_client: MakeClient, situation: dict[str, Any], status: int, state: str
) -> None:
    answer = make_client(**situation).get("/health")
    assert answer.json is not None
    assert (status, state) == (answer.status_code, answer.json["state"])


def test_the_api_gives_the_snapshot_and_the_next_steps(make_client: MakeClient) -> None:
    found = make_client(**SECONDARY_KILLED).get("/api/status").json
    assert found is not None
    assert ("degraded", 1, False) == (found["state"], found["code"], found["stale"])
    assert ["a", "b"] == [node["name"] for node in found["nodes"]]
    assert "Bring secondary b back" == found["next_steps"][0]["title"]


@pytest.mark.parametrize("situation", SITUATIONS)
@pytest.mark.parametrize("path", ["/", "/node/a", "/node/b", "/api/status"])
def test_every_page_shows_every_situation(
    make_client: MakeClient, situation: dict[str, Any], path: str
) -> None:
    answer = make_client(**situation).get(path)
    assert 200 == answer.status_code
    assert "None" not in answer.text


def test_a_node_page_shows_its_figures_and_only_its_problems(make_client: MakeClient) -> None:
    page = make_client(**SECONDARY_KILLED).get("/node/b").text
    assert "Nothing listens on 127.0.0.1:8121" in page
    assert "secondary b is stopped" in page
    assert "primary a has no follower</h3>" not in page


def test_a_diverged_node_is_shown_in_the_table_and_on_its_page(make_client: MakeClient) -> None:
    client = make_client(
        lineages={"b": (Condition.DIVERGED, "3 transactions only here")},
        servers={"b": REFUSED},
        comparisons={"b": None},
    )
    assert '<span class="odd">diverged</span>' in client.get("/").text
    page = client.get("/node/b").text
    assert '<strong class="odd">diverged</strong>' in page
    assert "3 transactions only here" in page
    assert "bin/zodbrepl rejoin b --dry-run" in client.get("/").text


def test_paused_writes_and_refused_followers_are_shown(make_client: MakeClient) -> None:
    client = make_client(
        servers={
            "a": server(
                "a",
                held=Hold.FOLLOWERS,
                min_followers=1,
                refused=(RefusedFollower("10.0.0.9:4711", TID, "2026-11-21 12:00:00 UTC"),),
            )
        }
    )
    assert "writes refused" in client.get("/").text
    page = client.get("/node/a").text
    assert "refused: too few followers" in page
    assert "10.0.0.9:4711" in page
    assert "0x040d243a1e64b6aa" in page


def test_the_epoch_and_its_records_are_shown(make_client: MakeClient) -> None:
    records = (
        EpochWord("the control host", 1, "a", ""),
        EpochWord("Indico instance one", None, None, "damaged"),
        EpochWord("Indico instance two", None, None, ""),
    )
    text = re.sub("<[^>]*>", "", make_client(records=records).get("/").text)
    assert (
        "Epoch 1. Its records: the control host epoch 1, primary a; Indico instance one "
        "unusable; Indico instance two none."
    ) in " ".join(text.split())


def test_the_end_of_the_log_is_shown_escaped(make_client: MakeClient, tmp_path: Path) -> None:
    log = tmp_path / "log" / "node-b.log"
    log.parent.mkdir()
    log.write_bytes(
        b"".join(b"line %d\n" % n for n in range(30)) + b"<script>alert(1)</script> \x1b[31m \xff\n"
    )
    page = make_client().get("/node/b").text
    assert "line 11\n" in page
    assert "line 10\n" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt; ?[31m" in page


def test_a_huge_log_costs_no_more_than_its_end(make_client: MakeClient, tmp_path: Path) -> None:
    log = tmp_path / "log" / "node-b.log"
    log.parent.mkdir()
    with log.open("wb") as stream:
        stream.truncate(1 << 34)
        stream.seek(0, 2)
        stream.write(b"\nthe end\n")
    page = make_client().get("/node/b").text
    assert "the end" in page
    assert 64 * 1024 > len(page)


def test_a_node_that_does_not_exist_is_not_found(make_client: MakeClient) -> None:
    client = make_client()
    for path in ("/node/c", "/node/../../etc/passwd", "/node/a%2f..%2fb", "/nothing"):
        assert 404 == client.get(path).status_code, path


def test_what_servers_say_is_escaped(make_client: MakeClient) -> None:
    evil = "<img src=x onerror=alert(1)>"
    wrong = server("a", node=evil)
    assert isinstance(wrong, ServerAnswer)
    page = (
        make_client(
            servers={"a": wrong, "b": Failure(FailureKind.CLOSED, evil)},
            comparisons={"b": None},
            programs={"node-b": program("node-b", "<b>")},
            indico={"one": REFUSED},
        )
        .get("/")
        .text
    )
    assert "<img" not in page
    assert "<b>" not in page
    assert "&lt;img src=x" in page


def test_nothing_is_fetched_from_elsewhere(make_client: MakeClient) -> None:
    client = make_client(**PRIMARY_KILLED)
    page = client.get("/").text
    references = re.findall(r'(?:src|href)="([^"]*)"', page)
    outside = [each for each in references if not each.startswith(("/", "#"))]
    assert [f"http://127.0.0.1:{port}/indico/" for port in (8101, 8102)] == outside
    for reference in references:
        if reference.startswith("/"):
            with client.get(reference) as answer:
                assert 200 == answer.status_code, reference
    assert not re.search(r"\son\w+=|\sstyle=|<style|<script>", page), "the CSP would refuse it"
