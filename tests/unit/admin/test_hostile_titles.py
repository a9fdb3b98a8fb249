"""Titles, names and reasons that try to change how the text around them is read."""

from __future__ import annotations

import dataclasses
import json
import re
import sys
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import kept
import past
import pytest
import situations
from bs4 import BeautifulSoup
from flask import render_template_string
from flask.testing import FlaskClient
from spread import WELL, spread

from indico_zodbrepl.admin import surveys
from indico_zodbrepl.admin.jobs import Job, Jobs
from indico_zodbrepl.cluster.hosts import Etcd
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.cluster.model import Cluster
from indico_zodbrepl.host import statistics
from indico_zodbrepl.monitor.host_status import Automation, Pause
from indico_zodbrepl.monitor.snapshot import Snapshot
from indico_zodbrepl.monitor.words import HIDDEN, visible
from indico_zodbrepl.operations import recover, store
from indico_zodbrepl.operations.exports import AtStake
from indico_zodbrepl.operations.model import Finding, Loss, Step, Verdict
from indico_zodbrepl.operations.operation import Outcome, StepRecord
from indico_zodbrepl.operations.recover import (
    Difference,
    LostObject,
    LostTransaction,
    RecoveredEvent,
    Recovery,
)

MakeClient = Callable[..., FlaskClient]
Serve = Callable[[Cluster, Callable[[], Snapshot]], FlaskClient]
HEBREW = "\u05d0\u05d1\u05d2"
"""Written from right to left, and harmless where it is isolated."""
EVIL = f"\u202eloohcs\u2066 {HEBREW} \u200b<i>"
"""Reverses all text after it, unless that is prevented."""
TID, OID = "0400000000000001", "00000000000003d5"
ALONE = ("bdi", "title", "option")
"""Elements with one value, or with a direction of their own."""


def titles(page: str, path: str) -> int:
    """Count the hostile titles of a page; AssertionError if one has an effect outside of itself."""
    assert HIDDEN.search(page) is None, path
    assert "<i>" not in page, path
    found = BeautifulSoup(page, "html.parser").find_all(string=re.compile(HEBREW))
    for text in found:
        isolated = [each for each in text.parents if each.name in ALONE or each.get("dir")]
        assert isolated, f"{path}: {text}"
    return len(found)


def give_past(cluster: Cluster) -> str:
    """A failover with hostile texts in all that people and programs wrote; its identifier."""
    entry = past.failover(past.tail(cluster))
    plan = dataclasses.replace(
        entry.plan,
        reason=EVIL,
        loss=Loss("a", 3, 1.5, True, TID, EVIL),
        findings=(Finding(Verdict.AGAINST, "c", EVIL, EVIL),),
        steps=tuple(
            Step.from_json(
                dataclasses.asdict(each)
                | {"title": f"export {EVIL}", "checks": EVIL, "command": f"echo {EVIL}"}
            )
            for each in entry.plan.steps
        ),
    )
    records = tuple(
        StepRecord(
            each.progress,
            each.began,
            each.ended,
            {**each.figures, "exported_objects": [EVIL]},
            EVIL,
        )
        for each in entry.records
    )
    entry = dataclasses.replace(entry, plan=plan, records=records, actor=EVIL, remark=EVIL)
    past.keep(cluster, entry)
    store.save(cluster, dataclasses.replace(entry, outcome=Outcome.STOPPED, ended=None))
    return entry.identifier


def give_export(cluster: Cluster) -> None:
    (Layout(cluster).lost_tails / past.TAIL / "tail.json").write_text(
        json.dumps(
            {
                "format": 1,
                "file": "/srv/node/a/Data.fs",
                "after": TID,
                "transactions": [
                    {
                        "tid": TID,
                        "time": "2026-11-21T10:10:10.123456+00:00",
                        "user": EVIL,
                        "description": EVIL,
                        "objects": [
                            {
                                "oid": OID,
                                "class": "MaKaC.conference.Conference",
                                "what": f'Conference 3 "{EVIL}"',
                                "change": "new",
                                "bytes": 5,
                            }
                        ],
                    }
                ],
            }
        )
    )


def give_comparison(monkeypatch: pytest.MonkeyPatch) -> None:
    what = f'Conference 3 "{EVIL}"'
    difference = Difference(EVIL, EVIL, EVIL, protected=False)
    changed = LostObject(OID, what, "changed", "conflicts", EVIL, (difference,))
    new = LostObject(OID, what, "new", "applies", "", ())
    transaction = LostTransaction(TID, EVIL, EVIL, "conflicts", (changed, new))
    found = Recovery(past.TAIL, TID, None, 1, (transaction,))
    event = RecoveredEvent(past.TAIL, OID, EVIL, None, 17, None, None)
    monkeypatch.setattr(recover, "show", lambda *_all: found)
    monkeypatch.setattr(recover, "apply", lambda *_all, **_options: found)
    monkeypatch.setattr(recover, "recover_event", lambda *_all, **_options: event)


