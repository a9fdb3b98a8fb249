"""Operations that programs plan, begin, follow and end; the command itself is a stub."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import past
import pytest
import stub_command
from flask.testing import FlaskClient
from logins import OPERATOR_TOKEN, VIEWER_TOKEN

from indico_zodbrepl.admin.site import Site
from indico_zodbrepl.cluster.model import Cluster
from indico_zodbrepl.operations import journal, operation, planning, store
from indico_zodbrepl.operations.model import Finding, Plan, Refusal, Verdict
from indico_zodbrepl.operations.operation import Outcome, Progress
from indico_zodbrepl.operations.planning import Request

MakeClient = Callable[..., FlaskClient]
ClientFor = Callable[[FlaskClient], FlaskClient]
PATIENCE = 120.0
REJOIN = {"operation": "rejoin", "target": "b", "reason": "it is back", "expected": "1a2b"}


@pytest.fixture
def stub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[stub_command.Stub]:
    made = stub_command.install(tmp_path, monkeypatch)
    yield made
    made.let_go()


@pytest.fixture
def client(stub: stub_command.Stub, make_client: MakeClient, anonymous: ClientFor) -> FlaskClient:
    """A program with an operator's token."""
    assert stub.home.is_dir()
    made = anonymous(make_client())
    made.environ_base["HTTP_AUTHORIZATION"] = f"Bearer {OPERATOR_TOKEN}"
    return made


def cluster_of(client: FlaskClient) -> Cluster:
    site: Site = client.application.extensions["zodbrepl"]
    return site.cluster


def wait_until(condition: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + PATIENCE
    while not (found := condition()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return found


def ended(client: FlaskClient, href: str) -> dict[str, Any]:
    """The job's JSON once it has ended."""

    def look() -> dict[str, Any] | None:
        found: dict[str, Any] = client.get(href).json  # type: ignore[assignment]
        return found if found["job"]["ended"] is not None else None

    found: dict[str, Any] = wait_until(look)
    return found


def test_an_operation_begins_and_is_followed_to_its_end(
    client: FlaskClient, stub: stub_command.Stub
) -> None:
    stub.hold()
    begun = client.post("/api/operations", json=REJOIN)
    assert begun.json is not None
    assert 202 == begun.status_code
    assert begun.headers["Location"] == begun.json["href"]
    assert begun.json["href"].endswith(begun.json["id"])
    running = client.get(begun.json["href"]).json
    assert running is not None
    assert ("running", None) == (running["state"], running["operation"])
    listed = client.get("/api/operations").json
    assert listed is not None
    assert [begun.json["id"]] == [job["id"] for job in listed["running"]]
    stub.let_go()
    found = ended(client, begun.json["href"])
    assert ("done", 0, "deploy (token)") == (
        found["state"],
        found["job"]["exit_code"],
        found["job"]["actor"],
    )
    assert "done as told" in found["job"]["output"]
    assert "rejoin b --reason 'it is back'" in found["job"]["command"]
    [[actor, arguments]] = stub.calls
    assert "deploy (token)" == actor
    assert ["rejoin", "b", "--reason", "it is back", "--expect", "1a2b"] == arguments[2:]


@pytest.mark.parametrize(("code", "state"), [(8, "refused"), (1, "failed"), (77, "failed")])
def test_a_command_that_did_nothing_says_so(
    client: FlaskClient, stub: stub_command.Stub, code: int, state: str
) -> None:
    stub.let_go(code)
    found = ended(client, client.post("/api/operations", json=REJOIN).headers["Location"])
    assert (state, code) == (found["state"], found["job"]["exit_code"])


def test_a_job_shows_the_operation_that_it_carries_out_step_by_step(
    client: FlaskClient, stub: stub_command.Stub
) -> None:
    stub.hold()
    href = client.post("/api/operations", json=REJOIN).headers["Location"]
    record = json.loads(
        (
            cluster_of(client).var_directory / "jobs" / href.rpartition("/")[2] / "job.json"
        ).read_text()
    )
    store.save(
        cluster_of(client),
        dataclasses.replace(
            past.failover(Path("/tails")),
            outcome=Outcome.RUNNING,
            ended=None,
            pid=record["pid"],
            identifier=f"{operation.stamp(record['began'] + 1)}-failover",
        ),
    )
    found: dict[str, Any] = client.get(href).json  # type: ignore[assignment]
    assert "running" == found["state"]
    steps = found["operation"]["steps"]
    assert [1, 2, 3, 4] == [step["number"] for step in steps]
    assert [Progress.DONE] * 3 + [Progress.FAILED] == [step["progress"] for step in steps]
    assert "c: no answer within 2 s" == steps[3]["error"]
    assert 4.25 == found["operation"]["figures"]["writable_after_seconds"]
    assert "bin/zodbrepl node fence a" == steps[0]["command"]


def test_the_journal_comes_in_pages_newest_first(client: FlaskClient) -> None:
    entries = [past.packing(number) for number in range(5)]
    past.keep(cluster_of(client), *entries)
    names = [entry.identifier for entry in reversed(entries)]
    found: list[str] = []
    href: str | None = "/api/operations?limit=2"
    sizes = []
    while href:
        page: dict[str, Any] = client.get(href).json  # type: ignore[assignment]
        sizes.append(len(page["operations"]))
        found += [entry["id"] for entry in page["operations"]]
        href = page["next"]
    assert ([2, 2, 1], names) == (sizes, found)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({"operation": "failover"}, ["failover"]),
        ({"node": "c"}, ["failover"]),
        ({"outcome": "done"}, ["pack"]),
        ({"actor": "anna"}, ["failover"]),
        ({"actor": "nobody"}, []),
        ({}, ["pack", "failover"]),
    ],
)
def test_the_journal_is_filtered(
    client: FlaskClient, query: dict[str, str], expected: list[str]
) -> None:
    past.keep(cluster_of(client), past.failover(Path("/tails")), past.packing(1))
    page: dict[str, Any] = client.get(  # type: ignore[assignment]
        "/api/operations", query_string=query
    ).json
    assert expected == [entry["operation"] for entry in page["operations"]]


