"""The automatic failover on the page: what it shows, and who pauses and resumes it."""

from __future__ import annotations

import dataclasses
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import looks
import pytest
import shots
import situations
import stub_command
from chromium import SCHEMES, NewTab
from flask.testing import FlaskClient
from situations import server, snapshot
from spread import H1_LOST, WELL, spread

from indico_zodbrepl.cluster.hosts import Etcd
from indico_zodbrepl.cluster.model import Cluster, Synchronous
from indico_zodbrepl.etcd.health import Health, MemberHealth
from indico_zodbrepl.monitor.host_status import Automation, Candidate, Pause
from indico_zodbrepl.monitor.snapshot import Snapshot
from indico_zodbrepl.probing.answers import Acknowledging, AckState, Hold
from indico_zodbrepl.probing.waiting import wait_until

Serve = Callable[[Cluster, Callable[[], Snapshot]], FlaskClient]
ServeClient = Callable[[FlaskClient], str]
ClientFor = Callable[[FlaskClient], FlaskClient]
HOSTS = {"h1": WELL, "h2": WELL, "h3": WELL}
AT = "2026-11-24T18:00:00Z"
ACTIVE = Automation(
    3.0,
    leader="a",
    leader_epoch=2,
    since=AT,
    why="node b has not renewed its lease for 3.1 s; it has the newest transaction of 1 of 1 nodes",
    candidates=(Candidate("a", "", AT), Candidate("b", "", AT)),
)
PAUSED = dataclasses.replace(ACTIVE, paused=Pause("ada", "new switch", AT))
ACKNOWLEDGED = Acknowledging(
    AckState.SYNCHRONOUS, 1, "fsync", 10.0, "refuse", confirming={"b": "0x04"}, since=60.0
)
REFUSING = dataclasses.replace(
    ACKNOWLEDGED, state=AckState.REFUSING, confirming={}, in_doubt=2, since=12.0
)
LEADS = server("a", acknowledging=ACKNOWLEDGED, lease_left=2.1)
MEMBERS = tuple(
    MemberHealth(f"https://10.77.0.1{number}:8141", "", str(number), "1", "7", 50)
    for number in (1, 2, 3)
)
LOST = tuple(MemberHealth(each.url, "connection refused") for each in MEMBERS)
PROGRAMS = {name: situations.program(name) for name in ("automation-h1", "automation-h2")}
WORKS: dict[str, Any] = {
    "automation": ACTIVE,
    "servers": {"a": LEADS},
    "etcd": Health(MEMBERS),
    "programs": PROGRAMS,
}
SITUATIONS: dict[str, dict[str, Any]] = {
    "automatic": WORKS,
    "automatic paused": {**WORKS, "automation": PAUSED},
    "automatic without etcd": {
        "automation": Automation(3.0, "etcd does not answer: gave up after 0.8 s"),
        "servers": {"a": server("a", held=Hold.LEASE, lease_left=-4.0)},
        "etcd": Health((MEMBERS[0], *LOST[1:])),
        "programs": {**PROGRAMS, "automation-h2": situations.program("automation-h2", "STOPPED")},
    },
    "commits refused": {
        **WORKS,
        "servers": {
            "a": server("a", acknowledging=REFUSING, held=Hold.SYNCHRONOUS, lease_left=2.1)
        },
    },
    "host lost": {
        **H1_LOST,
        "automation": ACTIVE,
        "etcd": Health((LOST[0], MEMBERS[1], dataclasses.replace(MEMBERS[2], leader="3"))),
        "programs": {**H1_LOST["programs"], "automation-h2": PROGRAMS["automation-h2"]},
    },
}
PAUSED_NOTICE = "Automatic failover is paused. No node takes over if the primary is lost."
RESUME = "Resume automatic failover"
PAGES = ("/", "/node/a", "/operations", "/recover", "/journal", "/data", "/nothing-here")
TOLD = {
    "automatic": (
        "Automatic failover State active",
        "b: yes",
        "Leader lease Node a, 2 s of 3 s left",
        "Votes in etcd 3 of 3 members serve a majority is 2; etcd leader: h1",
        "Commits each waits for 1 node (fsync) acknowledged confirmed by b",
        "Host h1: reachable; etcd: votes, leads; automation: runs.",
        "Host h3: reachable; etcd: votes.",
        "Node b on host h2: no problem",
    ),
    "automatic paused": ("State paused by ada: new switch", "no node takes over"),
    "automatic without etcd": (
        "unknown: etcd does not answer",
        "its lease has ended",
        "Leader lease unknown",
        "Votes in etcd no majority , 1 of 3 members serve a majority is 2",
        "Commits each waits for 1 node no primary reports it now",
        "Host h2: reachable; etcd: does not serve; automation: stopped.",
    ),
    "commits refused": ("commits are refused", "2 transactions in doubt", "synchronous 0"),
    "host lost": (
        "Leader lease Node a, time left unknown",
        "Votes in etcd 2 of 3 members serve a majority is 2; etcd leader: h3",
        "Host h1: unreachable; etcd: does not serve; automation: unknown.",
    ),
}


