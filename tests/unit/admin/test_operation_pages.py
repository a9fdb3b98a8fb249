"""Operations: what is offered, the plan with its form, and what is followed."""

from __future__ import annotations

import dataclasses
import html
import re
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import chromium
import looks
import planning
import pytest
import situations
from bs4 import BeautifulSoup
from flask.testing import FlaskClient
from playwright.sync_api import expect
from situations import PRIMARY_KILLED
from werkzeug.test import TestResponse

from indico_zodbrepl.admin import surveys
from indico_zodbrepl.admin import surveys as made_looks
from indico_zodbrepl.admin.jobs import Job, Jobs
from indico_zodbrepl.cluster import load
from indico_zodbrepl.cluster.installation import home_from_environment
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.cluster.model import Cluster
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.operations import journal, operation, store
from indico_zodbrepl.operations.exports import AtStake
from indico_zodbrepl.operations.failover import plan_failover
from indico_zodbrepl.operations.model import Finding, Loss, Plan, Refusal, Verdict
from indico_zodbrepl.operations.operation import Operation, Outcome, Progress, StepRecord
from indico_zodbrepl.operations.planning import Request, digest

MakeClient = Callable[..., FlaskClient]
ClientFor = Callable[[FlaskClient], FlaskClient]
AT = "/operations/failover?node=b"
NAMES = ('Conference 12 "Spring <school>"', "and 3 more objects")


def plan_of(cluster: Cluster) -> Plan:
    """A failover that loses something, as the planner makes it."""
    made = plan_failover(
        cluster, planning.situation(cluster, **PRIMARY_KILLED), "b", "", planning.COMMANDS(cluster)
    )
    assert isinstance(made, Plan)
    return dataclasses.replace(
        made, loss=Loss("a", 3, 1.5, True, "040d243a1e64b6aa", "3 transactions that only a has")
    )


class Begun:
    """Stands in for the jobs of a site: notes what is begun and starts nothing."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.known: list[Job] = []

    def begin(self, request: Request, actor: str, expected: str) -> Job:
        self.calls.append((request, actor, expected))
        return self._job(f"bin/zodbrepl failover b --reason {request.reason!r}")

    def end_open(self, how: str, reason: str, actor: str) -> Job:
        self.calls.append((how, reason, actor))
        return self._job(f"bin/zodbrepl resume --{how}")

    def get(self, identifier: str) -> Job | None:
        return next((each for each in self.known if each.identifier == identifier), None)

    def recent(self) -> list[Job]:
        return self.known

    def _job(self, command: str) -> Job:
        self.known.append(
            Job(
                f"job-{len(self.known)}",
                command,
                "alice (admin page)",
                time.time(),
                None,
                None,
                ("looking",),
                None,
            )
        )
        return self.known[-1]


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> Begun:
    """What is begun; nothing is."""
    made = Begun()
    for name in ("begin", "end_open", "get", "recent"):
        monkeypatch.setattr(Jobs, name, _calling(getattr(made, name)))
    return made


def _calling(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda _self, *arguments: function(*arguments)


@pytest.fixture
def client(make_client: MakeClient, begun: Begun, monkeypatch: pytest.MonkeyPatch) -> FlaskClient:
    """An operator's client of a cluster whose primary is gone, with a plan for it."""
    del begun
    give(monkeypatch, plan_of)
    return make_client(**PRIMARY_KILLED)


def give(monkeypatch: pytest.MonkeyPatch, found: Callable[[Cluster], Plan | Refusal]) -> None:
    """Let every request be answered by this plan or refusal."""

    def prepare(cluster: Cluster, _installation: object, _request: Request) -> Plan | Refusal:
        return found(cluster)

    def stake(_cluster: object, _installation: object, plan: Plan) -> AtStake:
        return AtStake(NAMES, "a-2-20261121T101010Z") if plan.loss else AtStake()

    monkeypatch.setattr(made_looks, "prepare", prepare)
    monkeypatch.setattr(made_looks, "at_stake", stake)


def text(page: TestResponse) -> str:
    without = re.sub("<[^>]*>", " ", re.sub("</?time[^>]*>", "", page.text))
    return " ".join(html.unescape(without).split())


