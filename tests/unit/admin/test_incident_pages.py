"""The page of an incident, its report and its JSON: who sees what, and where it is linked."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import past
import pytest
import situations
from bs4 import BeautifulSoup
from flask.testing import FlaskClient
from spread import spread

from indico_zodbrepl.admin.pages import incident
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.cluster.model import Cluster
from indico_zodbrepl.cluster.programs import Admin
from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.host.interface import HostAwayError
from indico_zodbrepl.host.logs_interface import LogLine, LogWarnings
from indico_zodbrepl.monitord import events
from indico_zodbrepl.monitord.events import Event, Kind, Weight
from indico_zodbrepl.monitord.files import Lines
from indico_zodbrepl.operations import journal

MakeClient = Callable[..., FlaskClient]
ClientFor = Callable[[FlaskClient], FlaskClient]
PERIOD = "since=2026-11-20T11:00&until=2026-11-20T11:10"
SECRET = "hunter2"  # noqa: S105  # made up
PATHS = ("/incident", "/incident.md", "/api/incident")


@pytest.fixture
def client(make_client: MakeClient) -> FlaskClient:
    return make_client()


def keep(of: Cluster) -> str:
    """Keep an outage, its failover, an alert and a log with a warning; return the failover's id."""
    failover = past.failover(past.tail(of))
    past.keep(of, past.outage(), failover)
    layout = Layout(of)
    for folder in (layout.watch, layout.log):
        folder.mkdir(parents=True, exist_ok=True)
    lines = Lines(layout.watch / events.FILE, 1 << 20, 1)
    alert = Event(past.BEGAN - 190, Kind.ALERT, Weight.CRITICAL, "a", "primary a is <b>stopped</b>")
    lines.append(alert.to_json())
    lines.append({"kind": "of another release"})
    at = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(past.BEGAN - 191))
    layout.program_log("node-a").write_text(f"{at},000 ERROR x: <i>gone</i>, password={SECRET}\n")
    return failover.identifier


def text_of(client: FlaskClient, path: str, status: int = 200) -> str:
    answer = client.get(path)
    assert status == answer.status_code, answer.text
    found = BeautifulSoup(answer.text, "html.parser").select_one("main")
    assert found is not None
    for each in found.select("bdi, time"):
        each.unwrap()
    found.smooth()
    return " ".join(found.get_text(" ").split())


def test_the_page_shows_the_summary_and_the_timeline(client: FlaskClient, of: Cluster) -> None:
    keep(of)
    told = text_of(client, f"/incident?{PERIOD}")
    for expected in (
        "From 2026-11-20 11:00:00 UTC to 2026-11-20 11:10:00 UTC.",
        "198 s, from the last save (2026-11-20 11:02:52 UTC) to the first one after it",
        "Answers 503 of Indico not measured",
        "3 of node a; not decided",
        "anna: Failover to b (incomplete): a's disk is broken",
        "2026-11-20 11:02:56 UTC log line a ERROR x: <i>gone</i>, password=…",
        "2026-11-20 11:02:57 UTC alert , critical a Primary a is <b>stopped</b>",
        "First save after the outage Users could not save: 198 s",
    ):
        assert expected in told
    assert SECRET not in told


def test_an_operation_chooses_the_period(client: FlaskClient, of: Cluster) -> None:
    identifier = keep(of)
    page = client.get(f"/incident?entry={identifier}").text
    assert 'value="2026-11-20T10:57"' in page
    assert 'value="2026-11-20T11:12"' in page
    assert "Failover to b: started" in page


def test_a_given_period_counts_more_than_the_operation(client: FlaskClient, of: Cluster) -> None:
    told = text_of(client, f"/incident?entry={keep(of)}&since=2026-11-21T11:00")
    assert "From 2026-11-21 11:00:00 UTC" in told


def test_without_a_period_it_is_the_last_hour(client: FlaskClient) -> None:
    found: dict[str, Any] = client.get("/api/incident").json or {}
    now = time.time()
    assert now - 3700 < found["begins"] < now - 3590
    assert now <= found["ends"] < now + 70
    assert "Nothing was recorded in this period." in text_of(client, "/incident")


