"""The pages of operations in a browser: they fit, can be read, and keep the policy."""

from __future__ import annotations

import dataclasses
import html
import re
import threading
from collections.abc import Callable
from pathlib import Path

import chromium
import looks
import pytest
from flask.testing import FlaskClient
from operation_pages import (
    AT,
    NAMES,
    Begun,
    cluster_in,
    done,
    filled,
    give,
    opened,
    plan_of,
    stopped,
)
from playwright.sync_api import expect
from situations import PRIMARY_KILLED

from indico_zodbrepl.admin import surveys
from indico_zodbrepl.admin.jobs import Job
from indico_zodbrepl.cluster.model import Cluster
from indico_zodbrepl.operations import store
from indico_zodbrepl.operations.model import Finding, Plan, Refusal, Verdict
from indico_zodbrepl.operations.planning import Request

MakeClient = Callable[..., FlaskClient]


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

    monkeypatch.setattr(surveys, "prepare", prepare)
    monkeypatch.setattr(surveys.Survey.wait, "__defaults__", (0.05,))
    tab = new_tab()
    tab.open(serve_client(make_client(**PRIMARY_KILLED)) + AT)
    since = tab.page.locator("#since")
    expect(since).to_contain_text(re.compile(r"Running for [1-9]\d* s"))
    looks.check_at(tab, "the wait for a plan", (390, 1280))
    over.set()
    expect(tab.page.get_by_role("button", name="Begin failover")).to_be_visible()
