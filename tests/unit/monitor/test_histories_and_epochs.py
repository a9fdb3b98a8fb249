"""Diverged nodes, refused starts, held writes, epoch records and operations without an end."""

import dataclasses
from typing import Any

import pytest
from situations import (
    HOME,
    PRIMARY_KILLED,
    REFUSED,
    SECONDARY_KILLED,
    TID,
    behind,
    cluster,
    program,
    replication,
    server,
    snapshot,
    state,
)

from indico_zodbrepl.cluster.model import Role
from indico_zodbrepl.host.history import Condition
from indico_zodbrepl.monitor.host_status import Automation, Pause
from indico_zodbrepl.monitor.node_status import StartRefusal
from indico_zodbrepl.monitor.snapshot import EpochWord, OpenOperation, Snapshot, State
from indico_zodbrepl.operations.recommend import procedures as advise
from indico_zodbrepl.probing.answers import (
    Alert,
    Hold,
    Level,
    MissingAnswer,
    RefusedFollower,
    ServerRole,
)
from indico_zodbrepl.probing.comparison import Comparison, Failure, Membership
from indico_zodbrepl.probing.wire import FailureKind

REJOIN = "`bin/zodbrepl rejoin b --dry-run`"


def alert(found: Snapshot, text: str) -> Alert:
    """The one alert that says this."""
    (only,) = [each for each in found.warnings if text in each.text]
    return only


def lookup(membership: Membership) -> dict[str, Any]:
    return {"b": Comparison("a", TID, MissingAnswer(0, True), membership)}


@pytest.mark.parametrize(
    ("condition", "text", "hint"),
    [
        (Condition.DIVERGED, "node b has diverged", REJOIN),
        (Condition.QUARANTINED, "node b is quarantined", REJOIN),
        (Condition.NEEDS_SEEDING, "node b needs a new copy", "`bin/zodbrepl clone b --dry-run`"),
    ],
)
def test_a_node_that_is_out_of_line_is_critical_and_the_way_back_is_named(
    condition: Condition, text: str, hint: str
) -> None:
    found = snapshot(
        lineages={"b": (condition, "3 transactions only here.")},
        servers={"b": REFUSED},
        comparisons={"b": None},
    )
    first = found.warnings[0]
    assert (Level.CRITICAL, "b") == (first.level, first.subject)
    assert text in first.text
    assert "3 transactions only here." in first.detail
    assert hint in first.hint
    assert found.node("b").out_of_line
    assert State.DEGRADED == found.state


@pytest.mark.parametrize(
    "condition", [Condition.DIVERGED, Condition.QUARANTINED, Condition.NEEDS_SEEDING]
)
def test_a_stopped_node_that_is_out_of_line_is_never_to_be_started(condition: Condition) -> None:
    found = snapshot(**{**SECONDARY_KILLED, "lineages": {"b": (condition, "")}})
    told = alert(found, "secondary b is stopped")
    way = "clone" if condition is Condition.NEEDS_SEEDING else "rejoin"
    assert f"`bin/zodbrepl {way} b --dry-run`" in told.hint
    assert not any("start" in each.hint for each in found.warnings if each.subject == "b")


FAILED_OVER: dict[str, Any] = {
    "servers": {
        "a": REFUSED,
        "b": server(
            "b", role=ServerRole.PRIMARY, epoch=2, upstream=None, connected=None, read_only=False
        ),
    },
    "states": {"b": state("b", role=Role.PRIMARY, upstream=None, epoch=2)},
    "comparisons": {"b": None},
    "programs": {"node-a": program("node-a", "STOPPED")},
    "records": (EpochWord("the control host", 2, "b", ""),),
}


@pytest.mark.parametrize("disk", ["there or gone", "unreadable"])
def test_a_primary_of_the_past_that_is_out_of_reach_is_not_to_be_started(disk: str) -> None:
    """Where its disk is gone, it counts as what cluster.conf begins with: primary of epoch 1."""
    own = Failure(FailureKind.UNREACHABLE, "I/O error") if disk == "unreadable" else state("a")
    states = {**FAILED_OVER["states"], "a": own}
    found = snapshot(**{**FAILED_OVER, "states": states})
    told = alert(found, "node a is unreachable; it is no longer the primary")
    assert ("b", "b") == (found.primary, found.node("a").superseded_by)
    assert Level.WARNING == told.level
    assert "do not start it" in told.hint
    assert "`bin/zodbrepl rejoin a --dry-run`" in told.hint
    assert "`bin/zodbrepl clone a`" in told.hint
    assert not any("start node-a" in each.hint for each in found.warnings)
    steps = [step for procedure in advise(cluster(), found, HOME) for step in procedure.steps]
    assert not any("start node-a" in command for step in steps for command in step.commands)