def test_the_report_is_a_download_that_leaves_no_trace(client: FlaskClient, of: Cluster) -> None:
    keep(of)
    before = journal.read(of)
    answer = client.get(f"/incident.md?{PERIOD}")
    assert (200, "text/markdown; charset=utf-8") == (answer.status_code, answer.content_type)
    name = "incident-demo-20261120T1100Z.md"
    assert f"attachment; filename={name}" == answer.headers["Content-Disposition"]
    assert answer.text.startswith("# Incident: demo, 2026-11-20 11:00:00 UTC\n\n")
    assert "\\<i\\>gone\\</i\\>, password=…" in answer.text
    assert SECRET not in answer.text
    assert before == journal.read(of)


def test_programs_get_the_same_as_people(client: FlaskClient, of: Cluster) -> None:
    identifier = keep(of)
    found: dict[str, Any] = client.get(f"/api/incident?{PERIOD}").json or {}
    assert ["saving", "log", "alert", "operation", "saving", "operation", "operation"] == [
        each["kind"] for each in found["entries"]
    ]
    assert [198] == [round(each["no_save_seconds"]) for each in found["outages"]]
    assert [
        {
            "name": past.TAIL,
            "operation": identifier,
            "node": "a",
            "transactions": 3,
            "recovered": 0,
            "is_open": True,
        }
    ] == found["losses"]
    assert SECRET not in str(found)


def test_viewers_see_no_log_lines(client: FlaskClient, of: Cluster, viewer: ClientFor) -> None:
    keep(of)
    for path in PATHS:
        answer = viewer(client).get(f"{path}?{PERIOD}")
        assert 200 == answer.status_code
        assert "Only operators can see lines of the programs" in answer.text
        assert "Failover to b" in answer.text
        assert "gone" not in answer.text


def test_viewers_are_not_told_what_a_recovery_named(
    client: FlaskClient, of: Cluster, viewer: ClientFor
) -> None:
    entry = past.failover(Path(), 0)
    told = 'NOTICE: it failed\nDETAIL: Conference 7 "Spring school"'
    record = dataclasses.replace(entry.records[-1], error=told)
    past.keep(of, dataclasses.replace(entry, records=(*entry.records[:-1], record), remark=told))
    for path in PATHS:
        text = viewer(client).get(f"{path}?{PERIOD}").text
        assert "NOTICE: it failed" in text
        assert "Spring" not in text


def test_operators_see_log_lines_in_read_only_mode(make_client: MakeClient) -> None:
    client = make_client({"admin": Admin("127.0.0.1", 8100, read_only=True)})
    keep(client.application.extensions["zodbrepl"].cluster)
    assert "gone" in client.get(f"/incident?{PERIOD}").text


def test_strangers_see_nothing(client: FlaskClient, anonymous: ClientFor) -> None:
    assert [303, 303, 401] == [anonymous(client).get(path).status_code for path in PATHS]


@pytest.mark.parametrize(
    "query",
    [
        "since=yesterday",
        "until=2026-99-99T00:00",
        "since=2026-11-20T11:00&until=2026-11-20T11:00",
        "since=%ff",
    ],
)
def test_a_wrong_period_is_refused(client: FlaskClient, query: str) -> None:
    assert "Invalid period" in text_of(client, f"/incident?{query}", 400)
    assert [400, 400] == [client.get(f"{path}?{query}").status_code for path in PATHS[1:]]


@pytest.mark.parametrize(
    "query", ["since=0001-01-01T00:00&until=9999-12-31T23:59", "until=1970-01-01T00:00"]
)
def test_every_period_can_be_shown(client: FlaskClient, of: Cluster, query: str) -> None:
    keep(of)
    assert [200, 200, 200] == [client.get(f"{path}?{query}").status_code for path in PATHS]


@pytest.mark.parametrize(
    ("situation", "query", "ongoing"),
    [
        (situations.PRIMARY_KILLED, "", True),
        (situations.PRIMARY_KILLED, PERIOD, False),
        (situations.UNKNOWN, "", False),
        (situations.HEALTHY, "", False),
    ],
)
def test_an_outage_that_is_not_over_is_told(
    make_client: MakeClient, situation: dict[str, Any], query: str, ongoing: bool
) -> None:
    client = make_client(**situation)
    assert ongoing == (client.get(f"/api/incident?{query}").json or {})["ongoing"]
    assert ongoing == ("Users cannot save now." in text_of(client, f"/incident?{query}"))


