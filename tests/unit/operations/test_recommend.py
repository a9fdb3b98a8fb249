"""What is offered in each situation, what is not and why, and which step is the next safe one."""

from __future__ import annotations

import dataclasses
import re
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "monitor"))

import engines
import situations
from planning import cluster_of, situation
from situations import PRIMARY_KILLED, SECONDARY_KILLED, UNKNOWN, cluster, program, server, snapshot

from indico_zodbrepl.cluster.model import Cluster, Role
from indico_zodbrepl.cluster.settings import MariaDBSettings
from indico_zodbrepl.host.disks import Disk
from indico_zodbrepl.host.history import Condition
from indico_zodbrepl.monitor.host_status import Automation, Candidate, Pause
from indico_zodbrepl.monitor.snapshot import OpenOperation, Snapshot
from indico_zodbrepl.operations import operation
from indico_zodbrepl.operations.model import Loss, Plan
from indico_zodbrepl.operations.offers import Offer, offers
from indico_zodbrepl.operations.operation import Operation, Progress, StepRecord
from indico_zodbrepl.operations.planning import OPERATIONS
from indico_zodbrepl.operations.recommend import procedures
from indico_zodbrepl.operations.refusals import Refusals
from indico_zodbrepl.operations.switchover_steps import PauseWrites
from indico_zodbrepl.probing.answers import ServerRole

ENDINGS = {"resume", "undo", "abandon"}
DIVERGED: dict[str, Any] = {"lineages": {"b": (Condition.DIVERGED, "3 only on node b")}}
ALONE = {"nodes": (situations.cluster().nodes[0],)}

SITUATIONS: dict[str, tuple[Cluster, Snapshot]] = {
    **{name: (found.cluster, found.snapshot) for name, found in engines.SITUATIONS.items()},
    **{
        name: (cluster(), snapshot(**changes))
        for name, changes in {
            "zrs": {},
            "zrs secondary killed": SECONDARY_KILLED,
            "zrs primary killed": PRIMARY_KILLED,
            "zrs stopped": situations.ALL_STOPPED,
            "zrs unknown": UNKNOWN,
            "zrs diverged": DIVERGED,
        }.items()
    },
    **{
        backend: (cluster(backend=backend, **ALONE), engines.SQLITE.snapshot)
        for backend in ("filestorage", "zeo", "relstorage-oracle")
    },
    "mariadb": (
        dataclasses.replace(
            engines.POSTGRESQL.cluster, backend="relstorage-mariadb", settings=MariaDBSettings()
        ),
        engines.POSTGRESQL.snapshot,
    ),
}


def of(
    in_cluster: Cluster,
    seen: Snapshot,
    open_operation: Operation | None = None,
    *,
    at_work: bool = False,
) -> dict[tuple[str, str], Offer]:
    return {
        (each.operation, each.target): each
        for each in offers(in_cluster, seen, open_operation, at_work)
    }


def possible(found: dict[tuple[str, str], Offer]) -> set[tuple[str, str]]:
    return {key for key, offer in found.items() if not offer.why_not}


def urgent(found: dict[tuple[str, str], Offer]) -> list[tuple[str, str]]:
    return [key for key, offer in found.items() if offer.urgent]


def begun(*progress: Progress) -> Operation:
    """A switchover of three steps, the second of which is the point of no return."""
    steps = tuple(
        PauseWrites("a", {}, title=f"do {number}", seconds=1.0, after_no_return=number > 0)
        for number in range(3)
    )
    plan = Plan("switchover", "b", "a", "", 2, steps, None, ())
    return dataclasses.replace(
        operation.new("demo", plan, "alice", 0.0),
        records=tuple(StepRecord(each) for each in progress),
    )


@pytest.mark.parametrize("name", SITUATIONS)
def test_every_situation_has_each_operation_and_reasons_in_whole_sentences(name: str) -> None:
    found = offers(*SITUATIONS[name], None, False)
    assert set(OPERATIONS) == {each.operation for each in found}
    assert len(found) == len({(each.operation, each.target) for each in found})
    assert sum(each.urgent for each in found) <= 1
    for each in found:
        assert re.fullmatch(r"|[A-Z`].*[.!?]", each.why_not), each
        assert not (each.urgent and each.why_not), each
        assert re.fullmatch(r"[A-Z][^.]+", each.title), each
        assert re.fullmatch(r"[a-z].+[^.]", each.purpose), each