@pytest.mark.parametrize(
    ("changes", "waits"),
    [
        ({}, True),
        ({"leader": "a"}, False),
        ({"paused": Pause("anne", "work", "")}, False),
        ({"problem": "etcd does not answer"}, False),
    ],
)
def test_nobody_rejoins_by_hand_what_the_automation_will(
    changes: dict[str, Any], waits: bool
) -> None:
    leads = dataclasses.replace(Automation(3.0, leader="b"), **changes)
    found = snapshot(**FAILED_OVER, automation=leads)
    told = alert(found, "node a is unreachable; it is no longer the primary")
    assert waits == ("it then rejoins automatically" in told.hint)
    assert waits != ("`bin/zodbrepl rejoin a`" in told.hint)
    assert "`bin/zodbrepl clone a`" in told.hint
    titles = [each.title for each in advise(cluster(), found, HOME)]
    assert ("Wait until node a rejoins" if waits else "Rejoin node a") in titles
    assert ("Rejoin node a" if waits else "Wait until node a rejoins") not in titles


def test_the_automation_leaves_a_quarantined_node_to_an_operator() -> None:
    lineages = {"a": (Condition.QUARANTINED, "3 transactions only here.")}
    found = snapshot(**FAILED_OVER, lineages=lineages, automation=Automation(3.0, leader="b"))
    assert "Rejoin node a" in [each.title for each in advise(cluster(), found, HOME)]


def test_the_records_alone_tell_that_a_primary_is_one_of_the_past() -> None:
    found = snapshot(
        **{**FAILED_OVER, "servers": {"a": REFUSED, "b": REFUSED}, "states": {"b": state("b")}}
    )
    assert "b" == found.node("a").superseded_by
    assert not any("start node-a" in each.hint for each in found.warnings)


def test_a_primary_that_is_merely_stopped_is_to_be_started() -> None:
    found = snapshot(**PRIMARY_KILLED, records=(EpochWord("the control host", 1, "a", ""),))
    assert found.node("a").superseded_by is None
    assert "`bin/zodbrepl restart a`" in alert(found, "primary a is stopped").hint


def test_a_node_in_line_is_nothing_to_tell() -> None:
    found = snapshot(lineages={"b": (Condition.OK, "")}, comparisons=lookup(Membership.HELD))
    assert () == found.warnings
    assert Condition.OK == found.node("b").condition
    assert Membership.HELD == found.node("b").membership
    assert not found.node("b").out_of_line


def test_a_damaged_history_file_is_reported() -> None:
    found = snapshot(lineages={"b": (None, "lineage.json is damaged")})
    assert "--full" in alert(found, "the history file of node b is unusable").hint


@pytest.mark.parametrize("membership", [Membership.ABSENT, Membership.DIFFERENT])
def test_a_follower_whose_last_transaction_the_primary_never_had_is_critical(
    membership: Membership,
) -> None:
    """Also when the tids agree, which is all that the lag looks at."""
    found = snapshot(comparisons=lookup(membership))
    told = alert(found, "secondary b diverged from primary a")
    assert Level.CRITICAL == told.level
    assert "stop node-b" in told.hint
    assert REJOIN in told.hint
    assert 0 == found.node("b").lag_transactions
    assert found.node("b").out_of_line


def test_a_follower_ahead_of_its_primary_is_reported_once() -> None:
    found = snapshot(
        comparisons={"b": Comparison("a", TID - 1, MissingAnswer(0, True), Membership.ABSENT)}
    )
    assert ["secondary b diverged from primary a"] == [each.text for each in found.warnings]


def test_a_refused_start_is_reported_in_the_words_of_the_start_up_check() -> None:
    refusal = StartRefusal(
        "node b refuses to start as the primary of epoch 1",
        "the record of the control host knows epoch 2",
        "rejoin it",
    )
    found = snapshot(
        refusals={"b": refusal},
        servers={"b": REFUSED},
        comparisons={"b": None},
        programs={"node-b": program("node-b", "EXITED")},
    )
    told = alert(found, "refuses to start")
    assert (Level.CRITICAL, refusal.detail, refusal.hint) == (told.level, told.detail, told.hint)


def test_a_refusal_of_the_past_is_not_told_of_a_node_that_runs() -> None:
    refusal = StartRefusal("node b refuses to start", "", "")
    assert () == snapshot(refusals={"b": refusal}).warnings


def test_a_primary_that_refuses_a_follower_names_the_node_it_may_be() -> None:
    found = snapshot(
        servers={
            "a": server(
                "a",
                followers=(),
                refused=(RefusedFollower("127.0.0.1:40112", TID + 1, "2026-11-21 12:00:00 UTC"),),
            ),
            "b": server("b", connected=False),
        }
    )
    told = alert(found, "primary a refuses a follower: node b")
    assert Level.CRITICAL == told.level
    assert "0x040d243a1e64b6ab" in told.detail
    assert REJOIN in told.hint