def soup_of(page: TestResponse) -> BeautifulSoup:
    return BeautifulSoup(page.text, "html.parser")


def fields(page: TestResponse) -> dict[str, str]:
    """The hidden fields of the form that begins something."""
    form = page.text[page.text.index('<form class="confirm"') :]
    found = re.findall(r'<input[^>]*type="hidden"[^>]*>', form)
    pairs = [
        (re.search('name="([^"]*)"', each), re.search('value="([^"]*)"', each)) for each in found
    ]
    return {name[1]: value[1] for name, value in pairs if name and value}


def filled(page: TestResponse, **changes: str) -> dict[str, str]:
    return {**fields(page), "reason": "the host is dead", "confirm": "b", **changes}


# What is offered


def test_what_applies_comes_first_and_the_suggested_step_is_marked(client: FlaskClient) -> None:
    shown = text(client.get("/operations"))
    assert "The next safe step." in shown
    assert (
        shown.index("Fail over to b")
        < shown.index("Not possible now")
        < shown.index("Switch over to b")
    )
    assert 'href="/operations/failover?node=b"' in client.get("/operations").text


def test_jobs_of_this_page_are_listed_with_how_they_ended(
    client: FlaskClient, begun: Begun
) -> None:
    begun.known.append(
        Job("one", "bin/zodbrepl pack", "bob (admin page)", 1795172767.0, 1795172768.0, 8, (), None)
    )
    shown = client.get("/operations")
    assert "exit code 8: refused" in text(shown)
    assert '<a id="job-one" href="/jobs/one">' in shown.text


def test_an_operation_begun_on_the_command_line_is_shown_and_followed(
    client: FlaskClient, tmp_path: Path
) -> None:
    cluster = cluster_in(tmp_path)
    running = opened(cluster)
    with store.alone(cluster):
        store.save(cluster, running.changed(0, StepRecord(Progress.BEGUN, time.time())))
        assert "Failover to b from a is running" not in text(client.get("/operations"))
        assert "Failover to b is running." in text(client.get("/operations"))
        followed = text(client.get("/operations/current"))
        assert f"is running: 0 of {len(running.plan.steps)} steps" in followed
        assert "carol" in followed
        assert 'aria-current="step"' in client.get("/operations/current").text
    assert "no process executes it" in text(client.get("/operations"))


# The plan


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

    monkeypatch.setattr(made_looks, "prepare", prepare)
    client = make_client(**PRIMARY_KILLED)
    client.get("/operations/clone?node=b&source=a&days=4")
    client.get("/operations/pack?days=4")
    assert [
        Request("clone", "b", "", {"source": "a"}),
        Request("pack", None, "", {"days": "4"}),
    ] == asked
    client.post("/operations/pack?days=4", data=filled(client.get("/operations/pack?days=4")))
    assert {"days": "4"} == begun.calls[0][0].options


# Why there is none


def test_a_refusal_says_why_and_what_can_be_done_instead(
    make_client: MakeClient, begun: Begun, monkeypatch: pytest.MonkeyPatch
) -> None:
    del begun
    give(
        monkeypatch,
        lambda _cluster: Refusal(
            "a is alive",
            "use a switchover",
            (
                Finding(Verdict.FINE, "b", "is level"),
                Finding(Verdict.AGAINST, "a", "takes writes", "its own answer"),
            ),
        ),
    )
    page = make_client().get(AT)
    shown = text(page)
    assert "A is alive" in shown
    assert "use a switchover" in shown
    assert shown.index("takes writes") < shown.index("is level"), "what is against it is first"
    assert "Evidence: its own answer" in shown
    assert '<a href="/operations/switchover?node=b">' in page.text
    assert '<form class="confirm"' not in page.text


def test_what_is_done_already_is_no_refusal(
    make_client: MakeClient, begun: Begun, monkeypatch: pytest.MonkeyPatch
) -> None:
    del begun
    give(
        monkeypatch,
        lambda _cluster: Refusal(
            "b follows already", "", (Finding(Verdict.FINE, "b", "follows a"),)
        ),
    )
    shown = text(make_client().get("/operations/rejoin?node=b"))
    assert "Rejoin b: nothing to do" in shown
    assert "refused" not in shown


