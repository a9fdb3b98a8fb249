"""Every situation an operator can meet, from made-up findings: no socket, no clock."""

import dataclasses
import json
import re
from typing import Any

import pytest
import situations
from situations import (
    ALL_STOPPED,
    FAILED_OVER,
    ONE_SECOND,
    PRIMARY_KILLED,
    REFUSED,
    SECONDARY_KILLED,
    SILENT,
    SPLIT_BRAIN,
    TID,
    TID_TIME,
    behind,
    instance,
    program,
    server,
    snapshot,
    state,
)

from indico_zodbrepl.cluster.model import Node, NodeState, Role
from indico_zodbrepl.host.interface import SUPERVISOR_AWAY
from indico_zodbrepl.host.supervisor import NOT_KNOWN
from indico_zodbrepl.monitor.node_status import Mark, Program, StartRefusal
from indico_zodbrepl.monitor.snapshot import Snapshot, State
from indico_zodbrepl.probing.answers import (
    IndicoAnswer,
    Level,
    MissingAnswer,
    ServerAnswer,
    ServerRole,
)
from indico_zodbrepl.probing.comparison import Comparison, Failure
from indico_zodbrepl.probing.wire import FailureKind


def texts(found: Snapshot) -> list[str]:
    return [warning.text for warning in found.warnings]


def test_a_healthy_cluster_is_healthy_without_a_warning() -> None:
    found = snapshot()
    assert State.HEALTHY == found.state
    assert () == found.warnings
    assert "a" == found.primary
    assert "Indico is writable; a is primary, b follows." == found.sentence
    assert ["*", "*"] == [node.mark for node in found.nodes]
    assert ("b",) == found.node("a").followers
    assert "a" == found.node("b").upstream
    assert (0.0, 0) == (found.node("b").lag_seconds, found.node("b").lag_transactions)


def test_a_killed_secondary_degrades_the_cluster() -> None:
    found = snapshot(**SECONDARY_KILLED)
    assert State.DEGRADED == found.state
    assert Mark.UNREACHABLE == found.node("b").mark
    assert ["secondary b is stopped", "primary a has no follower"] == texts(found)
    assert "bin/zodbrepl restart b" in found.warnings[0].hint


def test_a_frozen_secondary_is_distinguished_from_a_stopped_one() -> None:
    found = snapshot(servers={"b": SILENT}, comparisons={"b": None})
    assert State.DEGRADED == found.state
    assert ["secondary b does not answer"] == texts(found)
    assert "restart b`" in found.warnings[0].hint


def test_a_killed_primary_takes_the_cluster_down() -> None:
    found = snapshot(**PRIMARY_KILLED)
    assert State.DOWN == found.state
    assert found.primary is None
    assert (
        "Nothing can be saved: primary a is stopped. Pages can be read (2 of 2 Indico instances)."
    ) == found.sentence
    assert Level.CRITICAL == found.warnings[0].level
    assert "primary a is stopped" == found.warnings[0].text
    assert found.node("b").lag_seconds is None


def test_indico_waits_for_a_frozen_primary_until_it_notices() -> None:
    """Its connection stands, so the instance itself says that it could write."""
    found = snapshot(servers={"a": SILENT}, comparisons={"b": None})
    assert (
        "Nothing can be saved: primary a does not answer. Indico still waits for it, so pages "
        "hang or fail."
    ) == found.sentence
    assert ["!", "!"] == [instance.mark for instance in found.indico]
    assert "Indico instance one waits for node a" in texts(found)


def test_a_cluster_without_a_working_indico_instance_is_down() -> None:
    found = snapshot(indico={"one": REFUSED, "two": instance("two", connected=False, server=None)})
    assert State.DOWN == found.state
    assert "No Indico instance works; primary a is writable." == found.sentence


def test_a_cluster_without_indico_instances_can_be_healthy() -> None:
    found = snapshot(situations.cluster(indico=()), indico={})
    assert State.HEALTHY == found.state


def test_a_stopped_cluster_is_down_because_refusing_is_an_answer() -> None:
    found = snapshot(**ALL_STOPPED)
    assert State.DOWN == found.state
    assert (
        "Nothing can be saved or read: primary a does not answer, and no Indico instance works."
    ) == found.sentence