def test_a_healthy_pair_can_switch_over_be_packed_and_restarted() -> None:
    assert {
        ("switchover", "b"),
        ("clone", "b"),
        ("pack", ""),
        ("restart", "a"),
        ("restart", "b"),
        ("restart", "one"),
        ("restart", "two"),
    } == possible(of(cluster(), snapshot()))


def test_nothing_is_urgent_while_all_is_well() -> None:
    assert [] == urgent(of(cluster(), snapshot()))


def test_a_failover_is_not_for_a_primary_that_serves() -> None:
    assert "Primary a serves" in of(cluster(), snapshot())["failover", "b"].why_not


def test_a_primary_that_was_stopped_is_started_first_as_that_loses_nothing() -> None:
    found = of(cluster(), snapshot(**PRIMARY_KILLED))
    assert [("restart", "a")] == urgent(found)
    assert ("failover", "b") in possible(found)
    assert "There is no single running primary" in found["switchover", "b"].why_not


@pytest.mark.parametrize("word", ["FATAL", "BACKOFF", "EXITED"])
def test_a_failover_is_next_once_supervisor_has_given_the_primary_up(word: str) -> None:
    changes = {**PRIMARY_KILLED, "programs": {"node-a": program("node-a", word)}}
    assert [("failover", "b")] == urgent(of(cluster(), snapshot(**changes)))


def test_a_failover_is_next_when_the_host_of_the_primary_is_away() -> None:
    changes = {**PRIMARY_KILLED, "programs": {}, "supervisor_problem": "no answer in time"}
    assert [("failover", "b")] == urgent(of(cluster(), snapshot(**changes)))


def test_room_comes_first_when_a_full_disk_has_ended_the_primary() -> None:
    found = snapshot(**PRIMARY_KILLED, disks={"a": Disk(0, 700 << 20, 1)})
    titles = [each.title for each in procedures(cluster(), found, situations.HOME)]
    assert ["Make room for primary a", "Bring primary a back"] == titles[:2]
    assert 1 == len([each for each in titles if each.startswith("Make room")])


AUTOMATION = Automation(3.0, leader="a", candidates=(Candidate("b", "", ""),))


@pytest.mark.parametrize(
    ("changes", "first"),
    [
        ({}, "Wait for the automation"),
        ({"paused": Pause("anne", "work", "")}, "Fail over to node b"),
        ({"problem": "etcd does not answer"}, "Fail over to node b"),
        ({"candidates": (Candidate("b", "its server does not run", ""),)}, "Fail over to node b"),
        ({"candidates": (Candidate("b", "", "", "it was cloned"),)}, "Fail over to node b"),
    ],
)
def test_nobody_fails_over_by_hand_what_the_automation_will(
    changes: dict[str, Any], first: str
) -> None:
    found = snapshot(
        **{**PRIMARY_KILLED, "programs": {"node-a": program("node-a", "FATAL")}},
        automation=dataclasses.replace(AUTOMATION, **changes),
    )
    steps = procedures(cluster(), found, Path("/srv"))
    assert first == steps[0].title
    assert "Fail over to node b" in [each.title for each in steps]
    waits = first != "Fail over to node b"
    assert urgent(of(cluster(), found)) == ([] if waits else [("failover", "b")])
    if waits:
        text = " ".join(step.text for step in steps[0].steps)
        assert "Node b takes over automatically when the lease of 3 s has ended" in text
        assert "If nothing can be saved after 30 s" in text
        slow = procedures(dataclasses.replace(cluster(), lease=60.0), found, Path("/srv"))[0]
        assert "If nothing can be saved after 87 s" in slow.steps[1].text


