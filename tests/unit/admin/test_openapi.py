"""The OpenAPI description says what the code does: paths, methods, bodies and status codes."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jsonschema_rs
import past
import pytest
import stub_command
from engines import SITUATIONS, Situation
from flask.testing import FlaskClient
from logins import OPERATOR_TOKEN, VIEWER_TOKEN
from situations import ALL_STOPPED, HEALTHY, PRIMARY_KILLED, SECONDARY_KILLED, UNKNOWN
from werkzeug.test import TestResponse

from indico_zodbrepl.admin.access import gate
from indico_zodbrepl.admin.access.quotas import Sender
from indico_zodbrepl.admin.api import exchange
from indico_zodbrepl.admin.api.reference import description
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.monitord.history import FILE
from indico_zodbrepl.operations import journal, planning, store
from indico_zodbrepl.operations.model import Refusal
from indico_zodbrepl.operations.operation import Outcome

MakeClient = Callable[..., FlaskClient]
ClientOf = Callable[[Situation], FlaskClient]
ClientFor = Callable[[FlaskClient], FlaskClient]
Response = tuple[str, str, str]
"""A path as described, a method, a status code."""

METHODS = ("get", "post", "put", "patch", "delete")
SHOWS_CONTENTS = {("/api/logs", "get")}
"""Changes nothing, so that operators may in read-only mode too."""
BEGIN = {"operation": "rejoin", "target": "b", "expected": "1a2b"}


def operations() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Path, method and what is said of them."""
    for path, item in description()["paths"].items():
        for method in METHODS:
            if method in item:
                yield path, method, item[method]


def validator(schema: dict[str, Any]) -> jsonschema_rs.Validator:
    return jsonschema_rs.Draft202012Validator({**schema, "components": description()["components"]})


def check(path: str, method: str, answer: TestResponse) -> Response:
    """An answer as it is described; its body fits the schema, its kind and headers too."""
    said = description()["paths"][path][method]["responses"][str(answer.status_code)]
    [(kind, media)] = said["content"].items()
    assert kind == answer.content_type, (path, method, answer.status_code)
    if kind.startswith("application/"):
        faults = [
            f"{fault.instance_path}: {fault.message}"
            for fault in validator(media["schema"]).iter_errors(json.loads(answer.data))
        ]
        assert [] == faults, (path, method, answer.status_code)
    for name in said.get("headers", {}):
        assert name in answer.headers, (path, method, answer.status_code)
    return path, method, str(answer.status_code)


def test_the_description_is_one_of_openapi() -> None:
    document = json.loads(json.dumps(description()))
    assert "3.1.0" == document["openapi"]
    for name, schema in document["components"]["schemas"].items():
        jsonschema_rs.meta.validate({**schema, "components": document["components"]})
        assert schema.get("description"), name
    names = set(re.findall(r"#/components/schemas/(\w+)", json.dumps(document)))
    assert names == set(document["components"]["schemas"])


def test_every_path_and_method_is_described_and_no_other(make_client: MakeClient) -> None:
    served = set()
    for rule in make_client().application.url_map.iter_rules():
        if rule.endpoint.partition(".")[0] in ("machines", "api") or rule.rule.startswith("/api/"):
            path = re.sub("<identifier>", "{id}", rule.rule)
            served |= {(path, method.lower()) for method in (rule.methods or set()) - {"HEAD"}}
    assert served == {(path, method) for path, method, _said in operations()}


def test_what_needs_no_login_is_described_so_and_nothing_else(make_client: MakeClient) -> None:
    app = make_client().application
    with app.app_context():
        public = {
            re.sub("<identifier>", "{id}", rule.rule)
            for rule in app.url_map.iter_rules()
            if rule.endpoint.partition(".")[0] in ("machines", "api")
            and gate.needed(rule.endpoint) == gate.NOBODY
        }
    assert public == {path for path, _method, said in operations() if said.get("security") == []}
    assert public <= {path for path in description()["paths"] if exchange.is_for_programs(path)}


def test_what_only_operators_may_is_described_with_403(make_client: MakeClient) -> None:
    app = make_client().application
    with app.app_context():
        restricted = {
            (re.sub("<identifier>", "{id}", rule.rule), "post")
            for rule in app.url_map.iter_rules()
            if rule.endpoint.startswith("api.") and gate.needed(rule.endpoint) == "operator"
        }
    assert restricted | SHOWS_CONTENTS == {
        (path, method) for path, method, said in operations() if "403" in said["responses"]
    }


@pytest.fixture
def stub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[stub_command.Stub]:
    made = stub_command.install(tmp_path, monkeypatch)
    yield made
    made.let_go()