def test_a_cluster_that_is_silent_everywhere_is_unknown() -> None:
    found = snapshot(
        servers={"a": SILENT, "b": SILENT},
        comparisons={"b": None},
        indico={"one": SILENT, "two": SILENT},
        programs={},
        supervisor_problem="no answer in time",
    )
    assert State.UNKNOWN == found.state
    assert 3 == found.state.exit_code


def test_frozen_servers_are_down_not_unknown_while_supervisord_answers() -> None:
    found = snapshot(
        servers={"a": SILENT, "b": SILENT},
        comparisons={"b": None},
        indico={"one": SILENT, "two": SILENT},
    )
    assert State.DOWN == found.state


def test_lag_is_the_age_of_the_oldest_missing_transaction_and_the_primarys_count() -> None:
    now, first = situations.TID_TIME + 3600, TID + 3570 * ONE_SECOND
    found = snapshot(
        comparisons={"b": behind(7, TID + 3599 * ONE_SECOND, first=first)}, taken_at=now
    )
    assert 30.0 == pytest.approx(found.node("b").lag_seconds, abs=1e-3)
    assert 7 == found.node("b").lag_transactions
    assert ["secondary b is far behind"] == texts(found)
    assert State.DEGRADED == found.state


def test_of_several_missing_that_nobody_can_name_the_followers_own_last_is_the_bound() -> None:
    found = snapshot(
        comparisons={"b": behind(7, TID + 30 * ONE_SECOND)}, taken_at=situations.TID_TIME + 40
    )
    assert 40.0 == pytest.approx(found.node("b").lag_seconds, abs=1e-6)


def test_a_transaction_committed_while_the_probes_ran_is_no_negative_lag() -> None:
    later = TID + 5 * ONE_SECOND
    found = snapshot(
        comparisons={"b": behind(1, later, first=later)}, taken_at=situations.TID_TIME + 4
    )
    assert (0.0, 1) == (found.node("b").lag_seconds, found.node("b").lag_transactions)


def test_lag_counts_at_least_what_the_primary_remembers() -> None:
    found = snapshot(comparisons={"b": behind(1000, TID + 30 * ONE_SECOND, exact=False)})
    assert not found.node("b").lag_exact
    assert "at least 1000 transactions" in found.warnings[0].detail


def test_one_transaction_committed_just_now_after_a_long_pause_is_no_large_lag() -> None:
    later = TID + 600 * ONE_SECOND
    just_now = snapshot(comparisons={"b": behind(1, later)}, taken_at=situations.TID_TIME + 600.1)
    assert State.HEALTHY == just_now.state
    assert 0.1 == pytest.approx(just_now.node("b").lag_seconds, abs=1e-3)
    for_long = snapshot(comparisons={"b": behind(1, later)}, taken_at=situations.TID_TIME + 660)
    assert 60.0 == pytest.approx(for_long.node("b").lag_seconds, abs=1e-3)
    assert ["secondary b is far behind"] == texts(for_long)


def test_an_unanswered_count_leaves_a_bound_of_the_lag_in_seconds() -> None:
    found = snapshot(comparisons={"b": Comparison("a", TID + ONE_SECOND, SILENT)})
    assert 60.0 == pytest.approx(found.node("b").lag_seconds, abs=1e-6)
    assert found.node("b").lag_transactions is None


def test_a_secondary_that_has_only_just_been_copied_lags_by_its_first_transaction() -> None:
    """One that applied nothing yet is no reason to refuse a switchover."""
    found = snapshot(
        servers={"b": server("b", 0)},
        comparisons={"b": Comparison("a", TID, MissingAnswer(1, True, TID))},
        taken_at=situations.TID_TIME + 2,
    )
    assert 2.0 == pytest.approx(found.node("b").lag_seconds, abs=1e-3)


def test_an_empty_secondary_has_no_lag_in_seconds_but_a_warning() -> None:
    found = snapshot(
        servers={"b": server("b", 0)},
        comparisons={"b": Comparison("a", TID, MissingAnswer(500, False))},
    )
    assert found.node("b").lag_seconds is None
    assert 500 == found.node("b").lag_transactions
    assert found.node("b").last_time is None
    assert ["secondary b holds no transaction yet"] == texts(found)