def test_a_secondary_that_was_stopped_is_started() -> None:
    found = of(cluster(), snapshot(**SECONDARY_KILLED))
    assert [("restart", "b")] == urgent(found)
    assert "does not answer" in found["switchover", "b"].why_not
    assert "pack refused: not every node is healthy" in found["pack", ""].why_not.lower()


def test_a_node_that_diverged_has_to_rejoin_before_anything_else() -> None:
    found = of(cluster(), snapshot(**DIVERGED))
    assert [("rejoin", "b")] == urgent(found)
    for key in (("switchover", "b"), ("restart", "b"), ("clone", "b")):
        assert "rejoin" in found[key].why_not


def test_a_node_whose_host_is_away_rejoins_only_once_the_host_is_back() -> None:
    found = snapshot(**DIVERGED)
    away: Any = SimpleNamespace(name="h2", up=False, here=False)
    nodes = tuple(
        dataclasses.replace(node, host="h2") if node.name == "b" else node for node in found.nodes
    )
    refusals = Refusals(cluster(), dataclasses.replace(found, nodes=nodes, hosts=(away,)))
    (node,) = (each for each in nodes if each.name == "b")
    assert "Host h2 of node b does not answer. Bring it back first" in refusals.of("rejoin", node)


def test_a_node_that_needs_a_clone_is_cloned() -> None:
    needs: dict[str, Any] = {"lineages": {"b": (Condition.NEEDS_SEEDING, "a pack hides it")}}
    found = of(cluster(), snapshot(**needs))
    assert [("clone", "b")] == urgent(found)
    assert "a clone gives it a copy" in found["rejoin", "b"].why_not


def test_one_of_two_that_take_writes_is_not_restarted() -> None:
    rivals = snapshot(
        servers={"b": server("b", role=ServerRole.PRIMARY, read_only=False, upstream=None)}
    )
    found = of(cluster(), rivals)
    assert "Split brain" in found["restart", "a"].why_not


def test_each_follower_of_a_chain_is_offered_separately() -> None:
    chain = cluster_of(c=("b", Role.SECONDARY))
    found = of(chain, situation(chain).snapshot)
    assert {("switchover", "b"), ("switchover", "c")} <= possible(found)


def test_the_limits_of_a_backend_are_reported_once_and_with_what_to_do_instead() -> None:
    found = of(engines.SQLITE.cluster, engines.SQLITE.snapshot)
    assert "one copy of the data" in found["failover", ""].why_not
    assert "has no server" in found["restart", "a"].why_not
    assert ("restart", "one") in possible(found)


def test_servers_of_somebody_else_are_restarted_where_they_run() -> None:
    found = of(engines.FOREIGN.cluster, engines.FOREIGN.snapshot)
    assert "is not managed here" in found["restart", "a"].why_not
    assert "is not managed here" in found["switchover", ""].why_not


def test_a_storage_of_neo_that_ended_rejoins() -> None:
    killed = engines.NEO_STORAGE_KILLED
    found = of(killed.cluster, killed.snapshot)
    assert [("rejoin", "s2")] == urgent(found)
    assert "no process that could hang" in found["failover", "s2"].why_not
    assert "takes part already" in found["rejoin", "s1"].why_not
    assert "answers: it does not hang" in found["failover", "m1"].why_not


def test_a_master_of_neo_that_ended_is_started_and_one_that_hangs_is_failed_over() -> None:
    gone = engines.NEO_MASTERS_KILLED
    assert [("restart", "m1")] == urgent(of(gone.cluster, gone.snapshot))
    hangs = engines.NEO.but(servers={"m1": situations.SILENT})
    hangs = hangs.but(
        servers={"m2": situations.SILENT}, indico=engines.instances(None, connected=False)
    )
    assert [("failover", "m1")] == urgent(of(hangs.cluster, hangs.snapshot))


def test_an_indico_instance_that_is_down_is_restarted() -> None:
    found = of(cluster(), snapshot(indico={"two": situations.REFUSED}))
    assert [("restart", "two")] == urgent(found)


def test_without_supervisor_nothing_is_restarted() -> None:
    found = of(cluster(), snapshot(programs={}, supervisor_problem="no socket"))
    assert "Supervisord does not answer" in found["restart", "a"].why_not
    assert "Supervisord does not answer" in found["restart", "one"].why_not