class Programs:
    """Clients with one token or another, of one page."""

    def __init__(self, client: FlaskClient, anonymous: ClientFor) -> None:
        self.anonymous = anonymous(client)
        self.operator, self.viewer = anonymous(client), anonymous(client)
        self.operator.environ_base["HTTP_AUTHORIZATION"] = f"Bearer {OPERATOR_TOKEN}"
        self.viewer.environ_base["HTTP_AUTHORIZATION"] = f"Bearer {VIEWER_TOKEN}"
        self.cluster = client.application.extensions["zodbrepl"].cluster


@pytest.fixture
def programs(stub: stub_command.Stub, make_client: MakeClient, anonymous: ClientFor) -> Programs:
    assert stub.home.is_dir()
    return Programs(make_client(), anonymous)


def every_refusal_by_who_asks(programs: Programs) -> Iterator[tuple[str, str, TestResponse]]:
    """400, 401, 403, 429 and 503 of each path, by who asks, who else asks, and the accounts."""
    for path, method, said in operations():
        there = path.format(id="x")
        yield (
            path,
            method,
            programs.operator.open(there, method=method, headers={"Host": "evil.example.org"}),
        )
        if said.get("security") == []:
            continue
        yield path, method, programs.anonymous.open(there, method=method)
        if "403" in said["responses"]:
            yield path, method, programs.viewer.open(there, method=method, json={})
    accounts = programs.cluster.var_directory / "admin" / "accounts.json"
    accounts.chmod(0o644)
    for path, method, said in operations():
        if said.get("security") != []:
            yield path, method, programs.operator.open(path.format(id="x"), method=method)
    accounts.chmod(0o600)
    places = programs.operator.application.extensions[gate.EXTENSION]
    others = [Sender(str(number), is_operator=True) for number in range(gate.PLACES)]
    for each in others:
        places.take(each)
    for path, method, _said in operations():
        answer = programs.operator.open(path.format(id="x"), method=method)
        if answer.status_code == 429:
            yield path, method, answer
    for each in others:
        places.give_back(each)


def every_body_that_is_none(programs: Programs) -> Iterator[tuple[str, str, TestResponse]]:
    """400, 413, 415 and 422 of each path that takes a body."""
    for path, method, said in operations():
        if "requestBody" in said:
            there = path.format(id="x")
            for sent in (b"[]", b"{" + b" " * exchange.MAX_BYTES + b"}", b'{"other": 1}'):
                yield (
                    path,
                    method,
                    programs.operator.open(
                        there, method=method, data=sent, content_type="application/json"
                    ),
                )
            yield path, method, programs.operator.open(there, method=method, data=b"operation=x")


def what_only_shows(programs: Programs) -> Iterator[tuple[str, str, TestResponse]]:
    entry = past.failover(Path("/tails"))
    past.keep(programs.cluster, entry, *(past.packing(number) for number in range(1, 4)))
    for asked in (
        "/health",
        "/primary",
        "/primary?node=b",
        "/primary?node=c",
        "/replica",
        "/replica?node=a",
        "/replica?node=c",
        "/replica?lag=x",
        "/metrics",
    ):
        yield asked.partition("?")[0], "get", programs.anonymous.get(asked)
    for asked in (
        "/api/status",
        "/api/openapi.json",
        "/api/operations",
        "/api/operations?limit=2",
        "/api/operations?limit=x",
        "/api/history",
        "/api/history?range=x",
        "/api/backups",
        "/api/configuration",
        f"/api/incident?entry={entry.identifier}",
        "/api/incident?since=x",
        "/api/incident?entry=nothing",
    ):
        yield asked.partition("?")[0], "get", programs.viewer.get(asked)
    for asked in ("/api/logs", f"/api/logs?text={'x' * 201}", "/api/logs?host=nowhere"):
        yield "/api/logs", "get", programs.operator.get(asked)
    for identifier in ("nothing", entry.identifier):
        yield "/api/operations/{id}", "get", programs.viewer.get(f"/api/operations/{identifier}")


def what_begins(programs: Programs) -> Iterator[tuple[str, str, TestResponse]]:
    path = "/api/operations"
    begun = programs.operator.post(path, json=BEGIN)
    yield path, "post", begun
    yield path, "get", programs.operator.get(path)
    yield f"{path}/{{id}}", "get", programs.operator.get(begun.headers["Location"])
    for how in ("resume", "undo", "abandon"):
        yield (
            f"{path}/{{id}}/{how}",
            "post",
            programs.operator.post(f"{path}/x/{how}", json={"reason": "why"}),
        )
    stopped = dataclasses.replace(
        past.failover(Path("/tails"), 7), outcome=Outcome.STOPPED, ended=None, pid=0
    )
    journal.append(programs.cluster, stopped)
    store.save(programs.cluster, stopped)
    yield path, "post", programs.operator.post(path, json=BEGIN)
    other = past.packing(8)
    past.keep(programs.cluster, other)
    for how in ("resume", "undo", "abandon"):
        for identifier in (stopped.identifier, other.identifier):
            yield (
                f"{path}/{{id}}/{how}",
                "post",
                programs.operator.post(f"{path}/{identifier}/{how}", json={"reason": "why"}),
            )