def test_with_several_hosts_the_log_lines_of_all_are_shown_and_silent_hosts_named(
    page_of: Callable[..., FlaskClient],
    viewer: ClientFor,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    def every_warning(begins: float, _ends: float) -> dict[str, LogWarnings | OperatorError]:
        def line(program: str, host: str) -> LogLine:
            return LogLine(begins + 1, program, "ERROR no majority", host)

        return {
            "h1": LogWarnings((line("etcd", "h1"), line("node-a", "h1")), ("indico-one",)),
            "h2": LogWarnings((line("etcd", "h2"), line("automation-h2", "h2")), ()),
            "h3": HostAwayError("host h3 does not answer", "no answer in time"),
        }

    logs = SimpleNamespace(every_warning=every_warning)
    monkeypatch.setattr(incident, "host_of", lambda _cluster: SimpleNamespace(logs=lambda: logs))
    cluster = dataclasses.replace(spread(), var_directory=tmp_path)
    client = page_of(cluster, lambda: situations.snapshot(cluster))
    told = text_of(client, "/incident")
    for expected in (
        "Events are those of the monitor on host h2.",
        "Without log lines of host h3: no answer in time.",
        "Incomplete or unreadable: indico-one (h1).",
    ):
        assert expected in told
    entries = (client.get("/api/incident").json or {})["entries"]
    assert [
        ("decision", "automation-h2"),
        ("log", "a"),
        ("log", "etcd on h1"),
        ("log", "etcd on h2"),
    ] == sorted((each["kind"], each["subject"]) for each in entries)
    assert "no majority" not in text_of(viewer(client), "/incident")


def test_the_page_needs_no_snapshot(client: FlaskClient, of: Cluster) -> None:
    keep(of)
    client.application.extensions["zodbrepl"].watcher.latest = lambda **_patience: None
    assert "Failover to b: started" in text_of(client, f"/incident?{PERIOD}")


def test_an_unknown_operation_is_not_found(client: FlaskClient) -> None:
    for path in PATHS:
        answer = client.get(f"{path}?entry=nothing")
        assert (404, True) == (answer.status_code, "has 0 operations" in answer.text)


def test_what_is_unreadable_is_named_and_the_rest_shown(client: FlaskClient, of: Cluster) -> None:
    keep(of)
    (Layout(of).watch / events.FILE).unlink()
    (Layout(of).watch / events.FILE).mkdir()
    Layout(of).program_log("node-b").mkdir()
    with Layout(of).journal.open("a") as file:
        file.write("torn")
    told = text_of(client, f"/incident?{PERIOD}")
    for expected in (
        "Some lines of the journal are unreadable.",
        "The monitor's events are unreadable.",
        "at most 512.0 KiB of each log is read. Incomplete or unreadable: node-b.",
        "Failover to b: started",
    ):
        assert expected in told


def test_an_unreadable_journal_is_reported(client: FlaskClient, of: Cluster) -> None:
    Layout(of).journal.mkdir()
    assert [503, 503, 503] == [client.get(path).status_code for path in PATHS]


def test_the_journal_its_entries_and_the_history_lead_to_it(
    client: FlaskClient, of: Cluster
) -> None:
    identifier = keep(of)
    for path, expected in (
        ("/journal", "/incident"),
        ("/journal?since=2026-11-20T11:00", "/incident?since=2026-11-20T11:00"),
        (f"/journal/{identifier}", f"/incident?entry={identifier}"),
        ("/history", "/incident?since="),
    ):
        page = BeautifulSoup(client.get(path).text, "html.parser")
        links = [str(each["href"]) for each in page.select("main a[href^='/incident']")]
        assert 1 == len(links), path
        assert links[0].startswith(expected)
        assert 200 == client.get(links[0]).status_code


@pytest.mark.parametrize("asked", ["until=0001-01-01T00:00", "since=2126-01-01T00:00"])
def test_a_period_before_all_time_or_in_the_future_is_refused(
    make_client: Callable[..., FlaskClient], asked: str
) -> None:
    client = make_client()
    assert client.get(f"/incident?{asked}").status_code == 400
    assert client.get(f"/api/incident?{asked}").status_code == 400
