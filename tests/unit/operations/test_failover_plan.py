"""When a primary counts as gone, who takes over, what that loses, and which steps it takes."""

from __future__ import annotations

import dataclasses
import time
from typing import Any

import pytest
from planning import COMMANDS, EQUAL, cluster_of, compared, situation, steps_of
from situations import (
    ALL_STOPPED,
    ONE_SECOND,
    PRIMARY_KILLED,
    REFUSED,
    SILENT,
    TID,
    TID_TIME,
    instance,
    server,
)
from situations import program as supervised

from indico_zodbrepl.cluster.model import Cluster, NodeState, Role, Synchronous
from indico_zodbrepl.cluster.settings import PostgreSQLSettings
from indico_zodbrepl.host.datafs_answers import Common, Relation
from indico_zodbrepl.host.last_seen import LastSeen
from indico_zodbrepl.monitor.snapshot import EpochWord
from indico_zodbrepl.operations import evidence
from indico_zodbrepl.operations.evidence import Process, Sight, is_gone
from indico_zodbrepl.operations.failover import plan_failover
from indico_zodbrepl.operations.model import Plan, Refusal, Verdict
from indico_zodbrepl.probing.comparison import Failure
from indico_zodbrepl.probing.wire import FailureKind

PAIR = cluster_of()
STAR = cluster_of(c=("a", Role.SECONDARY))
CUT_OFF = {"connected": False}
DEAD: dict[str, Any] = {**PRIMARY_KILLED, "processes": {"a": Process.NONE}}
FROZEN: dict[str, Any] = {
    "servers": {"a": SILENT},
    "comparisons": {"b": None},
    "processes": {"a": Process.FROZEN},
}
MUTE: dict[str, Any] = {"servers": {"a": SILENT}, "comparisons": {"b": None}}
UNREACHABLE = Failure(FailureKind.UNREACHABLE, "cannot reach 127.0.0.1:8111: no route")
TAIL = compared(Relation.AHEAD, private=3)


def star_dead(**changes: Any) -> dict[str, Any]:
    dead = {
        **DEAD,
        "servers": {**DEAD["servers"], "c": server("b", node="c", connected=False)},
        "comparisons": {"b": None, "c": None},
    }
    dead["servers"].update(changes.pop("servers", {}))
    return {**dead, **changes}


def planned(cluster: Cluster = PAIR, target: str | None = None, **changes: Any) -> Plan | Refusal:
    return plan_failover(
        cluster, situation(cluster, **changes), target, "the disk of a died", COMMANDS(cluster)
    )


def plan(cluster: Cluster = PAIR, target: str | None = None, **changes: Any) -> Plan:
    found = planned(cluster, target, **changes)
    assert isinstance(found, Plan), found
    return found


def refusal(cluster: Cluster = PAIR, target: str | None = None, **changes: Any) -> Refusal:
    found = planned(cluster, target, **changes)
    assert isinstance(found, Refusal), found
    assert any(each.verdict is Verdict.AGAINST for each in found.findings)
    return found


def sights(**changes: Any) -> dict[str, Sight]:
    found = situation(PAIR, **changes)
    return {
        each.observer: each.sight
        for each in evidence.reports_of(
            found.findings, found.snapshot, "a", found.processes["a"], None
        )
    }


def test_a_dead_primary_is_seen_gone_by_everybody() -> None:
    assert {
        "the control host's probe": Sight.DOWN,
        "its host": Sight.DOWN,
        "Indico instance one": Sight.DOWN,
        "Indico instance two": Sight.DOWN,
        "follower b": Sight.DOWN,
    } == sights(**DEAD)


def test_a_frozen_one_is_seen_by_its_host_at_once_and_by_its_clients_only_later() -> None:
    seen = sights(**FROZEN)
    assert (Sight.DOWN, Sight.DOWN) == (seen["the control host's probe"], seen["its host"])
    assert {Sight.INCONCLUSIVE} == {seen["Indico instance one"], seen["follower b"]}
    assert isinstance(planned(**FROZEN), Plan)