def what_is_planned(
    programs: Programs, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[str, str, Any]]:
    entry = past.failover(Path("/tails"))
    for made in (entry.plan, Refusal("no", "wait", entry.plan.findings)):
        with monkeypatch.context() as changed:
            changed.setattr(planning, "prepare", lambda *_all, found=made: found)
            yield (
                "/api/operations/plan",
                "post",
                programs.viewer.post("/api/operations/plan", json={"operation": "failover"}),
            )


def what_can_not_be_done(
    programs: Programs, stub: stub_command.Stub, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[str, str, TestResponse]]:
    for path in ("/health", "/primary", "/replica"):
        monkeypatch.setattr("indico_zodbrepl.monitor.watcher.STALE_AFTER", -1.0)
        yield path, "get", programs.anonymous.get(path)
    folder = Layout(programs.cluster).watch
    folder.mkdir(parents=True)
    (folder / FILE).mkdir()
    yield "/api/history", "get", programs.viewer.get("/api/history")
    (stub.home / "bin" / "zodbrepl").unlink()
    for found in programs.cluster.var_directory.glob("operations/*"):
        found.unlink()
    yield "/api/operations", "post", programs.operator.post("/api/operations", json=BEGIN)


def test_every_status_code_is_described_and_each_that_is_described_can_come(
    programs: Programs, stub: stub_command.Stub, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = {
        check(*found)
        for answers in (
            every_refusal_by_who_asks(programs),
            every_body_that_is_none(programs),
            what_only_shows(programs),
            what_begins(programs),
            what_is_planned(programs, monkeypatch),
            what_can_not_be_done(programs, stub, monkeypatch),
        )
        for found in answers
    }
    assert {
        (path, method, code) for path, method, said in operations() for code in said["responses"]
    } == seen


@pytest.mark.parametrize(
    "situation", [HEALTHY, SECONDARY_KILLED, PRIMARY_KILLED, ALL_STOPPED, UNKNOWN]
)
def test_every_situation_fits_the_schemas(
    make_client: MakeClient, situation: dict[str, Any]
) -> None:
    client = make_client(**situation)
    for path in ("/api/status", "/health", "/primary", "/replica"):
        check(path, "get", client.get(path))


@pytest.mark.parametrize("situation", SITUATIONS.values(), ids=SITUATIONS)
def test_every_situation_of_every_backend_fits_the_schemas(
    client_of: ClientOf, situation: Situation
) -> None:
    client = client_of(situation)
    for path in ("/api/status", "/health", "/primary", "/replica"):
        check(path, "get", client.get(path))


@pytest.mark.parametrize("kind", [exchange.PlanBody, exchange.BeginBody, exchange.EndBody])
@pytest.mark.parametrize(
    "content",
    [
        {},
        {"operation": "clone"},
        {"operation": "burn"},
        {"operation": "clone", "expected": "x"},
        {"operation": "clone", "options": {"source": "a"}},
        {"operation": "clone", "options": {"a": 1}},
        {"operation": "clone", "target": None},
        {"operation": "clone", "reason": "a\nb"},
        {"more": 1},
        {"reason": "x" * 500},
        {"reason": "x" * 501},
        {"reason": 5},
        [],
        "operation",
    ],
)
def test_a_body_is_read_as_its_schema_says(kind: Any, content: Any) -> None:
    fits = validator({"$ref": f"#/components/schemas/{kind.__name__}"}).is_valid(content)
    try:
        read = exchange.decode(kind, json.dumps(content).encode())
    except exchange.Unusable:
        assert not fits
    else:
        assert fits or getattr(read, "operation", "") not in planning.OPERATIONS


def test_a_schema_that_does_not_fit_is_found(make_client: MakeClient) -> None:
    """The checks above would fail by it."""
    schema = validator({"$ref": "#/components/schemas/Health"})
    health = make_client().get("/health").json
    assert health is not None
    assert schema.is_valid(health)
    assert not schema.is_valid({**health, "more": 1})
    assert not schema.is_valid({**health, "state": "fine"})
    assert not schema.is_valid({**health, "last": None} | {"age": "1"})