@pytest.fixture
def client(make_client: MakeClient, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FlaskClient:
    """An operator's client of a page that has a hostile title wherever users' data can be."""
    cluster = dataclasses.replace(situations.cluster(), var_directory=tmp_path)
    give_past(cluster)
    give_export(cluster)
    give_comparison(monkeypatch)
    plan = store.the_open_one(cluster).plan
    monkeypatch.setattr(surveys, "prepare", lambda *_all: plan)
    monkeypatch.setattr(surveys, "at_stake", lambda *_all: AtStake((EVIL,), "", EVIL))
    job = Job("job-1", f"bin/zodbrepl --reason {EVIL}", EVIL, 1.0, 2.0, 1, (EVIL,), None)
    monkeypatch.setattr(Jobs, "recent", lambda _self: [job])
    monkeypatch.setattr(Jobs, "get", lambda _self, name: job if name == "job-1" else None)
    found = {
        **kept.FOUND,
        "largest": [{**each, "what": EVIL} for each in kept.FOUND["largest"]],
    }
    statistics.keep(cluster, dataclasses.replace(kept.KEPT, found=found))
    log = Layout(cluster).program_log(cluster.node("a").program)
    log.parent.mkdir(exist_ok=True)
    log.write_text(EVIL)
    return make_client()


@pytest.mark.parametrize(
    ("path", "least"),
    [
        ("/node/a", 1),
        ("/operations", 4),
        ("/operations/current", 8),
        ("/jobs/job-1", 2),
        ("/operations/failover?node=b", 5),
        ("/operations/abandon", 1),
        ("/journal", 2),
        ("/incident?since=2026-01-01T00:00", 3),
        ("/data", 1),
        ("/recover", 1),
        (f"/recover/{past.TAIL}", 8),
        (f"/recover/{past.TAIL}?pick={TID}", 6),
        (f"/recover/{past.TAIL}?event={OID}", 1),
    ],
)
def test_a_hostile_title_has_no_effect_outside_of_itself(
    client: FlaskClient, path: str, least: int
) -> None:
    answer = client.get(path)
    assert 200 == answer.status_code
    assert least <= titles(answer.text, path)


def test_every_page_is_free_of_hidden_characters(client: FlaskClient) -> None:
    journal = json.loads(client.get("/api/operations").data)["operations"][0]["id"]
    seen = 0
    for rule in client.application.url_map.iter_rules():
        if "GET" not in (rule.methods or ()):
            continue
        path = re.sub("<identifier>", journal, rule.rule).replace("<kind>", "failover")
        path = re.sub("<name>", past.TAIL if "recover" in path else "a", path)
        with client.get(path) as answer:
            if answer.content_type.startswith("text/html") and answer.status_code < 300:
                seen += titles(answer.get_data(as_text=True), path)
    assert seen > 20


def test_a_typed_form_and_an_error_are_shown_without_hidden_characters(
    client: FlaskClient,
) -> None:
    refused = client.post(
        "/operations/resume", data={"reason": EVIL, "confirm": EVIL, "digest": ""}
    )
    ended = client.application.test_client()
    assert HIDDEN.search(refused.text) is None
    assert titles(client.get("/journal", query_string={"text": EVIL}).text, "filter")
    ended.environ_base["HTTP_HOST"] = "127.0.0.1:8100"
    assert HIDDEN.search(ended.get("/login", query_string={"next": EVIL}).text) is None


def test_a_reason_of_a_pause_has_no_effect_outside_of_itself(
    page_of: Serve, tmp_path: Path
) -> None:
    of = dataclasses.replace(
        spread(),
        var_directory=tmp_path,
        automatic=True,
        etcd=Etcd(client_port=8141, peer_port=8142),
    )
    paused = Automation(3.0, leader="a", why=EVIL, paused=Pause(EVIL, EVIL, "2026-11-24T18:00:00Z"))
    hosts = {"h1": WELL, "h2": WELL, "h3": WELL}
    client = page_of(of, lambda: situations.snapshot(of, automation=paused, hosts=hosts))
    assert 2 <= titles(client.get("/").text, "/")
    assert 1 <= titles(client.get("/operations").text, "/operations")


def test_all_characters_of_the_category_format_are_hidden_ones() -> None:
    expected = {
        chr(each) for each in range(sys.maxunicode + 1) if unicodedata.category(chr(each)) == "Cf"
    }
    assert expected == {each for each in expected if HIDDEN.fullmatch(each)}
    for harmless in "a \n\t\x1b\u00a0\u00e9\u05d0\u2026\u202f\U0001f600":
        assert harmless == visible(harmless)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("{{ value }}", "?loohcs? &lt;i&gt;"),
        ("{{ value|safe }}", "?loohcs? <i>"),
        ("<a title='{{ value }}'>", "<a title='?loohcs? &lt;i&gt;'>"),
        (
            "{{ _('Reason: %(reason)s', reason=value|bdi) }}",
            "Reason: <bdi>?loohcs? &lt;i&gt;</bdi>",
        ),
        ("{{ value|commands|bdi }}", "<bdi>?loohcs? &lt;i&gt;</bdi>"),
        ("{{ [value, none, 3, 1.5] | length }} {{ none }}", "4 None"),
    ],
)
def test_templates_write_hidden_characters_as_a_question_mark(
    make_client: MakeClient, source: str, expected: str
) -> None:
    value: Any = "\u202eloohcs\u2066 <i>"
    with make_client().application.test_request_context():
        assert expected == render_template_string(source, value=value)