def test_observers_on_one_machine_count_once_unless_it_is_the_primarys() -> None:
    """A primary on another host: this host and all that runs on it may have lost the network."""
    [a, b] = PAIR.nodes
    away = dataclasses.replace(PAIR, nodes=(dataclasses.replace(a, host="10.0.0.7"), b))
    unknown = {**DEAD, "programs": {"node-a": None}, "processes": {"a": Process.UNKNOWN}}
    told = refusal(away, **unknown)
    assert "it is not certain that primary a is down" == told.notice
    [sentence] = [each.text for each in told.findings if each.verdict is Verdict.AGAINST]
    assert (
        "Only 1 of 2 required observers reports it down; the control host's probe, Indico instance "
        "one, Indico instance two and follower b are on the control host and count once"
    ) == sentence
    elsewhere = dataclasses.replace(b, host="10.0.0.8")
    assert isinstance(
        planned(dataclasses.replace(away, nodes=(away.nodes[0], elsewhere)), **unknown), Plan
    )
    assert isinstance(planned(**unknown), Plan)


def test_followers_that_run_but_do_not_answer_this_host_are_no_reason_to_start_them() -> None:
    changes = star_dead(servers={"b": UNREACHABLE, "c": UNREACHABLE})
    changes["processes"] = {"a": Process.NONE, "b": Process.RUNS, "c": Process.RUNS}
    told = refusal(STAR, **changes)
    assert "no node can take over: b and c run, but don't answer this host" == told.notice
    assert "check the network and the firewall" in told.hint
    assert "bin/zodbrepl restart b" in told.hint
    assert " up" not in told.hint


def test_one_that_only_does_not_answer_us_is_not_gone_until_its_clients_have_left() -> None:
    assert "it is not certain that primary a is down" == refusal(**MUTE).notice
    left = {
        name: instance(name, server="127.0.0.1:8121", read_only=True) for name in ("one", "two")
    }
    assert isinstance(planned(**MUTE, indico=left), Plan)


def test_one_that_answers_is_alive_whatever_others_say() -> None:
    fatal = {"node-a": supervised("node-a", "FATAL")}
    found = refusal(
        servers={"b": server("b", **CUT_OFF)},
        indico=DEAD["indico"],
        processes={"a": Process.NONE},
        programs=fatal,
    )
    assert "primary a is running; a failover would lose transactions" == found.notice
    assert "bin/zodbrepl switchover;" in found.hint


def test_an_instance_that_can_save_while_we_are_cut_off_proves_it_alive() -> None:
    changes: dict[str, Any] = {
        "servers": {"a": UNREACHABLE, "b": server("b", **CUT_OFF)},
        "comparisons": {"b": None},
    }
    assert "primary a is running; a failover would lose transactions" == refusal(**changes).notice


def test_one_that_supervisor_starts_again_is_judged_by_the_others() -> None:
    again = {
        **DEAD,
        "programs": {"node-a": supervised("node-a", "STARTING")},
        "processes": {"a": Process.RUNS},
    }
    seen = sights(**again)
    assert Sight.INCONCLUSIVE is seen["its host"]
    assert isinstance(planned(**again), Plan)


def test_two_vantage_points_are_needed() -> None:
    found = situation(PAIR, **DEAD)
    said = evidence.reports_of(found.findings, found.snapshot, "a", Process.NONE, None)
    gone = [each for each in said if each.sight is Sight.DOWN]
    assert (False, True) == (is_gone(gone[:1]), is_gone(gone[:2]))
    assert not is_gone([*gone, dataclasses.replace(gone[0], sight=Sight.SERVING)])


def test_without_a_tail_the_old_primary_follows_and_no_client_is_restarted() -> None:
    made = plan(**DEAD, compared={"a": EQUAL})
    assert [
        "fence a",
        "export-tail a",
        "promote b",
        "see-writable one",
        "see-writable two",
        "assign a",
        "start a",
        "see-following a",
        "verify b",
    ] == steps_of(made)
    assert ("promote", None, 2) == (made.steps[made.no_return()].action, made.loss, made.epoch)


def test_a_tail_is_exported_before_the_promotion_and_clients_are_restarted_after_it() -> None:
    made = plan(**DEAD, compared={"a": TAIL})
    assert [
        "fence a",
        "export-tail a",
        "promote b",
        "see-writable one",
        "see-writable two",
        "assign a",
        "restart-client one",
        "restart-client two",
        "verify b",
    ] == steps_of(made)
    assert made.loss is not None
    assert (3, True, f"{TID:016x}") == (made.loss.transactions, made.loss.exact, made.loss.after)
    assert made.loss.seconds == pytest.approx(1.0)
    assert "3 transactions that only a has and b lacks, made within 1.0 s" == made.loss.text