def cluster(folder: Path) -> Cluster:
    return dataclasses.replace(
        spread(),
        var_directory=folder,
        automatic=True,
        synchronous=Synchronous(1),
        etcd=Etcd(client_port=8141, peer_port=8142),
    )


@pytest.fixture
def stub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> stub_command.Stub:
    return stub_command.install(tmp_path, monkeypatch)


@pytest.fixture
def client_in(
    page_of: Serve, stub: stub_command.Stub, tmp_path: Path
) -> Callable[..., FlaskClient]:
    """A function: a client, logged in as an operator, of the page in a situation."""
    assert stub

    def make(name: str, **changes: Any) -> FlaskClient:
        found = cluster(tmp_path)
        situation = {**SITUATIONS[name], **changes}
        situation["hosts"] = {**HOSTS, **situation.get("hosts", {})}
        return page_of(found, lambda: snapshot(found, **situation))

    return make


def called(stub: stub_command.Stub) -> list[list[Any]]:
    """Return the calls of bin/zodbrepl; wait for the first one."""
    assert wait_until(lambda: stub.calls, time.monotonic() + 30)
    return stub.calls


def text_of(client: FlaskClient, path: str) -> str:
    text = re.sub("</?bdi>", "", client.get(path).get_data(as_text=True))
    return " ".join(re.sub("<[^>]*>", " ", re.sub("</?time[^>]*>", "", text)).split())


@pytest.mark.parametrize("name", SITUATIONS)
def test_the_overview_tells_of_each_situation(
    client_in: Callable[..., FlaskClient], name: str
) -> None:
    text = text_of(client_in(name), "/")
    for told in TOLD[name]:
        assert told in text, told


@pytest.mark.parametrize(
    ("changes", "shown"),
    [
        ({"servers": {"a": server("a", lease_left=-0.4)}}, "Leader lease Node a, expired"),
        (
            {"servers": {"a": server("a", lease_left=0.4)}},
            "Leader lease Node a, less than 1 s of 3 s left",
        ),
        ({"automation": Automation(3.0)}, "Leader lease nobody"),
        (
            {"automation": dataclasses.replace(ACTIVE, released=True)},
            "Leader lease nobody a gave the role up",
        ),
    ],
)
def test_the_overview_tells_that_nobody_holds_the_lease_or_that_it_has_expired(
    client_in: Callable[..., FlaskClient], changes: dict[str, Any], shown: str
) -> None:
    assert shown in text_of(client_in("automatic", **changes), "/")


def test_commits_that_wait_for_no_node_are_called_asynchronous(
    page_of: Serve, tmp_path: Path
) -> None:
    found = dataclasses.replace(spread(), var_directory=tmp_path)
    client = page_of(found, lambda: snapshot(found, hosts=HOSTS))
    assert "Commits asynchronous none waits for another node" in text_of(client, "/")


def test_a_node_s_page_tells_of_its_commits_and_why_they_are_refused(
    client_in: Callable[..., FlaskClient],
) -> None:
    text = text_of(client_in("commits refused"), "/node/a")
    assert "Acknowledged commits commits are refused needs 1 secondary (fsync)" in text
    assert "refused: too few secondaries acknowledge" in text


@pytest.mark.parametrize("name", SITUATIONS)
def test_each_situation_fits_a_telephone_and_a_screen_light_and_dark(
    new_tab: NewTab,
    serve_client: ServeClient,
    client_in: Callable[..., FlaskClient],
    name: str,
) -> None:
    tab = new_tab()
    address = serve_client(client_in(name))
    for path in ("/", "/operations", "/node/a"):
        tab.open(address + path)
        for width in (390, 1280):
            tab.resize(width)
            for scheme in SCHEMES if shots.are_kept() else ():
                tab.paint(scheme)
                shots.keep(tab, f"{name} {path} {width} {scheme}")
            looks.check_names(tab, f"{path}, {name}, at {width} pixels")
        looks.check_at(tab, f"{path}, {name}", (390, 1280))