def test_two_empty_nodes_are_level() -> None:
    found = snapshot(
        servers={"a": server("a", 0), "b": server("b", 0)}, comparisons={"b": behind(0, 0)}
    )
    assert (0.0, 0) == (found.node("b").lag_seconds, found.node("b").lag_transactions)
    assert State.HEALTHY == found.state


def test_a_secondary_ahead_of_its_primary_has_diverged() -> None:
    found = snapshot(servers={"b": server("b", TID + ONE_SECOND)}, comparisons={"b": behind(0)})
    assert ["secondary b is ahead of its primary a"] == texts(found)
    assert Level.CRITICAL == found.warnings[0].level


def test_a_secondary_that_is_not_connected_is_marked() -> None:
    found = snapshot(servers={"b": server("b", connected=False)})
    assert Mark.DIFFERS == found.node("b").mark
    assert ["secondary b is not connected to its upstream"] == texts(found)


def test_a_split_brain_is_critical_and_the_unassigned_primary_is_to_be_fenced() -> None:
    found = snapshot(**SPLIT_BRAIN)
    assert (State.CRITICAL, 2) == (found.state, found.state.exit_code)
    assert found.sentence == "Split brain: a and b both run as primary; fence node b now."
    assert "Split brain: a and b both run as primary" == found.warnings[0].text
    assert found.warnings[0].hint.startswith(
        "Split brain: fence node b now: `bin/zodbrepl node fence b`"
    )
    assert found.primary is None
    assert Mark.DIFFERS == found.node("b").mark


def test_a_primary_without_replication_is_not_what_zrs_was_configured_for() -> None:
    found = snapshot(servers={"a": server("a", role=ServerRole.STANDALONE, followers=())})
    assert "node a runs as standalone, assigned is primary" in texts(found)
    assert State.DEGRADED == found.state


def test_a_split_brain_is_critical_even_when_no_indico_instance_works() -> None:
    found = snapshot(**SPLIT_BRAIN, indico={"one": REFUSED, "two": REFUSED})
    assert State.CRITICAL == found.state


def test_a_refusal_older_than_the_epoch_is_not_replayed() -> None:
    refusal = StartRefusal(
        "node a can't be the primary of epoch 1", "no data", "bin/zodbrepl failover b"
    )
    gone: dict[str, Any] = {**FAILED_OVER, "refusals": {"a": refusal}, "epoch_began": TID_TIME}
    old = snapshot(**gone, refused_at={"a": TID_TIME - 5})
    assert (None, "a") == (old.node("a").refusal, old.warnings[0].subject)
    assert not [
        each for each in old.warnings if "failover b" in each.hint or each.level == "critical"
    ]
    new = snapshot(**gone, refused_at={"a": TID_TIME + 5})
    assert refusal.notice in texts(new)


def test_the_state_file_rules_over_cluster_conf() -> None:
    """After a failover cluster.conf may still say what the cluster started with."""
    found = snapshot(
        states={
            "a": state("a", role=Role.SECONDARY, upstream="b", epoch=2),
            "b": state("b", role=Role.PRIMARY, upstream=None, epoch=2),
        },
        servers={
            "a": server(
                "a",
                role=ServerRole.SECONDARY,
                upstream="127.0.0.1:8122",
                connected=True,
                followers=(),
                epoch=2,
                read_only=True,
            ),
            "b": server(
                "b",
                role=ServerRole.PRIMARY,
                upstream=None,
                connected=None,
                followers=("127.0.0.1:40000",),
                epoch=2,
                read_only=False,
            ),
        },
        comparisons={"a": Comparison("b", TID, MissingAnswer(0, True)), "b": None},
    )
    assert () == found.warnings
    assert State.HEALTHY == found.state
    assert "b" == found.primary


def test_an_unusable_state_file_is_reported() -> None:
    found = snapshot(states={"b": Failure(FailureKind.MALFORMED, "state.json: no JSON")})
    assert ["the state file of node b is unusable"] == texts(found)
    assert (Role.SECONDARY, "a", None) == (
        found.node("b").assigned_role,
        found.node("b").assigned_upstream,
        found.node("b").assigned_epoch,
    )


def hint_for_a_lost_state_file(**changes: Any) -> str:
    lost = Failure(FailureKind.MALFORMED, "state.json: no JSON")
    changes["states"] = {**changes.get("states", {}), "b": lost}
    return next(
        warning.hint
        for warning in snapshot(**changes).warnings
        if warning.text == "the state file of node b is unusable"
    )


