"""What load balancers, Prometheus and dashboards are answered."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from flask.testing import FlaskClient
from logins import OPERATOR_TOKEN, VIEWER_TOKEN
from prometheus_client.parser import text_string_to_metric_families
from situations import (
    ALL_STOPPED,
    HEALTHY,
    PRIMARY_KILLED,
    SECONDARY_KILLED,
    SPLIT_BRAIN,
    UNKNOWN,
)

from indico_zodbrepl.monitor import watcher
from indico_zodbrepl.monitor.metrics import SNAPSHOT_METRICS
from indico_zodbrepl.monitor.snapshot import Snapshot

MakeClient = Callable[..., FlaskClient]
ClientFor = Callable[[FlaskClient], FlaskClient]
PUBLIC = ["/health", "/primary", "/replica", "/metrics"]


@pytest.fixture
def stale(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every look is too old."""
    monkeypatch.setattr(watcher, "STALE_AFTER", -1.0)


@pytest.mark.parametrize(
    ("path", "situation", "expected"),
    [
        ("/primary", HEALTHY, (200, ["a"])),
        ("/primary?node=a", HEALTHY, (200, ["a"])),
        ("/primary?node=b", HEALTHY, (503, [])),
        ("/primary", PRIMARY_KILLED, (503, [])),
        ("/replica", HEALTHY, (200, ["b"])),
        ("/replica?lag=5&node=b", HEALTHY, (200, ["b"])),
        ("/replica?lag=5&node=a", HEALTHY, (503, [])),
        ("/replica?lag=0", SECONDARY_KILLED, (503, [])),
        ("/replica", UNKNOWN, (503, [])),
    ],
)
def test_a_load_balancer_is_told_who_serves_by_the_status_alone(
    make_client: MakeClient,
    anonymous: ClientFor,
    path: str,
    situation: dict[str, Any],
    expected: tuple[int, list[str]],
) -> None:
    status = expected[0]
    answer = anonymous(make_client(**situation)).get(path)
    assert answer.json is not None
    assert expected == (answer.status_code, answer.json["nodes"])
    assert answer.json["serves"] is (status == 200)
    assert bool(answer.json["why"]) is (status == 503)
    assert status == anonymous(make_client(**situation)).head(path).status_code


@pytest.mark.parametrize(
    ("situation", "expected"),
    [(SECONDARY_KILLED, (200, 1)), (PRIMARY_KILLED, (503, 2)), (SPLIT_BRAIN, (503, 2))],
)
def test_health_answers_503_while_the_cluster_is_down_or_split(
    make_client: MakeClient, situation: dict[str, Any], expected: tuple[int, int]
) -> None:
    answer = make_client(**situation).get("/health")
    assert answer.json is not None
    assert expected == (answer.status_code, answer.json["code"])


@pytest.mark.usefixtures("stale")
@pytest.mark.parametrize("path", ["/health", "/primary", "/replica", "/primary?node=a"])
def test_nobody_serves_by_a_look_that_is_too_old(make_client: MakeClient, path: str) -> None:
    answer = make_client().get(path)
    assert answer.json is not None
    assert 503 == answer.status_code
    assert "no current snapshot" in answer.json.get("why", answer.json.get("sentence"))


def test_nobody_serves_before_the_first_look(
    page_of: Any, monkeypatch: pytest.MonkeyPatch, make_client: MakeClient
) -> None:
    def fail() -> Snapshot:
        raise OSError("the disk is gone")

    cluster = make_client().application.extensions["zodbrepl"].cluster
    monkeypatch.setattr("indico_zodbrepl.admin.pages.machines.PATIENCE", 0.1)
    client = page_of(cluster, fail)
    for path in ("/health", "/primary", "/replica"):
        answer = client.get(path)
        assert (503, None) == (answer.status_code, answer.json["age"])
    assert 200 == client.get("/metrics").status_code
    assert "\nzodbrepl_state" not in client.get("/metrics").text


@pytest.mark.parametrize("lag", ["", "-1", "nan", "inf", "soon", "1e999", "5s", "9" * 400])
def test_a_lag_that_is_no_number_of_seconds_is_refused(make_client: MakeClient, lag: str) -> None:
    answer = make_client().get("/replica", query_string={"lag": lag})
    assert answer.json is not None
    assert (400, "application/problem+json") == (answer.status_code, answer.content_type)
    assert "lag is not a number of seconds" == answer.json["notice"]