def test_an_error_of_the_look_is_reported_with_its_hint(
    make_client: MakeClient, begun: Begun, monkeypatch: pytest.MonkeyPatch
) -> None:
    del begun

    def prepare(*_arguments: object) -> Plan:
        raise OperatorError(
            "another operation is running",
            "failover to b, by carol",
            "wait until it ends, then retry",
            ExitCode.REFUSED,
        )

    monkeypatch.setattr(made_looks, "prepare", prepare)
    shown = text(make_client().get(AT))
    assert "Another operation is running" in shown
    assert "by carol" in shown
    assert "wait until it ends, then retry" in shown


def test_a_slow_look_does_not_hang_the_page(
    make_client: MakeClient, begun: Begun, monkeypatch: pytest.MonkeyPatch
) -> None:
    del begun
    over = threading.Event()
    looked = []

    def prepare(cluster: Cluster, _installation: object, _request: Request) -> Plan:
        looked.append(cluster)
        assert over.wait(180)
        return dataclasses.replace(plan_of(cluster), loss=None)

    monkeypatch.setattr(made_looks, "prepare", prepare)
    monkeypatch.setattr(surveys.Survey.wait, "__defaults__", (0.05,))
    client = make_client(**PRIMARY_KILLED)
    first = client.get(AT)
    assert 303 == first.status_code
    waiting = client.get(first.headers["Location"])
    assert "Planning: " in text(waiting)
    assert f'content="2; url={first.headers["Location"]}"'.replace("&", "&amp;") in waiting.text
    assert 303 == client.get(AT).status_code
    over.set()
    monkeypatch.setattr(surveys.Survey.wait, "__defaults__", (180.0,))
    assert "No data is lost." in text(client.get(first.headers["Location"]))
    assert 1 == len(looked), "a second look joins the first"


# Two operators


def test_the_page_of_what_runs_does_not_tell_it_twice(client: FlaskClient, tmp_path: Path) -> None:
    cluster = cluster_in(tmp_path)
    with store.alone(cluster):
        store.save(cluster, opened(cluster))
        page = client.get("/operations/current", follow_redirects=True)
    assert '<div id="banner" data-live></div>' in page.text
    assert 1 == text(page).lower().count("failover to b is running")


@pytest.mark.parametrize(("kind", "results"), [("bench", "/data/benchmarks"), ("stats", "/data")])
def test_what_was_measured_is_a_click_from_the_end_of_its_job(
    client: FlaskClient, begun: Begun, kind: str, results: str
) -> None:
    for ended, code in ((None, None), (time.time(), 1), (time.time(), 0)):
        begun.known = [
            Job(f"x-{kind}-1", f"bin/zodbrepl {kind}", "alice", 1.0, ended, code, (), None)
        ]
        shown = f'href="{results}">Show the results</a>' in client.get(f"/jobs/x-{kind}-1").text
        assert (code == 0) == shown


def test_jobs_belong_to_the_operations(client: FlaskClient, begun: Begun) -> None:
    job = begun.begin(Request("failover", "b"), "alice", "")
    page = client.get(f"/jobs/{job.identifier}").text
    assert 'href="/operations" aria-current="true">Operations</a>' in page
    assert 'href="/data" aria-current' not in page