def test_filters_stay_on_the_next_page(client: FlaskClient) -> None:
    past.keep(
        cluster_of(client), *(past.packing(number, f"a & {number % 2}") for number in range(6))
    )
    page: dict[str, Any] = client.get(  # type: ignore[assignment]
        "/api/operations", query_string={"actor": "a & 1", "limit": "2"}
    ).json
    second: dict[str, Any] = client.get(page["next"]).json  # type: ignore[assignment]
    assert ["a & 1"] * 3 == [entry["actor"] for entry in page["operations"] + second["operations"]]
    assert second["next"] is None


@pytest.mark.parametrize(
    "query",
    [
        {"limit": "0"},
        {"limit": "-1"},
        {"limit": "x"},
        {"limit": "201"},
        {"limit": "\u0663"},
        {"limit": "1" * 5000},
        {"outcome": "good"},
    ],
)
def test_a_parameter_that_is_none_is_refused(client: FlaskClient, query: dict[str, str]) -> None:
    assert 400 == client.get("/api/operations", query_string=query).status_code


def test_what_of_the_journal_could_not_be_read_is_said(client: FlaskClient) -> None:
    past.keep(cluster_of(client), past.packing(0))
    path = cluster_of(client).var_directory / "journal.jsonl"
    path.write_text(path.read_text() + "torn\n")
    page: dict[str, Any] = client.get("/api/operations").json  # type: ignore[assignment]
    assert (1, 1) == (len(page["operations"]), len(page["notices"]))


def test_an_operation_of_the_journal_is_told_whole(client: FlaskClient) -> None:
    entry = past.failover(Path("/tails"))
    past.keep(cluster_of(client), entry)
    found: dict[str, Any] = client.get(  # type: ignore[assignment]
        f"/api/operations/{entry.identifier}"
    ).json
    whole = found["operation"]
    assert ("incomplete", None, False) == (found["state"], found["job"], whole["at_work"])
    assert 3 == whole["loss"]["transactions"]
    assert ["fine", "warning", "against"] == [each["verdict"] for each in whole["findings"]]


@pytest.mark.parametrize(
    "path", ["nowhere", "..", "%2e%2e", "20261120T110607.123Z-failover", "a" * 5000, "%00", "%ff"]
)
def test_an_id_that_is_none_is_not_found(client: FlaskClient, path: str) -> None:
    assert 404 == client.get(f"/api/operations/{path}").status_code
    assert 404 == client.post(f"/api/operations/{path}/resume").status_code


