"""The plan of an operation with its form: what is shown, to whom, and what begins it."""

from __future__ import annotations

import dataclasses
import html
from collections.abc import Callable
from pathlib import Path

import pytest
import situations
from flask.testing import FlaskClient
from operation_pages import (
    AT,
    NAMES,
    Begun,
    cluster_in,
    fields,
    filled,
    give,
    plan_of,
    soup_of,
    text,
)
from situations import PRIMARY_KILLED

from indico_zodbrepl.admin import surveys
from indico_zodbrepl.cluster.model import Cluster
from indico_zodbrepl.operations.model import Plan
from indico_zodbrepl.operations.planning import Request, digest

MakeClient = Callable[..., FlaskClient]
ClientFor = Callable[[FlaskClient], FlaskClient]


def test_a_plan_is_shown_whole_before_anything_is_asked(
    client: FlaskClient, tmp_path: Path
) -> None:
    plan = plan_of(cluster_in(tmp_path))
    page = client.get(AT)
    shown = text(page)
    for step in plan.steps:
        assert step.title in shown
        assert " ".join(step.command.split()) in shown
        assert f"{step.seconds:.0f} s" in shown
    for finding in plan.findings:
        assert finding.text.split("`")[0].strip() in shown
    assert "3 transactions that only a has" in shown
    assert NAMES[0] in shown
    assert 1 == page.text.count('class="no-return"')
    before, after = page.text.split('class="no-return"')
    assert plan.no_return() == before.count('class="step ')
    assert len(plan.steps) - plan.no_return() == after.count('class="step ')
    assert "bin/zodbrepl failover b --reason WHY" in shown
    assert digest(plan) == fields(page)["digest"].partition("-")[0]
    assert "Type the name b to confirm." in shown


def test_what_is_right_begins_what_was_shown(client: FlaskClient, begun: Begun) -> None:
    page = client.get(AT)
    answer = client.post(AT, data=filled(page))
    assert (303, "/jobs/job-0") == (answer.status_code, answer.headers["Location"])
    assert [
        (
            Request("failover", "b", "the host is dead", {}),
            "alice (admin page)",
            fields(page)["digest"],
        )
    ] == begun.calls
    assert "Running" in text(client.get("/jobs/job-0"))


@pytest.mark.parametrize(
    ("changes", "status", "said"),
    [
        ({"confirm": "a"}, 400, "This is not b. Nothing was started."),
        ({"confirm": ""}, 400, "Type the name to confirm."),
        ({"reason": "  "}, 400, "Give a reason for the journal."),
        ({"reason": "x" * 501}, 400, "longer than 500"),
        ({"digest": "f" * 32}, 409, "The plan has changed since it was shown"),
        ({"digest": ""}, 409, "The plan has changed since it was shown"),
    ],
)
def test_what_is_wrong_begins_nothing_and_says_why(
    client: FlaskClient, begun: Begun, changes: dict[str, str], status: int, said: str
) -> None:
    answer = client.post(AT, data=filled(client.get(AT), **changes))
    assert (status, []) == (answer.status_code, begun.calls)
    assert said in text(answer)


def test_what_was_typed_is_kept_when_the_name_is_wrong(client: FlaskClient) -> None:
    answer = client.post(AT, data=filled(client.get(AT), confirm="nobody"))
    assert 'value="the host is dead"' in answer.text
    assert 'aria-invalid="true"' in answer.text


@pytest.mark.parametrize(
    ("changes", "first"), [({"confirm": "nobody"}, "confirm"), ({"reason": " "}, "reason")]
)
def test_a_wrong_field_has_the_focus_and_its_error_is_on_top_and_in_the_title(
    client: FlaskClient, changes: dict[str, str], first: str
) -> None:
    page = soup_of(client.post(AT, data=filled(client.get(AT), **changes)))
    assert page.title is not None
    assert page.title.text.startswith("Error: ")
    assert [first] == [field["id"] for field in page.select("[autofocus]")]
    alert = page.select("main > *")[0]
    assert "alert" == alert["role"]
    assert [f"#{first}"] == [link["href"] for link in alert.select("a")]


def test_a_form_that_nobody_sent_has_no_error(client: FlaskClient) -> None:
    page = soup_of(client.get(AT))
    assert page.title is not None
    assert "Error" not in page.title.text
    assert [] == page.select("[autofocus]")


@pytest.mark.parametrize("changes", [{}, {"confirm": "nobody"}, {"reason": " "}])
def test_a_field_is_described_by_texts_that_are_on_the_page(
    client: FlaskClient, changes: dict[str, str]
) -> None:
    shown = client.get(AT)
    page = soup_of(client.post(AT, data=filled(shown, **changes)) if changes else shown)
    for each in page.select("[aria-describedby], [aria-labelledby]"):
        for name in ("aria-describedby", "aria-labelledby"):
            for target in str(each.get(name, "")).split():
                assert page.find(id=target) is not None, target
    assert [] == page.select("li[role=note]")


