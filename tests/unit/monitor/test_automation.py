"""What status says about the automatic failover, and how it reads etcd's records."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import situations
from situations import server, snapshot

from indico_zodbrepl import __version__
from indico_zodbrepl.cli.status_view import automation
from indico_zodbrepl.cluster.hosts import Etcd
from indico_zodbrepl.cluster.model import Cluster
from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.etcd.client import Entry
from indico_zodbrepl.etcd.keys import Keys, Leader, Member, Operation, Paused, Sync, encode
from indico_zodbrepl.monitor import metrics
from indico_zodbrepl.monitor.automation import LATE, automation_of
from indico_zodbrepl.monitor.etcd_questions import understood
from indico_zodbrepl.monitor.findings import HostReport
from indico_zodbrepl.monitor.host_status import Automation, Candidate, Pause
from indico_zodbrepl.monitor.snapshot import Snapshot, State
from indico_zodbrepl.probing.answers import Hold, Level

AT = "2026-11-24T18:00:00Z"
FOUND = Automation(
    3.0,
    leader="a",
    leader_epoch=1,
    since=AT,
    why="node c gave its role away",
    candidates=(Candidate("a", "", AT), Candidate("b", "", AT)),
)
PROBLEM = "it was a primary, and its data have not been compared since"


def cluster() -> Cluster:
    made = situations.cluster()
    nodes = tuple(
        dataclasses.replace(node, on=host)
        for node, host in zip(made.nodes, ("h1", "h2"), strict=True)
    )
    return dataclasses.replace(
        made, nodes=nodes, automatic=True, etcd=Etcd(client_port=8141, peer_port=8142)
    )


def seen(servers: dict[str, Any] | None = None, **changes: Any) -> Snapshot:
    found = dataclasses.replace(FOUND, **changes)
    return snapshot(
        cluster(), automation=found, servers=servers or {"a": server("a", lease_left=2.4)}
    )


def figures(found: Snapshot) -> dict[str, list[tuple[tuple[str, ...], float]]]:
    names = ("automation", "leader", "candidate")
    return {name: values for name, values in metrics.of_snapshot(found) if name.startswith(names)}


def test_a_leader_with_a_candidate_is_healthy() -> None:
    found = seen()
    assert (State.HEALTHY, ()) == (found.state, found.warnings)
    assert [
        f"Automatic failover: a leads in epoch 1 since {AT}, lease 2.4 s of 3 s left",
        "Can take over: b yes",
    ] == list(automation(found))
    assert {
        "automation_known": [((), True)],
        "automation_paused": [((), False)],
        "leader": [(("a",), True), (("b",), False)],
        "candidate": [(("b",), True)],
    } == figures(found)


def test_without_automation_there_is_nothing_to_say() -> None:
    assert [] == list(automation(snapshot()))
    assert {} == figures(snapshot())


def test_a_pause_is_a_warning_with_its_reason_and_its_end() -> None:
    found = seen(paused=Pause("ada", "new switch", AT))
    (alert,) = found.warnings
    assert Level.WARNING == alert.level
    assert "the automatic failover is paused: no node takes over from a lost primary" == alert.text
    assert f"ada paused it at {AT}: new switch" == alert.detail
    assert "bin/zodbrepl resume-automation" in alert.hint
    assert "Automatic failover (paused): a leads" in next(iter(automation(found)))


def test_silent_etcd_makes_the_state_unknown_and_says_what_follows() -> None:
    found = snapshot(cluster(), automation=Automation(3.0, LATE))
    (alert,) = found.warnings
    assert "the state of the automatic failover is unknown: etcd does not answer here" == alert.text
    assert LATE in alert.detail
    assert ["Automatic failover: unknown, etcd does not answer"] == list(automation(found))
    assert {"automation_known": [((), False)]} == figures(found)


def test_a_node_that_may_lack_what_it_confirmed_has_to_catch_up() -> None:
    lacking = "its data prove nothing about acknowledged commits: it was restored from a backup"
    found = seen(candidates=(Candidate("a", "", AT), Candidate("b", lacking, AT, lacking)))
    (alert,) = found.warnings
    assert lacking == alert.detail
    assert "when it has caught up" in alert.hint


def test_a_node_that_cannot_take_over_is_named_with_its_reason() -> None:
    found = seen(candidates=(Candidate("a", "", AT), Candidate("b", PROBLEM, AT)))
    (alert,) = found.warnings
    assert ("b", "node b can't take over from a lost primary") == (alert.subject, alert.text)
    assert PROBLEM == alert.detail
    assert f"Can take over: b no, {PROBLEM}" in list(automation(found))


def test_a_node_that_does_not_answer_has_one_alert() -> None:
    down = "the server of node b does not run"
    found = seen(
        {"a": server("a", followers=()), "b": situations.REFUSED},
        candidates=(Candidate("a", "", AT), Candidate("b", down, AT)),
    )
    assert [] == [each.text for each in found.warnings if "take over" in each.text]
    assert f"Can take over: b no, {down}" in list(automation(found))


def test_a_candidate_that_does_not_answer_is_none() -> None:
    """Its host may be lost, and what it reported before is still in etcd."""
    found = seen({"a": server("a", followers=()), "b": situations.SILENT})
    assert "Can take over: b no, it does not answer" in list(automation(found))
    assert [(("b",), False)] == figures(found)["candidate"]


def test_a_primary_whose_lease_has_ended_refuses_writes() -> None:
    found = seen({"a": server("a", lease_left=-1.0, held=Hold.LEASE)})
    assert State.DOWN == found.state
    assert "primary a refuses writes: its lease has ended" in found.sentence
    alert = found.warnings[0]
    assert "automation-h1" in alert.hint


def test_an_unproven_take_over_names_the_command_by_hand() -> None:
    unproven = (
        "it is not proven that no acknowledged commit is lost: 1 of the 2 nodes that are needed "
        "for that have answered (c: no answer)"
    )
    found = seen(
        {"a": situations.REFUSED, "b": server("b", connected=False)},
        candidates=(Candidate("a", "", AT), Candidate("b", unproven, AT)),
    )
    alert = next(each for each in found.warnings if "automatic failover" in each.text)
    assert Level.CRITICAL == alert.level
    assert (
        "no automatic failover: it is not proven that no acknowledged commit is lost" == alert.text
    )
    assert unproven in alert.detail
    assert "bin/zodbrepl failover --dry-run" in alert.hint


def test_a_primary_that_goes_on_alone_is_not_replaced() -> None:
    found = seen(alone=True)
    (alert,) = found.warnings
    assert "no other node has" in alert.text


def entries(**records: object) -> tuple[Entry, ...]:
    prefix = Keys(cluster()).prefix
    return tuple(
        Entry(prefix + name.replace("__", "/"), encode(record), 1)
        for name, record in records.items()
    )


def test_the_records_of_etcd_are_understood() -> None:
    found = understood(
        cluster(),
        Keys(cluster()),
        entries(
            leader=Leader("a", "h1", 4, 17, since=AT, why="switchover"),
            paused=Paused("ada", "new switch", AT),
            operation=Operation("ada", "h2", 10, "20261124-1", 3),
            sync=Sync(4, 1, "fsync", alone=True),
            members__b=Member("b", "h2", 4, problem=PROBLEM, at=AT),
        ),
    )
    assert (
        Automation(
            3.0,
            leader="a",
            leader_epoch=4,
            since=AT,
            why="switchover",
            paused=Pause("ada", "new switch", AT),
            operation="ada on host h2",
            alone=True,
            candidates=(Candidate("b", PROBLEM, AT),),
        )
        == found
    )


def test_an_earlier_promise_says_nothing_about_the_present_leader() -> None:
    found = understood(
        cluster(),
        Keys(cluster()),
        entries(leader=Leader("b", "h2", 5, 1), sync=Sync(4, 1, "fsync", alone=True)),
    )
    assert not found.alone


def test_a_record_of_a_newer_release_is_refused() -> None:
    keys = Keys(cluster())
    newer = Entry(keys.leader.name, b'{"format": 99}', 1)
    with pytest.raises(OperatorError, match="newer release"):
        understood(cluster(), keys, (newer,))


def test_a_silent_etcd_delays_no_answer() -> None:
    assert Automation(3.0, LATE) == automation_of(cluster(), {})
    assert automation_of(situations.cluster(), {}) is None


def test_a_new_recovery_export_is_a_notice_that_names_its_command() -> None:
    report = HostReport(__version__, True, 0.0, unrecovered=("a-2-20261125T232527Z",))
    found = snapshot(
        cluster(),
        automation=FOUND,
        servers={"a": server("a", lease_left=2.4)},
        hosts={"h1": report, "h2": dataclasses.replace(report, unrecovered=())},
    )
    (notice,) = found.warnings
    assert (State.HEALTHY, Level.NOTICE) == (found.state, notice.level)
    assert "recovery export a-2-20261125T232527Z on host h1" in notice.text
    assert "recover a-2-20261125T232527Z" in notice.hint


def test_a_primary_that_waits_for_a_lease_without_automation_is_to_be_restarted() -> None:
    found = snapshot(situations.cluster(), servers={"a": server("a", held=Hold.LEASE)})
    alert = next(each for each in found.warnings if "waits for a lease" in each.text)
    assert (alert.level, alert.subject) == (Level.CRITICAL, "a")
    assert "restart a --reason TEXT" in alert.hint