def test_changed_transactions_are_lost_as_well_as_private_ones() -> None:
    made = plan(**DEAD, compared={"a": compared(Relation.DIVERGED, private=1, conflicting=2)})
    assert made.loss is not None
    assert 3 == made.loss.transactions


def test_when_its_data_can_t_be_read_a_loss_is_assumed_and_said_to_be_unknown() -> None:
    made = plan(**DEAD, compared={"a": "Data.fs: No such file"})
    assert "export-tail a" not in steps_of(made)
    assert {"restart-client one", "restart-client two"} <= set(steps_of(made))
    assert "start a" not in steps_of(made)
    assert made.loss is not None
    assert (None, False) == (made.loss.transactions, made.loss.exact)
    assert made.loss.text.startswith(
        "possibly some transactions: the data of a can't be read (Data.fs"
    )
    assert f"{TID:016x}" == made.loss.after
    moment = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(TID_TIME))
    assert f"an estimate; everything written until {moment} UTC is kept" in {
        finding.evidence for finding in made.findings
    }


def test_who_saw_something_newer_makes_the_estimate_better() -> None:
    newer = {
        "one": instance(
            "one", server="127.0.0.1:8121", read_only=True, last_tid=TID + 2 * ONE_SECOND
        )
    }
    made = plan(
        **{**DEAD, "indico": {**DEAD["indico"], **newer}}, compared={"a": "Data.fs: No such file"}
    )
    assert made.loss is not None
    assert made.loss.text.endswith(
        "Indico instance one saw one that is 2.0 s newer than the last of b"
    )


def test_the_watch_program_s_last_sight_counts_for_its_primary_only() -> None:
    seen = LastSeen(TID_TIME + 50, "a", TID + 5 * ONE_SECOND)
    text = {
        name: plan(
            **DEAD, compared={"a": "gone"}, last_seen=dataclasses.replace(seen, primary=name)
        ).loss
        for name in ("a", "b")
    }
    assert text["a"] is not None
    assert text["b"] is not None
    assert "the monitor process saw one that is 5.0 s newer" in text["a"].text
    assert "no observer saw a newer one" in text["b"].text


@pytest.mark.parametrize("witness", ["the new primary", "the monitor process"])
def test_a_data_file_that_ends_before_what_was_seen_proves_nothing(witness: str) -> None:
    """It was truncated, or begun on an empty disk: nobody knows what the primary had."""
    newer = TID + 5 * ONE_SECOND
    short = dataclasses.replace(compared(Relation.EQUAL), common=Common(f"{TID - 1:016x}", "d"))
    seen = LastSeen(TID_TIME + 50, "a", newer, epoch=1)
    made = (
        plan(**DEAD, compared={"a": short})
        if witness == "the new primary"
        else plan(**DEAD, compared={"a": compared(Relation.EQUAL)}, last_seen=seen)
    )
    assert made.loss is not None
    assert not made.loss.exact
    assert "the data of a are incomplete" in made.loss.text
    assert "start a" not in steps_of(made)


def test_what_was_seen_of_an_earlier_epoch_of_the_primary_counts_no_more() -> None:
    """An operator forced its start with an older file: the loss was accepted and recorded."""
    seen = LastSeen(TID_TIME + 50, "a", TID + 5 * ONE_SECOND, epoch=0)
    assert plan(**DEAD, compared={"a": compared(Relation.EQUAL)}, last_seen=seen).loss is None


def test_when_nobody_saw_anything_newer_it_is_reported_since_when_nobody_looked() -> None:
    made = plan(**DEAD, compared={"a": "gone"}, last_seen=LastSeen(TID_TIME + 50, "a", TID))
    assert made.loss is not None
    assert made.loss.text.endswith("but none looked in the last 10.0 s")


def test_a_lost_host_is_neither_assigned_nor_started() -> None:
    found = situation(PAIR, **DEAD, compared={"a": "No such file"})
    lost = dataclasses.replace(found, disks={"b": found.disks["b"]})
    made = plan_failover(PAIR, lost, None, "", COMMANDS(PAIR))
    assert isinstance(made, Plan)
    assert not {"assign a", "start a", "export-tail a"} & set(steps_of(made))
    assert "fence a" in steps_of(made)