def test_a_plan_is_reported_with_the_digest_that_a_begin_expects(
    client: FlaskClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = past.failover(Path("/tails")).plan
    asked = []

    def prepare(_cluster: object, _installation: object, request: Request) -> Plan:
        asked.append(request)
        return plan

    monkeypatch.setattr(planning, "prepare", prepare)
    answer = client.post(
        "/api/operations/plan",
        json={"operation": "seed", "target": "b", "options": {"source": "a"}, "reason": "new disk"},
    )
    assert answer.json is not None
    assert (200, planning.digest(plan)) == (
        answer.status_code,
        answer.json["digest"].partition("-")[0],
    )
    assert [Request("clone", "b", "new disk", {"source": "a"})] == asked
    assert "make b the primary of epoch 2" == answer.json["plan"]["steps"][2]["title"]


def test_a_refusal_is_reported_with_what_was_looked_at(
    client: FlaskClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusal = Refusal(
        "no failover: the primary serves",
        "look at a",
        (
            Finding(Verdict.FINE, "b", "can take over"),
            Finding(Verdict.AGAINST, "a", "takes writes", "it answered"),
        ),
    )
    monkeypatch.setattr(planning, "prepare", lambda *_all: refusal)
    answer = client.post("/api/operations/plan", json={"operation": "failover"})
    assert answer.json is not None
    assert (409, 8, "a: takes writes") == (
        answer.status_code,
        answer.json["exit_code"],
        answer.json["detail"],
    )
    assert ["fine", "against"] == [each["verdict"] for each in answer.json["findings"]]


def test_a_viewer_plans_but_begins_and_ends_nothing(
    client: FlaskClient, stub: stub_command.Stub
) -> None:
    client.environ_base["HTTP_AUTHORIZATION"] = f"Bearer {VIEWER_TOKEN}"
    planned = client.post("/api/operations/plan", json={"operation": "rejoin", "target": "b"})
    assert planned.status_code not in (401, 403)
    for path in ("", "/x/resume", "/x/undo", "/x/abandon"):
        answer = client.post(f"/api/operations{path}", json=REJOIN)
        assert (403, "application/problem+json") == (answer.status_code, answer.content_type)
    assert [] == stub.calls


def test_a_session_needs_its_csrf_token(make_client: MakeClient, stub: stub_command.Stub) -> None:
    session = make_client()
    assert 202 == session.post("/api/operations", json=REJOIN).status_code
    del session.environ_base["HTTP_X_CSRFTOKEN"]
    answer = session.post("/api/operations", json=REJOIN)
    assert (400, "application/problem+json") == (answer.status_code, answer.content_type)
    wait_until(lambda: len(stub.calls) == 1)
    assert "alice (admin page)" == stub.calls[0][0]


@pytest.mark.parametrize(
    ("content", "status"),
    [
        (b"", 400),
        (b"[]", 400),
        (b"{", 400),
        (b"[" * 10_000, 400),
        (b"\xff", 400),
        (b"{}", 422),
        (b'{"operation": 1, "expected": "x"}', 422),
        (b'{"operation": "rejoin", "expected": ""}', 422),
        (b'{"operation": "rejoin", "expected": "x", "target": "nobody"}', 422),
        (b'{"operation": "burn", "expected": "x"}', 422),
        (b'{"operation": "failover", "expected": "x", "target": "b"}', 422),
        (b'{"operation": "rejoin", "expected": "x", "more": 1}', 422),
        (b'{"operation": "rejoin", "expected": "x", "options": []}', 422),
        (b'{"operation": "rejoin", "expected": "x", "options": {"source": 1}}', 422),
        (b'{"operation": "rejoin", "expected": "x", "reason": "a\\u0000b"}', 422),
        (b'{"operation": "rejoin", "expected": "x", "reason": "\\ud800"}', 400),
        (b'{"operation": "rejoin", "expected": "x", "reason": "' + b"a" * 600 + b'"}', 422),
        (b'{"operation": "rejoin", "expected": "x", "reason": "' + b"a" * 20_000 + b'"}', 413),
    ],
)
def test_a_body_that_can_t_be_used_begins_nothing(
    client: FlaskClient, stub: stub_command.Stub, content: bytes, status: int
) -> None:
    answer = client.post("/api/operations", data=content, content_type="application/json")
    assert (status, "application/problem+json") == (answer.status_code, answer.content_type)
    assert [] == stub.calls


def test_a_body_of_another_kind_is_refused(client: FlaskClient) -> None:
    assert 415 == client.post("/api/operations", data=REJOIN).status_code


def test_nothing_begins_while_another_operation_is_open(
    client: FlaskClient, stub: stub_command.Stub
) -> None:
    leave_open(client)
    answer = client.post("/api/operations", json=REJOIN)
    assert answer.json is not None
    assert (409, 8) == (answer.status_code, answer.json["exit_code"])
    assert "resume" in answer.json["hint"]
    assert [] == stub.calls


def leave_open(client: FlaskClient) -> str:
    """The id of an operation whose process is gone."""
    stopped = dataclasses.replace(
        past.failover(Path("/tails")), outcome=Outcome.STOPPED, ended=None, pid=0
    )
    journal.append(cluster_of(client), stopped)
    store.save(cluster_of(client), stopped)
    return stopped.identifier


@pytest.mark.parametrize(
    ("how", "body", "arguments"),
    [
        ("resume", None, ["resume"]),
        ("resume", {}, ["resume"]),
        ("undo", {"reason": "not now"}, ["resume", "--undo"]),
        ("abandon", {"reason": "by hand"}, ["resume", "--abandon", "--reason", "by hand"]),
    ],
)
def test_an_open_operation_is_ended(
    client: FlaskClient,
    stub: stub_command.Stub,
    how: str,
    body: dict[str, str] | None,
    arguments: list[str],
) -> None:
    identifier = leave_open(client)
    answer = (
        client.post(f"/api/operations/{identifier}/{how}", json=body)
        if body is not None
        else client.post(f"/api/operations/{identifier}/{how}")
    )
    assert 202 == answer.status_code
    found = ended(client, answer.headers["Location"])
    assert identifier == found["operation"]["id"]
    assert [*arguments, "--expect", identifier] == stub.calls[0][1][2:]


def test_an_operation_whose_process_was_killed_is_reported_as_stopped(client: FlaskClient) -> None:
    killed = dataclasses.replace(
        past.failover(Path("/tails")), outcome=Outcome.RUNNING, ended=None, pid=0
    )
    past.keep(cluster_of(client), killed)
    store.save(cluster_of(client), killed)
    found: dict[str, Any] = client.get(  # type: ignore[assignment]
        f"/api/operations/{killed.identifier}"
    ).json
    assert ("stopped", "running", False) == (
        found["state"],
        found["operation"]["outcome"],
        found["operation"]["at_work"],
    )


def test_to_abandon_an_operation_takes_a_reason(
    client: FlaskClient, stub: stub_command.Stub
) -> None:
    answer = client.post(f"/api/operations/{leave_open(client)}/abandon", json={"reason": " "})
    assert 422 == answer.status_code
    assert [] == stub.calls


def test_only_the_operation_that_is_open_is_ended(
    client: FlaskClient, stub: stub_command.Stub
) -> None:
    leave_open(client)
    other = past.packing(1)
    past.keep(cluster_of(client), other)
    assert 409 == client.post(f"/api/operations/{other.identifier}/undo").status_code
    assert 404 == client.post("/api/operations/nothing/undo").status_code
    assert [] == stub.calls


def test_an_operation_whose_file_is_damaged_is_abandoned_and_not_gone_on_with(
    client: FlaskClient, stub: stub_command.Stub
) -> None:
    identifier = leave_open(client)
    path = cluster_of(client).var_directory / "operations" / f"{identifier}.json"
    path.write_text("{")
    refused = client.post(f"/api/operations/{identifier}/resume")
    assert refused.json is not None
    assert (409, "the file of an operation is damaged") == (
        refused.status_code,
        refused.json["notice"],
    )
    assert [] == stub.calls
    assert (
        202
        == client.post(
            f"/api/operations/{identifier}/abandon", json={"reason": "by hand"}
        ).status_code
    )
    wait_until(lambda: stub.calls)


def test_a_command_that_can_t_be_started_is_reported(
    client: FlaskClient, stub: stub_command.Stub
) -> None:
    (stub.home / "bin" / "zodbrepl").unlink()
    answer = client.post("/api/operations", json=REJOIN)
    assert answer.json is not None
    assert (503, 1) == (answer.status_code, answer.json["exit_code"])
    assert "could not be started" in answer.json["notice"]
