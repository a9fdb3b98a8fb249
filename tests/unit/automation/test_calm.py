"""When the automation may act."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from indico_zodbrepl.automation import calm
from indico_zodbrepl.automation.calm import Calm
from indico_zodbrepl.automation.observed import Observed
from indico_zodbrepl.automation.view import Known
from indico_zodbrepl.cluster import Cluster, load
from indico_zodbrepl.etcd.client import Entry
from indico_zodbrepl.etcd.keys import Key, Leader, Operation, Paused, Stored
from indico_zodbrepl.host.remote.etcd_lock import patience

EXAMPLE = Path(__file__).parents[3] / "etc" / "cluster.conf"
NOW = 1000.0
LEADER = Leader("a", "h1", 7, 1)
PAUSED = Paused("anne", "a new switch", "2026-11-30T10:00:00Z")


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    return load(EXAMPLE, tmp_path)


def may(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, *, led: float = NOW, **keys: Any
) -> Calm:
    """Return what the keys permit at ``NOW``; the leader was seen alive at ``led``."""
    monkeypatch.setattr(calm, "now", lambda: NOW)
    view: Any = type("View", (), {})()
    view.known = Known(Observed(LEADER, 5, led, NOW, moved=True), **keys)
    return Calm(cluster, view)


def operation(identifier: str = "9f", stops: str = "") -> Stored[Operation]:
    record = Operation("anne", "h1", 1, identifier, 1, stops)
    return Stored(Key("operation", Operation), record, Entry("operation", b"", 6))


def test_it_acts_while_a_node_leads_and_nobody_else_does(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = may(cluster, monkeypatch)
    assert (True, LEADER, "") == (found.acts(), found.leader(), found.last_leader())


def test_without_a_leader_it_knows_the_last_one(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = may(cluster, monkeypatch, led=NOW - 2 * cluster.lease)
    assert (True, None, "a") == (found.acts(), found.leader(), found.last_leader())


def test_it_does_not_act_while_it_is_paused(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    for led in (NOW, NOW - 2 * cluster.lease):
        found = may(cluster, monkeypatch, led=led, paused=PAUSED)
        assert (False, None, "") == (found.acts(), found.leader(), found.last_leader())
    assert found.leaves_alone("b")


def test_it_does_not_act_beside_an_operation_that_renews_its_lock(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = may(cluster, monkeypatch, operation=operation(), operation_since=NOW - 1)
    assert (False, None, "") == (found.acts(), found.leader(), found.last_leader())
    since = NOW - patience(cluster)
    assert may(cluster, monkeypatch, operation=operation(), operation_since=since).acts()
    assert may(cluster, monkeypatch, operation=operation(""), operation_since=NOW).acts()


def test_only_the_server_that_an_operation_stops_may_be_away_meanwhile(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    stops = operation(stops="a")
    found = may(cluster, monkeypatch, operation=stops, operation_since=NOW)
    assert [True, False] == [found.leaves_alone(name) for name in ("a", "b")]
    since = NOW - patience(cluster)
    late = may(cluster, monkeypatch, operation=stops, operation_since=since)
    assert not late.leaves_alone("a")