def test_a_primary_that_is_lost_with_its_state_file_is_known_by_the_epoch_record() -> None:
    """a was lost before, b took over and is lost now: what is left of both is cluster.conf."""
    servers = {
        "a": REFUSED,
        "b": REFUSED,
        "c": server("b", node="c", upstream="127.0.0.1:8122", connected=False),
    }
    found = situation(
        STAR,
        servers=servers,
        comparisons={"b": None, "c": None},
        states={"c": NodeState("demo", "c", Role.SECONDARY, "b", 2)},
        programs={f"node-{name}": supervised(f"node-{name}", "STOPPED") for name in "ab"},
        records=(EpochWord("the control host", 2, "b", ""),),
        indico={"one": REFUSED, "two": REFUSED},
        processes={"a": Process.NONE, "b": Process.NONE},
        compared={"b": "No such file"},
    )
    made = plan_failover(
        STAR, dataclasses.replace(found, disks={"c": found.disks["c"]}), None, "", COMMANDS(STAR)
    )
    assert isinstance(made, Plan), made
    assert ("b", "c", 3) == (made.source, made.target, made.epoch)
    assert ["fence b", "promote c", "verify c"] == steps_of(made)


def test_the_newest_follower_takes_over_automatically() -> None:
    changes = star_dead(servers={"c": server("b", TID + ONE_SECOND, node="c", **CUT_OFF)})
    assert "c" == plan(STAR, **changes, compared={"a": EQUAL}).target


def test_a_marked_one_does_not_however_new() -> None:
    changes = star_dead(servers={"c": server("b", TID + ONE_SECOND, node="c", **CUT_OFF)})
    made = plan(STAR, **changes, conditions={"c": "diverged"}, compared={"a": EQUAL})
    assert "b" == made.target


def test_an_older_one_that_is_named_loses_what_the_newer_has_and_fences_it() -> None:
    changes = star_dead(servers={"c": server("b", TID + ONE_SECOND, node="c", **CUT_OFF)})
    made = plan(
        STAR, "b", **changes, compared={"a": TAIL, "c": compared(Relation.AHEAD, private=2)}
    )
    assert [
        "fence a",
        "fence c",
        "export-tail c",
        "export-tail a",
        "promote b",
        "see-writable one",
        "see-writable two",
        "assign c",
        "assign a",
        "restart-client one",
        "restart-client two",
        "verify b",
    ] == steps_of(made)
    warning = next(each for each in made.findings if each.subject == "c")
    assert warning.text.startswith("is ahead of b: 2 transactions that only c has and b lacks")
    assert ("choosing c would keep it", Verdict.WARNING) == (warning.evidence, warning.verdict)


def test_a_follower_that_is_behind_is_repointed() -> None:
    made = plan(STAR, "b", **star_dead(), compared={"a": EQUAL})
    assert [
        "follow c",
        "assign a",
        "start a",
        "see-following c",
        "see-following a",
        "verify b",
    ] == steps_of(made)[-6:]


@pytest.mark.parametrize(
    ("target", "changes", "expected"),
    [
        ("b", {"servers": {**DEAD["servers"], "b": REFUSED}}, "failover to b refused"),
        ("b", {"conditions": {"b": "quarantined"}}, "failover to b refused"),
        (None, {"servers": {**DEAD["servers"], "b": REFUSED}}, "no node can take over"),
        (None, {"conditions": {"b": "needs-seeding"}}, "no node can take over"),
        ("a", {}, "node a can't replace itself"),
        ("b", {"free": {"b": 1024}}, "failover to b refused"),
    ],
)
def test_nobody_takes_over_who_can_t(
    target: str | None, changes: dict[str, Any], expected: str
) -> None:
    assert refusal(target=target, **{**DEAD, **changes}).notice.startswith(expected)


def test_one_may_wait_for_a_node_that_does_not_answer_yet() -> None:
    away = refusal(target="b", **{**DEAD, "servers": {**DEAD["servers"], "b": REFUSED}})
    assert away.hint.startswith("wait until it answers, choose another node, or")
    full = refusal(target="b", **{**DEAD, "free": {"b": 1024}})
    assert full.hint.startswith("choose another node or repair")


def test_an_empty_node_does_not_take_over_while_another_one_has_data() -> None:
    empty = server("b", 0, node="c", connected=False)
    refused = refusal(STAR, "c", **star_dead(servers={"c": empty}))
    assert any("holds no transaction" in each.text for each in refused.findings)