def test_a_follower_refused_once_leaves_a_healthy_cluster_healthy() -> None:
    found = snapshot(servers={"a": server("a", refused=(RefusedFollower("h:1", TID, "then"),))})
    assert State.HEALTHY == found.state
    assert Level.NOTICE == alert(found, "primary a refused a follower").level


def test_a_primary_short_of_followers_can_save_nothing() -> None:
    found = snapshot(
        servers={
            "a": server("a", held=Hold.FOLLOWERS, min_followers=1, followers=()),
            "b": REFUSED,
        },
        comparisons={"b": None},
    )
    assert State.DOWN == found.state
    assert "Nothing can be saved: primary a refuses writes: too few followers" in found.sentence
    assert found.primary is None
    assert "0 connected, min-followers is 1" in alert(found, "too few followers").detail


def test_a_primary_of_a_past_epoch_can_save_nothing() -> None:
    found = snapshot(servers={"a": server("a", held=Hold.EPOCH)})
    assert State.DOWN == found.state
    assert "bin/zodbrepl rejoin a --dry-run" in alert(found, "in a later epoch").hint


def test_a_fenced_primary_beside_the_new_one_is_not_a_second_one_that_takes_writes() -> None:
    found = snapshot(
        servers={
            "a": server("a", held=Hold.EPOCH),
            "b": server(
                "b",
                role=ServerRole.PRIMARY,
                epoch=2,
                upstream=None,
                connected=None,
                read_only=False,
            ),
        },
        states={"b": state("b", role=Role.PRIMARY, upstream=None, epoch=2)},
        comparisons={},
    )
    assert "b" == found.primary
    assert not any("at once" in each.text for each in found.warnings)
    assert alert(found, "primary a refuses writes: the cluster is in a later epoch")


def test_a_pause_by_an_operator_is_reported_with_the_command_that_ends_it() -> None:
    found = snapshot(servers={"a": server("a", held=Hold.OPERATOR)})
    assert (State.DEGRADED, "a") == (found.state, found.primary)
    assert "bin/zodbrepl node resume-writes a" in alert(found, "has paused writes").hint


RECORDS = {
    "agrees": (EpochWord("the control host", 1, "a", ""), None),
    "none": (EpochWord("the control host", None, None, ""), None),
    "ahead": (EpochWord("the control host", 2, "b", ""), (Level.CRITICAL, "ahead of all nodes")),
    "other": (EpochWord("the control host", 1, "b", ""), (Level.CRITICAL, "another primary")),
    "damaged": (
        EpochWord("Indico instance one", None, None, "no JSON"),
        (Level.WARNING, "Indico instance one is unusable"),
    ),
}


@pytest.mark.parametrize(("word", "expected"), RECORDS.values(), ids=RECORDS)
def test_a_record_that_disagrees_is_reported(
    word: EpochWord, expected: tuple[Level, str] | None
) -> None:
    found = snapshot(records=(word,))
    if expected is None:
        assert () == found.warnings
    else:
        assert expected[0] == alert(found, expected[1]).level
    assert (word,) == found.records


def test_a_record_left_behind_is_reported_and_the_highest_epoch_is_the_clusters() -> None:
    states = {"a": state("a", epoch=3), "b": state("b", epoch=3)}
    servers = {"a": server("a", epoch=3), "b": server("b", epoch=3)}
    found = snapshot(
        states=states, servers=servers, records=(EpochWord("the control host", 2, "b", ""),)
    )
    assert 3 == found.epoch
    assert Level.WARNING == alert(found, "record of the control host is behind").level


@pytest.mark.parametrize(
    ("at_work", "level", "text", "hint"),
    [
        (True, Level.NOTICE, "failover b is running", "bin/zodbrepl journal"),
        (False, Level.WARNING, "failover b was interrupted", "`bin/zodbrepl resume` continues it"),
    ],
)
def test_an_operation_that_has_not_ended_is_reported(
    at_work: bool, level: Level, text: str, hint: str
) -> None:
    operation = OpenOperation(
        "2026-failover", "failover", "b", "eve", 1795172767.0, "running", at_work
    )
    found = snapshot(operations=(operation,))
    told = alert(found, text)
    assert level == told.level
    assert hint in told.hint
    assert "eve" in told.detail
    assert [operation.identifier] == [each["identifier"] for each in found.to_json()["operations"]]


def test_a_lagging_follower_is_not_out_of_line() -> None:
    found = snapshot(comparisons={"b": behind(3)}, servers={"b": server("b", TID - 1)})
    assert not found.node("b").out_of_line
    assert replication("b").held is None


def test_state_files_that_can_not_be_read_do_not_mean_that_nobody_is_the_primary() -> None:
    demoted = state("a", role=Role.SECONDARY, upstream="b")
    told = "no node is assigned to be the primary"
    assert told in [each.text for each in snapshot(states={"a": demoted}).warnings]
    assert told not in [
        each.text
        for each in snapshot(
            states={"a": demoted, "b": Failure(FailureKind.SILENT, "disk hung?")}
        ).warnings
    ]