def test_a_plan_of_a_pack_says_what_it_removes_for_good(
    make_client: MakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def plan(cluster: Cluster) -> Plan:
        return Plan("pack", cluster.name, "", "", 0, (), None, ())

    give(monkeypatch, plan)
    page = soup_of(make_client().get("/operations/pack"))
    loss = page.select_one("section[aria-labelledby=loss-title]")
    assert loss is not None
    assert "cannot be recovered" in loss.text
    assert "No data is lost" not in loss.text
    assert [] == loss.select(".tint-healthy")


def test_a_plan_that_is_not_kept_any_more_leads_to_a_new_one(
    client: FlaskClient, begun: Begun
) -> None:
    answer = client.post(AT, data=filled(client.get(AT), survey="forgotten"), follow_redirects=True)
    assert [] == begun.calls
    assert "has expired" in text(answer)
    assert "Data loss" in text(answer)


def test_a_plan_for_one_node_begins_nothing_for_another(client: FlaskClient, begun: Begun) -> None:
    client.post("/operations/switchover?node=b", data=filled(client.get(AT)))
    assert [] == begun.calls


def test_a_post_without_the_token_is_refused(client: FlaskClient, begun: Begun) -> None:
    page = client.get(AT)
    del client.environ_base["HTTP_X_CSRFTOKEN"]
    assert 400 == client.post(AT, data=filled(page, csrf_token="forged")).status_code
    assert [] == begun.calls
    assert 303 == client.post(AT, data=filled(page)).status_code, "the form brings its token"


def test_a_viewer_sees_the_plan_and_why_there_is_no_button(
    client: FlaskClient, viewer: ClientFor, begun: Begun
) -> None:
    watching = viewer(client)
    page = watching.get(AT)
    assert "Data loss" in text(page)
    assert "victor is a viewer. Only operators can begin operations." in text(page)
    assert "Includes:" in client.get(AT).text
    assert "Includes:" not in page.text, "what would be lost is protected"
    assert not any(html.escape(name) in page.text for name in NAMES)
    assert '<form class="confirm"' not in page.text
    assert 403 == watching.post(AT, data={"reason": "x", "confirm": "b"}).status_code
    assert [] == begun.calls


def test_a_page_that_is_read_only_begins_nothing(
    make_client: MakeClient, begun: Begun, monkeypatch: pytest.MonkeyPatch
) -> None:
    give(monkeypatch, plan_of)
    admin = dataclasses.replace(situations.cluster().admin, read_only=True)
    client = make_client({"admin": admin}, **PRIMARY_KILLED)
    page = client.get(AT)
    assert "This page is read-only" in text(page)
    assert '<form class="confirm"' not in page.text
    assert 403 == client.post(AT, data={"reason": "x", "confirm": "b"}).status_code
    assert [] == begun.calls


def test_who_is_not_logged_in_sees_no_plan(client: FlaskClient, anonymous: ClientFor) -> None:
    answer = anonymous(client).get(AT)
    assert 303 == answer.status_code
    assert "/login" in answer.headers["Location"]


@pytest.mark.parametrize(
    "path",
    [
        "/operations/nothing",
        "/operations/failover?node=c",
        "/operations/failover?node=../b",
        "/operations/clone?node=b&source=nobody",
        "/operations/failover?node=one",
        "/jobs/nothing",
        "/jobs/..%2f..%2fsecrets",
    ],
)
def test_what_is_not_there_is_not_found(client: FlaskClient, path: str) -> None:
    assert 404 == client.get(path).status_code


def test_the_source_of_a_clone_and_the_days_of_a_pack_are_part_of_the_request(
    make_client: MakeClient, begun: Begun, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Request] = []
    give(monkeypatch, plan_of)

    def prepare(cluster: Cluster, _installation: object, request: Request) -> Plan:
        asked.append(request)
        return plan_of(cluster)

    monkeypatch.setattr(surveys, "prepare", prepare)
    client = make_client(**PRIMARY_KILLED)
    client.get("/operations/clone?node=b&source=a&days=4")
    client.get("/operations/pack?days=4")
    assert [
        Request("clone", "b", "", {"source": "a"}),
        Request("pack", None, "", {"days": "4"}),
    ] == asked
    client.post("/operations/pack?days=4", data=filled(client.get("/operations/pack?days=4")))
    assert {"days": "4"} == begun.calls[0][0].options