@pytest.mark.parametrize("path", ["/primary?node=c", "/replica?node=", "/replica?node=c&lag=1"])
def test_a_node_that_is_not_there_is_not_found(make_client: MakeClient, path: str) -> None:
    answer = make_client().get(path)
    assert answer.json is not None
    assert (404, "nodes: a, b") == (answer.status_code, answer.json["detail"])


@pytest.mark.parametrize(
    "situation",
    [HEALTHY, SECONDARY_KILLED, PRIMARY_KILLED, ALL_STOPPED, UNKNOWN, SPLIT_BRAIN],
)
def test_prometheus_gets_every_metric_of_the_table_and_no_other(
    make_client: MakeClient, anonymous: ClientFor, situation: dict[str, Any]
) -> None:
    answer = anonymous(make_client(**situation)).get("/metrics")
    families = list(text_string_to_metric_families(answer.text))
    assert {each.name.removesuffix("_total") for each in SNAPSHOT_METRICS} == {
        family.name for family in families
    }
    assert answer.content_type.startswith("text/plain")


def test_prometheus_gets_the_figures_that_the_page_shows(make_client: MakeClient) -> None:
    found = {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(make_client().get("/metrics").text)
        for sample in family.samples
    }
    expected: dict[tuple[str, ...], float] = {
        ("zodbrepl_state",): 0,
        ("zodbrepl_primary", "a"): 1,
        ("zodbrepl_node_connected", "b"): 1,
        ("zodbrepl_node_lag_seconds", "b"): 0,
        ("zodbrepl_indico_writable", "two"): 1,
    }
    assert expected == {key: found.get(key) for key in expected}
    assert ("zodbrepl_node_lag_seconds", "a") not in found
    assert found["zodbrepl_snapshots_total",] >= 1
    assert 0 <= found["zodbrepl_snapshot_age_seconds",] < 60


@pytest.mark.parametrize("path", PUBLIC)
def test_programs_without_a_token_may_ask_how_the_cluster_is(
    make_client: MakeClient, anonymous: ClientFor, path: str
) -> None:
    assert 200 == anonymous(make_client()).get(path).status_code


@pytest.mark.parametrize(
    "path",
    ["/api/status", "/api/openapi.json", "/api/operations", "/api/operations/x", "/api/nowhere"],
)
def test_all_else_needs_a_token_and_says_how_to_get_one(
    make_client: MakeClient, anonymous: ClientFor, path: str
) -> None:
    client = anonymous(make_client())
    answer = client.get(path)
    assert answer.json is not None
    assert (401, "application/problem+json") == (answer.status_code, answer.content_type)
    assert "admin token add" in answer.json["detail"]
    for token in (OPERATOR_TOKEN, VIEWER_TOKEN):
        assert client.get(path, headers={"Authorization": f"Bearer {token}"}).status_code in (
            200,
            404,
        )
    assert 401 == client.get(path, headers={"Authorization": "Bearer nonsense"}).status_code


@pytest.mark.parametrize(
    ("path", "method", "status"),
    [
        ("/api/nowhere", "GET", 404),
        ("/api/status", "PUT", 405),
        ("/health", "POST", 405),
        ("/primary", "DELETE", 405),
    ],
)
def test_errors_of_programs_are_problems_in_json(
    make_client: MakeClient, path: str, method: str, status: int
) -> None:
    answer = make_client().open(path, method=method)
    assert answer.json is not None
    assert (status, "application/problem+json") == (answer.status_code, answer.content_type)
    assert status == answer.json["status"]
    assert answer.json["notice"]


@pytest.mark.parametrize("path", [*PUBLIC, "/api/status"])
def test_a_foreign_host_name_is_a_problem_in_json(make_client: MakeClient, path: str) -> None:
    answer = make_client().get(path, headers={"Host": "evil.example.org"})
    assert (400, "application/problem+json") == (answer.status_code, answer.content_type)


def test_people_still_get_pages_that_say_what_is_wrong(make_client: MakeClient) -> None:
    answer = make_client().get("/nowhere")
    assert 404 == answer.status_code
    assert re.search("<h1>", answer.text)
