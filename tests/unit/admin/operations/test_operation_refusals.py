"""Why there is no plan: refusals, errors, and a survey that takes long."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable

import pytest
from flask.testing import FlaskClient
from operation_pages import AT, Begun, give, plan_of, text
from situations import PRIMARY_KILLED

from indico_zodbrepl.admin import surveys
from indico_zodbrepl.cluster.model import Cluster
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.operations.model import Finding, Plan, Refusal, Verdict
from indico_zodbrepl.operations.planning import Request

MakeClient = Callable[..., FlaskClient]


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

    monkeypatch.setattr(surveys, "prepare", prepare)
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

    monkeypatch.setattr(surveys, "prepare", prepare)
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