def test_an_operator_pauses_it_with_a_reason(
    client_in: Callable[..., FlaskClient], stub: stub_command.Stub
) -> None:
    client = client_in("automatic")
    assert "Pause automatic failover" in text_of(client, "/operations")
    refused = client.post("/automation/pause", data={"reason": " "})
    assert 400 == refused.status_code
    assert "Give a reason." in refused.text
    done = client.post("/automation/pause", data={"reason": "new switch"})
    assert (303, True) == (done.status_code, "/jobs/" in done.location)
    ((actor, arguments),) = called(stub)
    assert "alice (admin page)" == actor
    assert ["pause", "--reason", "new switch"] == arguments[2:]


def test_an_operator_resumes_it(
    client_in: Callable[..., FlaskClient], stub: stub_command.Stub
) -> None:
    client = client_in("automatic paused")
    assert 303 == client.post("/automation/resume").status_code
    ((_actor, arguments),) = called(stub)
    assert ["resume-automation"] == arguments[2:]


def test_every_page_says_that_it_is_paused_by_whom_since_when_and_why(
    client_in: Callable[..., FlaskClient], anonymous: ClientFor
) -> None:
    client = client_in("automatic paused")
    for path in PAGES:
        shown = text_of(client, path)
        assert re.search(
            f"{PAUSED_NOTICE} Paused by ada. Since 2026-11-24 18:00:00 UTC, "
            rf"\d+ \w+ ago. Reason: new switch {RESUME}",
            shown,
        ), path
    assert PAUSED_NOTICE not in text_of(anonymous(client), "/login")


def test_a_pause_by_hand_in_etcd_is_shown_without_what_is_not_known(
    page_of: Serve, tmp_path: Path
) -> None:
    found = cluster(tmp_path)
    unsaid = dataclasses.replace(ACTIVE, paused=Pause("", "", "yesterday"))
    client = page_of(found, lambda: snapshot(found, hosts=HOSTS, automation=unsaid))
    assert f"{PAUSED_NOTICE} It is not known who paused it. {RESUME}" in text_of(client, "/journal")


@pytest.mark.parametrize("name", ["automatic", "automatic without etcd"])
def test_no_page_says_so_while_it_is_active_or_unknown(
    client_in: Callable[..., FlaskClient], name: str
) -> None:
    client = client_in(name)
    for path in PAGES:
        assert PAUSED_NOTICE not in text_of(client, path), path


def test_the_button_of_the_notice_resumes_it_from_any_page(
    new_tab: NewTab,
    serve_client: ServeClient,
    client_in: Callable[..., FlaskClient],
    stub: stub_command.Stub,
) -> None:
    tab = new_tab()
    tab.open(serve_client(client_in("automatic paused")) + "/journal")
    tab.page.get_by_role("button", name=RESUME).click()
    tab.page.wait_for_url("**/jobs/*")
    ((actor, arguments),) = called(stub)
    assert "alice (admin page)" == actor
    assert ["resume-automation"] == arguments[2:]


def test_a_viewer_sees_the_notice_and_no_button(
    client_in: Callable[..., FlaskClient], viewer: ClientFor
) -> None:
    client = viewer(client_in("automatic paused"))
    for path in PAGES:
        shown = text_of(client, path)
        assert PAUSED_NOTICE in shown, path
        assert RESUME not in shown, path
    assert 403 == client.post("/automation/resume").status_code


def test_a_viewer_sees_the_state_and_no_button(
    client_in: Callable[..., FlaskClient], viewer: ClientFor
) -> None:
    client = viewer(client_in("automatic"))
    assert "Pause automatic failover" not in text_of(client, "/operations")
    assert 403 == client.post("/automation/pause", data={"reason": "x"}).status_code


def test_a_cluster_without_it_has_nothing_to_pause(page_of: Serve, tmp_path: Path) -> None:
    made = dataclasses.replace(situations.cluster(), var_directory=tmp_path)
    client = page_of(made, lambda: situations.snapshot(made))
    assert "Automatic failover" not in text_of(client, "/operations")
    assert 404 == client.post("/automation/pause", data={"reason": "x"}).status_code