def test_a_lost_state_file_is_written_again_as_its_server_runs() -> None:
    hint = hint_for_a_lost_state_file(servers={"b": server("b", epoch=3)})
    assert '"role": "secondary", "upstream": "a", "epoch": 3' in hint
    assert "> var/node/b/state.json`" in hint


def test_a_lost_state_file_of_a_stopped_node_is_known_only_before_any_promotion() -> None:
    stopped = {"servers": {"b": REFUSED}, "comparisons": {"b": None}}
    assert '"role": "secondary", "upstream": "a", "epoch": 1' in hint_for_a_lost_state_file(
        **stopped
    )
    assert "echo" not in hint_for_a_lost_state_file(**stopped, states={"a": state("a", epoch=2)})


def test_a_program_that_is_being_started_is_waited_for() -> None:
    found = snapshot(
        servers={"b": REFUSED},
        comparisons={"b": None},
        programs={"node-b": program("node-b", "STARTING")},
    )
    assert found.warnings[0].hint.startswith("supervisor is starting it: wait some seconds")


def test_a_program_that_ends_again_and_again_is_restarted() -> None:
    found = snapshot(
        servers={"b": REFUSED},
        comparisons={"b": None},
        programs={"node-b": program("node-b", "BACKOFF")},
    )
    assert "secondary b exits soon after each start" == found.warnings[0].text
    assert "`bin/zodbrepl restart b`" in found.warnings[0].hint


def test_a_primary_that_missed_a_promotion_is_critical() -> None:
    found = snapshot(servers={"b": server("b", epoch=2)}, states={"b": state("b", epoch=2)})
    assert "node a is in epoch 1, the cluster in epoch 2" == found.warnings[0].text
    assert Level.CRITICAL == found.warnings[0].level


def test_a_node_in_another_epoch_than_its_state_file_wants_a_restart() -> None:
    found = snapshot(states={"b": state("b", epoch=2)})
    assert ["node b runs in epoch 1, its state file says 2"] == texts(found)


@pytest.mark.parametrize("identity", [{"node": "c"}, {"cluster": "other"}])
def test_a_server_of_another_name_is_a_wrong_server(identity: dict[str, Any]) -> None:
    found = snapshot(servers={"a": server("a", **identity)})
    assert "another server answers at node a's address" == found.warnings[0].text
    assert State.DOWN == found.state
    assert Mark.DIFFERS == found.node("a").mark
    assert found.node("a").last_tid is None
    assert found.node("b").lag_seconds is None


def test_a_plain_zeo_server_is_a_wrong_server() -> None:
    found = snapshot(servers={"a": ServerAnswer(TID, 0, None)})
    assert "another server answers at node a's address" == found.warnings[0].text


def test_a_program_in_fatal_state_is_named() -> None:
    found = snapshot(
        servers={"b": REFUSED},
        comparisons={"b": None},
        programs={"node-b": program("node-b", "FATAL")},
    )
    assert "secondary b could not be started" in texts(found)
    assert "tail -n 50 var/log/node-b.log" in found.warnings[0].hint


def test_a_program_that_the_cluster_file_has_gained_is_started_by_up() -> None:
    gained = Program("node-b", "STOPPED", 0, NOT_KNOWN)
    found = snapshot(servers={"b": REFUSED}, comparisons={"b": None}, programs={"node-b": gained})
    assert (
        "supervisord learns of it with `bin/zodbrepl up`; "
        "after an upgrade begin with `bin/zodbrepl upgrade --check`"
    ) == found.warnings[0].hint


def test_a_server_that_runs_outside_of_supervisor_is_reported() -> None:
    found = snapshot(programs={"node-a": program("node-a", "STOPPED")})
    assert ["node a runs outside of supervisor"] == texts(found)
    assert "`kill 101`" in found.warnings[0].hint


def test_a_supervisord_that_does_not_answer_degrades_the_cluster() -> None:
    found = snapshot(programs={}, supervisor_problem="no answer in time")
    assert ["supervisord does not answer"] == texts(found)
    assert State.DEGRADED == found.state
    assert "`kill -CONT $(cat " in found.warnings[0].hint


