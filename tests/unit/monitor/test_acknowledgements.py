"""What status says about commits that secondaries acknowledge."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
import situations
from situations import server, snapshot

from indico_zodbrepl.cli.status_view import acknowledged
from indico_zodbrepl.cluster.model import Synchronous
from indico_zodbrepl.monitor import metrics
from indico_zodbrepl.monitor.snapshot import Snapshot, State
from indico_zodbrepl.operations.recommend import procedures
from indico_zodbrepl.probing.answers import Acknowledging, AckState, Hold, Level

FOUND = Acknowledging(
    AckState.SYNCHRONOUS,
    1,
    "fsync",
    10.0,
    "refuse",
    acknowledged=situations.TID,
    confirming={"b": "0x040d243a1e64b6aa"},
    since=75.0,
)
REFUSING: dict[str, Any] = {"state": AckState.REFUSING, "confirming": {}, "in_doubt": 2}


def seen(held: Hold | None = None, count: int = 1, **changes: Any) -> Snapshot:
    found = dataclasses.replace(FOUND, **changes)
    return snapshot(
        situations.cluster(synchronous=Synchronous(count)),
        servers={"a": server("a", acknowledging=found, held=held)},
    )


def figures(found: Snapshot) -> dict[str, float]:
    return {
        name: values[0][1]
        for name, values in metrics.of_snapshot(found)
        if values and name.startswith(("node_sync", "node_commits", "node_lease"))
    }


def test_acknowledged_commits_are_shown_without_an_alert() -> None:
    found = seen()
    assert (State.HEALTHY, ()) == (found.state, found.warnings)
    (line,) = acknowledged(found)
    assert ("Acknowledged commits on a: synchronous for 75 s, by 1 (fsync); confirming: b") == line
    assert {
        "node_synchronous": 1,
        "node_synchronous_count": 1,
        "node_synchronous_confirming": 1,
        "node_commits_in_doubt": 0,
    } == figures(found)


def test_without_synchronous_there_is_nothing_to_say() -> None:
    off = dataclasses.replace(FOUND, state=AckState.OFF, count=0, confirming={})
    found = snapshot(servers={"a": server("a", acknowledging=off)})
    assert () == found.warnings
    assert [] == list(acknowledged(snapshot()))
    assert {} == figures(snapshot())


def test_refused_commits_are_explained_with_the_command_that_accepts_them() -> None:
    found = seen(Hold.SYNCHRONOUS, **REFUSING)
    assert State.DOWN == found.state
    (alert,) = (each for each in found.warnings if each.level is Level.CRITICAL)
    assert "primary a refuses commits: too few secondaries acknowledge them" == alert.text
    assert (
        "Each commit needs 1 secondary to confirm it (fsync); none does. 2 transactions are in "
        "doubt: written here, acknowledged to nobody."
    ) == alert.detail
    assert "bring node b back" in alert.hint
    assert "bin/zodbrepl synchronous 0 --reason TEXT" in alert.hint
    assert 0 == figures(found)["node_synchronous"]
    cluster = situations.cluster(synchronous=Synchronous(1))
    assert () == procedures(cluster, found, situations.HOME), "no operation helps"


@pytest.mark.parametrize(
    ("changes", "level", "text"),
    [
        (
            {"state": AckState.WAITING, "confirming": {}},
            Level.WARNING,
            "commits on primary a wait: too few secondaries acknowledge them",
        ),
        (
            {"state": AckState.STARTING, "confirming": {}},
            Level.WARNING,
            "primary a has started, and too few secondaries confirm its last transaction",
        ),
        (
            {"state": AckState.ASKING, "confirming": {}},
            Level.CRITICAL,
            "commits on primary a wait until the cluster has recorded that they go on alone",
        ),
        (
            {"state": AckState.ALONE, "confirming": {}, "alone": "degrade"},
            Level.WARNING,
            "no secondary acknowledges the commits on primary a",
        ),
    ],
    ids=lambda value: str(value.get("state")) if isinstance(value, dict) else None,
)
def test_each_other_state_has_its_alert(changes: dict[str, Any], level: Level, text: str) -> None:
    found = seen(**changes)
    assert [(level, text)] == [(each.level, each.text) for each in found.warnings]


def test_a_follower_acknowledges_no_commits_of_its_own() -> None:
    off = dataclasses.replace(FOUND, state=AckState.OFF, confirming={})
    found = snapshot(servers={"b": server("b", acknowledging=off)})
    assert found.node("b").acknowledging is None
    assert [] == list(acknowledged(found))


def test_a_start_of_some_seconds_is_no_problem() -> None:
    assert () == seen(state=AckState.STARTING, since=2.0).warnings


def test_a_count_that_was_changed_at_run_time_is_noted() -> None:
    found = seen(count=2)
    (note,) = found.warnings
    assert Level.NOTICE == note.level
    assert "primary a runs with synchronous 1, not 2" == note.text
    assert "synchronous 2 --reason TEXT" in note.hint
    assert State.HEALTHY == found.state


def test_json_has_transactions_as_text() -> None:
    (node, _) = json.loads(json.dumps(seen().to_json()))["nodes"]
    assert "0x040d243a1e64b6aa" == node["acknowledging"]["acknowledged"]
    assert "synchronous" == node["acknowledging"]["state"]


def test_a_node_that_is_not_in_the_cluster_file_and_confirms_is_named() -> None:
    found = seen(not_counted={"x": "the cluster file has no such node"})
    (alert,) = found.warnings
    assert (Level.WARNING, "a") == (alert.level, alert.subject)
    assert "what node x confirms" in alert.text
    assert "the cluster file has no such node" in alert.detail