@pytest.mark.parametrize("target", [None, "b"])
@pytest.mark.parametrize("process", [Process.NONE, Process.UNKNOWN])
def test_a_failover_of_a_cluster_that_is_down_as_a_whole_hints_at_up(
    target: str | None, process: Process
) -> None:
    """An SQL backend's processes are unknown while supervisor is away."""
    found = refusal(target=target, **ALL_STOPPED, processes={"a": process, "b": process})
    assert "bin/zodbrepl up" in found.hint
    assert "fence" not in found.hint
    frozen = refusal(target=target, **ALL_STOPPED, processes={"a": Process.FROZEN})
    assert "the whole cluster is down" not in frozen.notice


def test_the_primary_is_fenced_even_when_it_looks_dead_and_before_all_else() -> None:
    for changes in (DEAD, FROZEN):
        made = plan(**changes, compared={"a": EQUAL})
        assert ("fence a", False) == (steps_of(made)[0], made.steps[0].after_no_return)


def test_a_synchronous_postgresql_without_another_follower_is_said_to_save_nothing() -> None:
    settings = Synchronous(1)
    waits = "blocks all commits until another node follows it: rejoin a next"
    for synchronous, cluster, expected in (
        (settings, PAIR, True),
        (Synchronous(), PAIR, False),
        (settings, STAR, False),
    ):
        changes = star_dead() if cluster is STAR else DEAD
        told = dataclasses.replace(
            cluster, synchronous=synchronous, backend="relstorage-postgresql"
        )
        found = plan(told, **changes)
        assert expected == (waits in {finding.text for finding in found.findings})


def test_a_primary_that_has_to_have_followers_and_keeps_too_few_is_said_to_refuse_writes() -> None:
    refuses = "will soon block commits until another node follows it: rejoin a next"
    tail = {"compared": {"a": TAIL}}
    for least, cluster, changes, expected in (
        (1, PAIR, {**DEAD, **tail}, True),
        (1, PAIR, DEAD, False),
        (0, PAIR, DEAD, False),
        (1, STAR, star_dead(compared={"a": TAIL, "c": EQUAL}), False),
    ):
        found = plan(dataclasses.replace(cluster, min_followers=least), **changes)
        assert expected == (refuses in {finding.text for finding in found.findings})


def test_an_engines_old_primary_is_looked_at_when_the_others_work_again() -> None:
    """Its data can be read by a server of its own alone, which would have writers wait."""
    of_engine = dataclasses.replace(
        PAIR, backend="relstorage-postgresql", settings=PostgreSQLSettings()
    )
    made = plan(of_engine, **DEAD, compared={"a": "its server does not run"})
    assert ["failover-keep-tail a", "verify b"] == steps_of(made)[-2:]
    keep = made.steps[-2]
    assert (True, True) == (keep.after_no_return, keep.may_fail)
    assert str(keep.arguments["folder"]).startswith(str(PAIR.var_directory / "lost-tails" / "a-2-"))
    found = situation(of_engine, **DEAD, compared={"a": "no such folder"})
    gone = plan_failover(
        of_engine,
        dataclasses.replace(found, disks={"b": found.disks["b"]}),
        None,
        "the disk of a died",
        COMMANDS(of_engine),
    )
    assert isinstance(gone, Plan)
    assert "failover-keep-tail a" not in steps_of(gone)


@pytest.mark.parametrize(("node", "verdict"), [("b", Verdict.AGAINST), ("c", Verdict.WARNING)])
def test_only_the_disk_of_the_new_primary_hinders_a_failover(node: str, verdict: Verdict) -> None:
    found = plan_failover(
        STAR,
        situation(STAR, unwritable={node: "No space left on device"}, **star_dead()),
        "b",
        "a reason",
        COMMANDS(STAR),
    )
    assert (node, "its state can't be written", verdict) in [
        (each.subject, each.text, each.verdict) for each in found.findings
    ]
    assert isinstance(found, Refusal) == (node == "b")


def test_a_new_primary_whose_clock_is_behind_is_promoted_with_a_warning() -> None:
    made = plan(**DEAD, taken_at=TID_TIME - 3600)
    told = [each for each in made.findings if "clock" in each.text]
    assert [(Verdict.WARNING, "b")] == [(each.verdict, each.subject) for each in told]
    assert "the clock is 3600 s behind its last transaction" == told[0].text