def test_a_cluster_of_which_nothing_runs_is_started_as_a_whole() -> None:
    assert [] == urgent(of(cluster(), snapshot(**situations.ALL_STOPPED)))


def test_a_failover_may_lose_data_and_what_comes_without_a_loss_may_not() -> None:
    found = of(cluster(), snapshot(**PRIMARY_KILLED)).values()
    assert {"failover"} == {each.operation for each in found if each.may_lose}


def test_a_failover_of_an_engine_that_elects_its_leader_loses_nothing() -> None:
    hangs = engines.NEO
    found = of(hangs.cluster, hangs.snapshot).values()
    assert {"failover"} <= {each.operation for each in found}
    assert not any(each.may_lose for each in found)


@pytest.mark.parametrize(
    ("operation", "lost", "may_lose"),
    [
        ("failover", Loss("a", 76, 1.0, True, None, "76 transactions"), True),
        ("failover", Loss("a", None, None, False, None, "unknown"), True),
        ("failover", Loss("a", 0, 0.0, True, None, "none"), False),
        ("failover", None, False),
        ("rejoin", Loss("a", 76, 1.0, True, None, "76, exported before"), False),
    ],
)
def test_to_resume_an_operation_may_lose_what_its_plan_says(
    operation: str, lost: Loss | None, *, may_lose: bool
) -> None:
    open_one = begun(Progress.DONE, Progress.PENDING, Progress.PENDING)
    plan = dataclasses.replace(open_one.plan, operation=operation, loss=lost)
    found = of(cluster(), snapshot(), dataclasses.replace(open_one, plan=plan))
    assert may_lose == found["resume", ""].may_lose


def test_nothing_is_offered_while_nothing_is_known() -> None:
    found = of(cluster(), snapshot(**UNKNOWN))
    assert set() == possible(found)
    assert "Nothing answers" in found["pack", ""].why_not


def test_an_open_operation_is_ended_first() -> None:
    found = of(cluster(), snapshot(), begun(Progress.DONE, Progress.PENDING, Progress.PENDING))
    assert {("resume", ""), ("undo", ""), ("abandon", "")} == possible(found)
    assert [("resume", "")] == urgent(found)
    assert "switchover to b was interrupted" in found["pack", ""].why_not
    assert "Resume the switchover to b" == found["resume", ""].title


def test_past_its_point_of_no_return_it_is_not_undone() -> None:
    found = of(cluster(), snapshot(), begun(Progress.DONE, Progress.DONE, Progress.FAILED))
    assert "step 2, do 1" in found["undo", ""].why_not


def test_a_point_of_no_return_that_was_only_begun_may_be_undone() -> None:
    found = of(cluster(), snapshot(), begun(Progress.DONE, Progress.FAILED, Progress.PENDING))
    assert "" == found["undo", ""].why_not


def test_while_an_operation_is_at_work_nothing_else_can_be_done() -> None:
    found = of(cluster(), snapshot(), begun(*[Progress.BEGUN] * 3), at_work=True)
    assert set() == possible(found)
    assert [] == urgent(found)
    assert ENDINGS < {name for name, _target in found}
    assert "is running, started by alice" in found["restart", "a"].why_not


def test_an_operation_whose_file_is_damaged_is_put_away() -> None:
    damaged = dataclasses.replace(
        snapshot(),
        operations=(
            OpenOperation("x1", "operation", "x1", "", 0.0, "stopped", at_work=False, damaged=True),
        ),
    )
    found = of(cluster(), damaged)
    assert {("abandon", "")} == possible(found)
    assert [("abandon", "")] == urgent(found)


def test_a_stopped_node_is_started_and_a_running_one_restarted() -> None:
    found = of(cluster(), snapshot(**SECONDARY_KILLED))
    assert ("Restart node a", "Start node b") == (
        found["restart", "a"].title,
        found["restart", "b"].title,
    )
    assert "shuts its server down" not in found["restart", "b"].purpose