def test_a_supervisord_that_is_gone_is_replaced_by_up() -> None:
    found = snapshot(programs={}, supervisor_problem=SUPERVISOR_AWAY)
    assert " up`" in found.warnings[0].hint


def test_a_read_only_primary_is_no_writable_primary() -> None:
    found = snapshot(servers={"a": server("a", read_only=True)})
    assert "primary a refuses writes" == found.warnings[0].text
    assert State.DOWN == found.state


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (REFUSED, "Indico instance one does not answer"),
        (
            instance("one", connected=False, server=None),
            "Indico instance one is not connected to any storage server",
        ),
        (
            instance("one", read_only=True, server="127.0.0.1:8121"),
            "Indico instance one is read-only",
        ),
        (instance("two"), "another Indico instance answers at one's address"),
    ],
)
def test_an_indico_instance_in_trouble_is_reported(
    answer: IndicoAnswer | Failure, text: str
) -> None:
    found = snapshot(indico={"one": answer})
    assert [text] == texts(found)
    assert State.DEGRADED == found.state
    assert ["*"] == [other.mark for other in found.indico if other.name == "two"]


def test_indico_shows_the_node_it_reads_from() -> None:
    found = snapshot(indico={"one": instance("one", read_only=True, server="127.0.0.1:8121")})
    assert ["b", "a"] == [each.server_node for each in found.indico]


def test_a_public_address_is_a_notice_that_leaves_the_cluster_healthy() -> None:
    public = situations.cluster()
    public = dataclasses.replace(
        public, indico=(dataclasses.replace(public.indico[0], host="::"), public.indico[1])
    )
    found = snapshot(public)
    assert ["listens on public addresses without TLS"] == texts(found)
    assert State.HEALTHY == found.state


def test_a_relays_follower_is_compared_with_the_primary() -> None:
    relay = situations.cluster()
    relay = dataclasses.replace(
        relay,
        nodes=(
            relay.nodes[0],
            dataclasses.replace(relay.nodes[1], role=Role.RELAY),
            Node("c", "127.0.0.1", 8131, 8132, situations.HOME / "var/node/c", Role.SECONDARY, "b"),
        ),
    )
    third = dataclasses.replace(situations.replication("b"), node="c", upstream="127.0.0.1:8122")
    found = snapshot(
        relay,
        states={
            "b": state("b", role=Role.RELAY),
            "c": NodeState("demo", "c", Role.SECONDARY, "b", 1),
        },
        servers={
            "b": server("b", role=ServerRole.RELAY, followers=("127.0.0.1:40001",)),
            "c": ServerAnswer(TID, 0, third),
        },
        comparisons={"c": behind(3, TID + 59 * ONE_SECOND, first=TID + 55 * ONE_SECOND)},
        programs={"node-c": program("node-c")},
    )
    assert State.HEALTHY == found.state
    assert 3 == found.node("c").lag_transactions
    assert ("c",) == found.node("b").followers
    assert "Indico is writable; a is primary, b and c follow." == found.sentence


def test_the_json_holds_tids_as_text_and_the_exit_code() -> None:
    found = json.loads(json.dumps(snapshot(**PRIMARY_KILLED).to_json()))
    assert "0x040d243a1e64b6aa" == found["nodes"][1]["last_tid"]
    assert found["nodes"][0]["last_tid"] is None
    assert ("down", 2) == (found["state"], found["code"])
    assert "!" == found["nodes"][1]["mark"]


@pytest.mark.parametrize("situation", [SECONDARY_KILLED, PRIMARY_KILLED, ALL_STOPPED])
def test_every_warning_says_what_to_do(situation: dict[str, Any]) -> None:
    for warning in snapshot(**situation).warnings:
        assert warning.hint
        assert not re.search(r"/srv/indico", warning.hint), "commands are relative to the folder"


def test_a_clock_that_is_behind_the_last_transaction_is_told_and_degrades_nothing() -> None:
    found = snapshot(taken_at=TID_TIME - 3600)
    [told] = [each for each in found.warnings if "clock" in each.text]
    assert (Level.NOTICE, "a") == (told.level, told.subject)
    assert "the clock is 3600 s behind the last transaction of primary a" == told.text
    assert "count on from it" in told.detail
    assert State.HEALTHY is found.state
    assert not any("clock" in each.text for each in snapshot(taken_at=TID_TIME - 4).warnings)
