"""Restarts of nodes and Indico instances: who waits, when it is refused, in which steps."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "monitor"))

import engines
import situations
from planning import COMMANDS, cluster_of, situation, steps_of
from situations import PRIMARY_KILLED, cluster, replication, server, snapshot

from indico_zodbrepl import __version__
from indico_zodbrepl.backends.consensus import ANSWERS, RUNNING, SILENT, UP_TO_DATE, Look, Member
from indico_zodbrepl.cluster.model import Cluster, Role
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.monitor.snapshot import Snapshot
from indico_zodbrepl.operations.consensus_facts import ElectingFacts, NodeFacts
from indico_zodbrepl.operations.evidence import Process
from indico_zodbrepl.operations.model import Plan, Refusal, Verdict
from indico_zodbrepl.operations.restart import plan_restart
from indico_zodbrepl.operations.restart_facts import RestartFacts
from indico_zodbrepl.probing.answers import ServerRole


def made(
    name: str, seen: Snapshot | None = None, in_cluster: Cluster | None = None, **more: Any
) -> Plan | Refusal:
    used = in_cluster or cluster()
    facts = RestartFacts(
        name,
        is_node=name in {node.name for node in used.nodes},
        snapshot=seen or snapshot(),
        **more,
    )
    return plan_restart(used, facts, "a reason", COMMANDS(used))


def planned(
    name: str, seen: Snapshot | None = None, in_cluster: Cluster | None = None, **more: Any
) -> Plan:
    found = made(name, seen, in_cluster, **more)
    assert isinstance(found, Plan), found
    return found


def refused(
    name: str, seen: Snapshot | None = None, in_cluster: Cluster | None = None, **more: Any
) -> list[str]:
    found = made(name, seen, in_cluster, **more)
    assert isinstance(found, Refusal), found
    return [each.text for each in found.findings if each.verdict is Verdict.AGAINST]


def warnings(plan: Plan) -> list[str]:
    return [each.text for each in plan.findings if each.verdict is Verdict.WARNING]


def test_a_primary_ends_starts_and_everybody_is_seen_to_be_back() -> None:
    plan = planned("a")
    assert [
        "end a",
        "start a",
        "see-node a",
        "see-node b",
        "see-instance one",
        "see-instance two",
    ] == steps_of(plan)
    assert ("restart", "a", "", "a reason", 1, None) == (
        plan.operation,
        plan.target,
        plan.source,
        plan.reason,
        plan.epoch,
        plan.loss,
    )
    assert 1 == plan.no_return()
    assert "start a again" == plan.steps[0].undoes


def test_who_cannot_save_meanwhile_and_where_pages_come_from_is_reported() -> None:
    plan = planned("a")
    assert "no user can write until it is back" in warnings(plan)[0]
    assert "a switchover first interrupts less" in warnings(plan)
    assert "pages are read from b meanwhile" in [each.text for each in plan.findings]


def test_without_a_follower_no_page_is_shown_meanwhile() -> None:
    alone = cluster(backend="zeo", nodes=(cluster().nodes[0],))
    seen = snapshot(
        alone, servers={"a": server("a", role=ServerRole.STANDALONE, followers=())}, comparisons={}
    )
    plan = planned("a", seen, alone)
    assert any("no page is shown meanwhile" in each for each in warnings(plan))
    assert not any("switchover" in each for each in warnings(plan))


def test_after_the_start_nothing_stops_a_failover_from_being_begun() -> None:
    assert {True} == {step.may_fail for step in planned("a").steps[1:]}


def test_an_instance_of_another_release_is_restarted_as_a_whole_and_that_is_said() -> None:
    title = "Replace the worker of Indico instance one by a new one"
    assert title == planned("one", release=__version__).steps[0].title
    old = planned("one", release="0.1.0")
    assert "Restart Indico instance one" == old.steps[0].title
    assert ["shows no page until it has started again"] == warnings(old)


def test_a_secondary_is_linked_again_and_indico_does_not_wait_for_it() -> None:
    plan = planned("b")
    assert ["end b", "start b", "see-node b"] == steps_of(plan)
    assert "a" == plan.steps[2].arguments["upstream"]
    assert [] == warnings(plan)


def test_a_relay_is_seen_with_its_followers() -> None:
    chain = cluster_of(c=("b", Role.SECONDARY))
    plan = planned("b", situation(chain).snapshot, chain)
    assert ["end b", "start b", "see-node b", "see-node c"] == steps_of(plan)
    assert "b" == plan.steps[3].arguments["upstream"]
    assert "gets nothing new until b is back" in [each.text for each in plan.findings]


def test_a_node_that_does_not_run_is_started() -> None:
    plan = planned("a", snapshot(**PRIMARY_KILLED))
    assert ["start a", "see-node a"] == steps_of(plan)[:2]
    assert 0 == plan.no_return()


def test_a_node_whose_server_hangs_is_killed_and_that_is_reported() -> None:
    hangs = snapshot(servers={"b": situations.SILENT}, comparisons={"b": None})
    assert ["does not answer: if it hangs it is killed"] == warnings(planned("b", hangs))


def test_writes_stop_when_the_last_follower_that_they_need_is_away() -> None:
    needing = snapshot(servers={"a": server("a", min_followers=1)})
    assert "takes no writes while b is away" in warnings(planned("b", needing))


def test_what_would_not_start_again_is_not_ended() -> None:
    error = OperatorError(
        "node b refuses to follow node a",
        "3 transactions only on node b",
        "bin/zodbrepl rejoin b",
        ExitCode.REFUSED,
    )
    found = made("b", refusal=error)
    assert isinstance(found, Refusal)
    assert "bin/zodbrepl rejoin b" == found.hint
    assert ["would not start again: node b refuses to follow node a"] == refused("b", refusal=error)


def test_one_of_two_primaries_is_not_restarted() -> None:
    rivals = snapshot(
        servers={
            "b": dataclasses.replace(
                server("b"),
                replication=replication(
                    "b", role=ServerRole.PRIMARY, read_only=False, upstream=None
                ),
            )
        }
    )
    assert ["takes writes as a does"] == refused("a", rivals)


@pytest.mark.parametrize("name", ["a", "one"])
def test_nothing_is_ended_without_supervisor(name: str) -> None:
    assert ["supervisord does not answer, so no program can be stopped or started"] == refused(
        name, snapshot(programs={}, supervisor_problem="no socket")
    )


def test_an_instance_that_works_hands_over_to_a_new_worker() -> None:
    plan = planned("one")
    assert ["restart-instance one", "see-instance one"] == steps_of(plan)
    assert [] == warnings(plan)
    assert "Replace the worker of" in plan.steps[0].title
    assert plan.steps[1].arguments["writable"] is True


def test_where_one_process_alone_has_the_database_the_instance_shows_no_page_meanwhile() -> None:
    alone = cluster(backend="filestorage", nodes=(cluster().nodes[0],))
    plan = planned("one", in_cluster=alone)
    assert ["shows no page until it has started again"] == warnings(plan)
    assert plan.steps[0].title.startswith("Restart Indico instance ")


def test_an_instance_that_does_not_answer_is_restarted_as_a_whole() -> None:
    plan = planned("two", snapshot(indico={"two": situations.REFUSED}))
    assert plan.steps[0].title.startswith("Restart Indico instance ")
    assert "does not answer, so no user is interrupted" == plan.findings[0].text


NAMES = {
    "m1": Role.MASTER,
    "m2": Role.MASTER,
    "s1": Role.STORAGE,
    "s2": Role.STORAGE,
    "adm": Role.ADMIN,
}


def neo(
    holders: tuple[frozenset[str], ...],
    *,
    wanted: int = 2,
    other: str = ANSWERS,
    away: bool = False,
) -> ElectingFacts:
    members = tuple(
        Member(
            name,
            role,
            RUNNING,
            other if name == "m2" else ANSWERS,
            leads=name == "m1",
            cells={UP_TO_DATE: 12} if role is Role.STORAGE else {},
        )
        for name, role in NAMES.items()
    )
    look = Look(0.0, RUNNING, True, wanted, min(map(len, holders)), members, holders)
    return ElectingFacts(
        None if away else look,
        "it is silent" if away else "",
        tuple(NodeFacts(name, role, "RUNNING", Process.RUNS) for name, role in NAMES.items()),
        ("one",),
    )


BOTH = (frozenset({"s1", "s2"}),) * 12
ONE = (frozenset({"s2"}),) * 12


def of_neo(name: str, facts: ElectingFacts) -> Plan | Refusal:
    return made(name, engines.NEO.snapshot, engines.NEO.cluster, electing=facts)


def test_a_storage_whose_copies_others_have_is_restarted() -> None:
    found = of_neo("s1", neo(BOTH))
    assert isinstance(found, Plan)
    assert ["end s1", "start s1", "electing-whole s1"] == steps_of(found)
    assert found.steps[2].may_fail
    assert [] == warnings(found)


def test_a_storage_that_alone_is_up_to_date_is_not_restarted() -> None:
    found = of_neo("s2", neo(ONE))
    assert isinstance(found, Refusal)
    assert "12 of 12 partitions; bring the others back first" == next(
        each.evidence for each in found.findings if each.verdict is Verdict.AGAINST
    )


def test_a_storage_of_a_cluster_with_one_copy_is_restarted_with_a_warning() -> None:
    found = of_neo("s2", neo(ONE, wanted=1))
    assert isinstance(found, Plan)
    assert ["nothing can be read or written until it is back"] == warnings(found)


@pytest.mark.parametrize(
    ("other", "expected"),
    [(ANSWERS, []), (SILENT, ["nothing can be read or written until it is back"])],
)
def test_a_master_is_restarted_while_another_one_leads(other: str, expected: list[str]) -> None:
    found = of_neo("m1", neo(BOTH, other=other))
    assert isinstance(found, Plan)
    assert expected == warnings(found)


def test_a_master_without_which_there_is_no_majority_is_restarted_with_a_warning() -> None:
    facts = neo(BOTH, other=ANSWERS)
    assert facts.look is not None
    several = dataclasses.replace(facts, look=dataclasses.replace(facts.look, majority=2))
    found = of_neo("m1", several)
    assert isinstance(found, Plan)
    assert ["nothing can be read or written until it is back"] == warnings(found)


def test_a_storage_is_not_restarted_when_nobody_knows_whether_it_is_needed() -> None:
    assert isinstance(of_neo("s1", neo(BOTH, away=True)), Refusal)
    assert isinstance(of_neo("adm", neo(BOTH, away=True)), Plan)