def test_the_second_operator_is_led_to_the_operation_of_the_first(
    client: FlaskClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = client.get(AT)
    cluster = cluster_in(tmp_path)

    def begin(_self: object, *_arguments: object) -> Job:
        store.refuse_open(cluster)
        raise AssertionError("it is at work")

    monkeypatch.setattr(Jobs, "begin", begin)
    with store.alone(cluster):
        store.save(cluster, opened(cluster))
        answer = client.post(AT, data=filled(page))
        assert 409 == answer.status_code
        assert "Another operation is running" in text(answer)
        assert "by carol" in text(answer)
        assert '<a class="action" href="/operations/current">' in answer.text


def test_a_job_whose_plan_has_changed_leads_to_the_new_plan(
    client: FlaskClient, begun: Begun
) -> None:
    begun.known.append(
        Job(
            "late",
            "bin/zodbrepl -c /x.conf clone b --from a --reason 'a reason'",
            "bob",
            1.0,
            2.0,
            8,
            ("NOTICE: the situation has changed since the plan was shown",),
            None,
        )
    )
    page = client.get("/jobs/late")
    assert "Nothing was started." in text(page)
    assert '<a class="action" href="/operations/clone?node=b&amp;source=a">' in page.text


def test_a_job_that_came_second_leads_to_the_operation_that_came_first(
    client: FlaskClient, begun: Begun, tmp_path: Path
) -> None:
    cluster = cluster_in(tmp_path)
    begun.known.append(
        Job(
            "second",
            "bin/zodbrepl failover b",
            "bob",
            1.0,
            2.0,
            8,
            ("NOTICE: another operation is running (process 7)", "DETAIL: failover to b"),
            None,
        )
    )
    store.save(cluster, opened(cluster))
    page = client.get("/jobs/second")
    assert "Another operation is running (process 7) Exit code 8: refused" in text(page)
    assert '<a href="/operations/current">Show the open operation: failover to b</a>' in page.text
    assert 'href="/operations/failover?node=b"' in page.text


# What is followed


def test_what_an_operation_came_to_is_reported_as_on_the_command_line(
    client: FlaskClient, begun: Begun, tmp_path: Path
) -> None:
    cluster = cluster_in(tmp_path)
    folder = Layout(cluster).lost_tails / "a-2-x"
    folder.mkdir(parents=True)
    (folder / "tail.json").write_text('{"file": "f", "after": "0", "transactions": []}')
    ended = done(
        opened(cluster),
        {
            "lost_transactions": 3,
            "exported_to": str(folder),
            "exported_objects": list(NAMES),
            "diverged": ["a"],
            "writable_after_seconds": 2.5,
        },
    )
    begun.known.append(
        Job("over", "bin/zodbrepl failover b", "carol", 1.0, 2.0, 0, ("said",), ended)
    )
    page = client.get("/jobs/over")
    shown = text(page)
    assert "Failover to b is done" in shown
    assert "Writes are possible again 2.50 s after the plan." in shown
    assert "Lost from the cluster: 3 transactions." in shown
    assert NAMES[0] in shown
    assert 'href="/recover/a-2-x"' in page.text
    assert 'href="/operations/rejoin?node=a"' in page.text


def test_a_failed_step_shows_its_error_and_the_three_ways_out(
    client: FlaskClient, tmp_path: Path
) -> None:
    cluster = cluster_in(tmp_path)
    store.save(cluster, stopped(cluster))
    page = client.get("/operations/current")
    assert "NOTICE: the disk is full" in page.text
    for how in ("resume", "undo", "abandon"):
        assert f'href="/operations/{how}"' in page.text


@pytest.mark.parametrize(("how", "reason"), [("resume", ""), ("undo", ""), ("abandon", "why")])
def test_each_end_says_what_it_would_do_and_does_that(
    client: FlaskClient, begun: Begun, tmp_path: Path, how: str, reason: str
) -> None:
    cluster = cluster_in(tmp_path)
    stuck = stopped(cluster, at=0)
    store.save(cluster, stuck)
    journal.append(cluster, stuck)
    page = client.get(f"/operations/{how}")
    assert 200 == page.status_code
    if how == "resume":
        assert stuck.plan.steps[0].title in text(page)
        assert stuck.plan.steps[-1].title in text(page)
    data = {**fields(page), "confirm": "b"}
    wrong = client.post(f"/operations/{how}", data={**data, "confirm": "a", "reason": "why"})
    assert (400, []) == (wrong.status_code, begun.calls)
    if how == "abandon":
        assert 400 == client.post("/operations/abandon", data=data).status_code
    answer = client.post(f"/operations/{how}", data={**data, "reason": "why"})
    assert 303 == answer.status_code
    assert [(how, reason, "alice (admin page)")] == begun.calls


def test_the_end_of_another_operation_than_was_shown_ends_nothing(
    client: FlaskClient, begun: Begun, tmp_path: Path
) -> None:
    cluster = cluster_in(tmp_path)
    stuck = stopped(cluster)
    store.save(cluster, stuck)
    page = client.get("/operations/abandon")
    store.save(cluster, dataclasses.replace(stuck, outcome=Outcome.ABANDONED, ended=1.0))
    store.save(cluster, dataclasses.replace(stuck, identifier="20991121T101010.000Z-failover"))
    answer = client.post(
        "/operations/abandon", data={**fields(page), "confirm": "b", "reason": "why"}
    )
    assert (409, []) == (answer.status_code, begun.calls)


def test_there_is_nothing_to_end_when_everything_has_ended(client: FlaskClient) -> None:
    assert "There is nothing to resume" in text(client.get("/operations/resume"))
    assert "There is no operation yet." in text(client.get("/operations/current"))


def test_a_damaged_file_of_an_operation_can_be_put_away_here(
    client: FlaskClient, begun: Begun, tmp_path: Path
) -> None:
    cluster = cluster_in(tmp_path)
    path = Layout(cluster).operation("20261121T101010.000Z-failover")
    path.parent.mkdir()
    path.write_text("{")
    assert "The file of an operation is damaged" in text(client.get("/operations"))
    page = client.get("/operations/abandon")
    assert "would be renamed to" in text(page)
    assert "Type the name demo to confirm." in text(page)
    client.post("/operations/abandon", data={**fields(page), "confirm": "demo", "reason": "torn"})
    assert [("abandon", "torn", "alice (admin page)")] == begun.calls


@pytest.mark.parametrize(
    "path",
    ["/operations", "/operations/current", AT, "/operations/resume", "/operations/rejoin?node=a"],
)
def test_the_pages_have_nothing_that_the_policy_refuses(client: FlaskClient, path: str) -> None:
    page = client.get(path).text
    assert not re.search(r"\son\w+=|\sstyle=|<style|<script>", page)
    for reference in re.findall(r'(?:src|href)="(/[^"]*)"', page):
        if not reference.startswith("/recover/"):
            with client.get(html.unescape(reference)) as answer:
                assert 404 != answer.status_code, reference


def test_a_job_is_a_process_of_its_own_that_looks_for_itself(
    page_of: Callable[..., FlaskClient], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing runs here: the real command does not do what was planned for another situation."""
    home = home_from_environment()
    monkeypatch.setattr(situations, "HOME", home)
    source = tmp_path / "cluster.conf"
    written = (home / "etc" / "cluster.conf").read_text()
    source.write_text(
        re.sub(
            r"port 81\d\d",
            lambda _found: f"port {free_port()}",
            written.replace("$(ZODBREPL_HOME)/var", str(tmp_path)),
        )
    )
    cluster = load(source, home)
    give(monkeypatch, plan_of)
    client = page_of(cluster, lambda: situations.snapshot(cluster, **PRIMARY_KILLED))
    begun = client.post(AT, data=filled(client.get(AT)))
    assert 303 == begun.status_code
    deadline = time.monotonic() + 180
    while "Exit code 8: refused" not in (shown := text(client.get(begun.headers["Location"]))):
        assert time.monotonic() < deadline, shown
        time.sleep(0.2)
    assert "NOTICE:" in shown
    assert f"$ bin/zodbrepl -c {source} failover b --reason 'the host is dead'" in shown
    assert "by alice (admin page)" in shown


@pytest.mark.parametrize(
    "widths", [(1280, 390), pytest.param((1920,), marks=pytest.mark.exhaustive)], ids=str
)
def test_the_pages_fit_and_can_be_read(
    client: FlaskClient,
    serve_client: Callable[[FlaskClient], str],
    new_tab: chromium.NewTab,
    begun: Begun,
    tmp_path: Path,
    *,
    widths: tuple[int, ...],
) -> None:
    cluster = cluster_in(tmp_path)
    address, tab = serve_client(client), new_tab()
    begun.known.append(
        Job(
            "over",
            "bin/zodbrepl failover b",
            "carol",
            1.0,
            2.0,
            0,
            ("said",),
            done(
                opened(cluster),
                {"lost_transactions": 3, "diverged": ["a"], "exported_objects": list(NAMES)},
            ),
        )
    )
    for path in ("/operations", AT, "/operations/pack?days=4", "/jobs/over", "/operations/resume"):
        tab.open(address + path)
        looks.check_at(tab, path, widths)
    tab.open(address + AT)
    tab.page.get_by_role("button", name="Begin failover").press("Enter")
    assert tab.page.evaluate("document.activeElement.name") == "reason", "it is required"
    store.save(cluster, stopped(cluster))
    for path in ("/operations/current", "/operations/abandon", "/operations"):
        tab.open(address + path)
        looks.check_at(tab, path, widths)


def test_the_pages_of_what_is_refused_awaited_or_wrong_fit_and_can_be_read(
    client: FlaskClient,
    serve_client: Callable[[FlaskClient], str],
    new_tab: chromium.NewTab,
    begun: Begun,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    address, tab = serve_client(client), new_tab()
    answers = {
        "a wrong name": client.post(AT, data=filled(client.get(AT), confirm="c")),
    }
    begun.known.append(
        Job("late", "bin/zodbrepl failover b", "bob", 1.0, 2.0, 8, ("NOTICE: it is over",), None)
    )
    answers["a job that failed"] = client.get("/jobs/late")
    against = Finding(Verdict.AGAINST, "a", "takes writes", "its own answer")
    give(monkeypatch, lambda _cluster: Refusal("a is alive", "use a switchover", (against,)))
    answers["a refusal"] = client.get("/operations/switchover?node=b")
    give(monkeypatch, lambda _cluster: Refusal("b follows already", "", ()))
    answers["done already"] = client.get("/operations/rejoin?node=a")
    for name, answer in answers.items():
        assert answer.status_code != 303, name
        looks.show(tab, address, answer)
        looks.check_at(tab, name, (390, 1280))


def test_a_plan_that_takes_long_is_opened_when_it_is_made(
    make_client: MakeClient,
    serve_client: Callable[[FlaskClient], str],
    new_tab: chromium.NewTab,
    begun: Begun,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    del begun
    over = threading.Event()

    def prepare(cluster: Cluster, _installation: object, _request: Request) -> Plan:
        assert over.wait(180)
        return dataclasses.replace(plan_of(cluster), loss=None)

    monkeypatch.setattr(made_looks, "prepare", prepare)
    monkeypatch.setattr(surveys.Survey.wait, "__defaults__", (0.05,))
    tab = new_tab()
    tab.open(serve_client(make_client(**PRIMARY_KILLED)) + AT)
    since = tab.page.locator("#since")
    expect(since).to_contain_text(re.compile(r"Running for [1-9]\d* s"))
    looks.check_at(tab, "the wait for a plan", (390, 1280))
    over.set()
    expect(tab.page.get_by_role("button", name="Begin failover")).to_be_visible()


# Helpers of this file


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def cluster_in(folder: Path) -> Cluster:
    """The cluster whose pages are asked."""
    return dataclasses.replace(situations.cluster(), var_directory=folder)


@pytest.fixture(autouse=True)
def _folder_of_the_lock(tmp_path: Path) -> None:
    Layout(cluster_in(tmp_path)).run.mkdir(exist_ok=True)


def opened(cluster: Cluster) -> Operation:
    return operation.new(cluster.name, plan_of(cluster), "carol", time.time())


def stopped(cluster: Cluster, at: int = 1) -> Operation:
    """An operation that failed at a step."""
    begun = opened(cluster)
    for index in range(at):
        begun = begun.changed(index, StepRecord(Progress.DONE, 1.0, 2.0))
    failed = StepRecord(Progress.FAILED, 2.0, 3.5, error="NOTICE: the disk is full")
    return dataclasses.replace(
        begun.changed(at, failed), outcome=Outcome.STOPPED, ended=4.0, pid=1 << 22
    )


def done(begun: Operation, figures: dict[str, Any]) -> Operation:
    for index in range(len(begun.plan.steps)):
        begun = begun.changed(index, StepRecord(Progress.DONE, begun.began, begun.began + 0.5))
    return dataclasses.replace(begun, outcome=Outcome.DONE, ended=begun.began + 3, told=figures)
