"""The steps for each situation: the right ones, in the right order, with commands that parse."""

import dataclasses
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "monitor"))

import situations
from situations import (
    ALL_STOPPED,
    HEALTHY,
    HOME,
    ONE_SECOND,
    PRIMARY_KILLED,
    REFUSED,
    SECONDARY_KILLED,
    SILENT,
    TID,
    cluster,
    program,
    server,
    snapshot,
)

from indico_zodbrepl.cluster.model import Cluster, Node, NodeState, Role
from indico_zodbrepl.host.history import Condition
from indico_zodbrepl.monitor.node_status import StartRefusal
from indico_zodbrepl.monitor.promotion import best_candidate, states_after
from indico_zodbrepl.monitor.snapshot import OpenOperation
from indico_zodbrepl.operations.procedures import Procedure
from indico_zodbrepl.operations.recommend import procedures as advise
from indico_zodbrepl.probing.answers import Hold, ServerAnswer


def procedures(in_cluster: Cluster | None = None, **changes: Any) -> tuple[Procedure, ...]:
    in_cluster = in_cluster or cluster()
    return advise(in_cluster, snapshot(in_cluster, **changes), HOME)


def commands(procedure: Procedure) -> list[str]:
    return [command for step in procedure.steps for command in step.commands]


def test_a_healthy_cluster_needs_nothing() -> None:
    assert () == procedures(**HEALTHY)


def test_a_stopped_secondary_is_started() -> None:
    (only,) = procedures(**SECONDARY_KILLED)
    assert "Bring secondary b back" == only.title
    assert "bin/zodbrepl restart b" in commands(only)


def test_a_frozen_secondary_is_restarted() -> None:
    (only,) = procedures(servers={"b": SILENT}, comparisons={"b": None})
    assert "bin/zodbrepl restart b" in commands(only)


def test_a_lost_primary_is_brought_back_first_and_replaced_only_then() -> None:
    titles = [procedure.title for procedure in procedures(**PRIMARY_KILLED)]
    assert [
        "Bring primary a back",
        "Only if node a does not come back: fail over to node b",
    ] == titles


def test_a_failover_is_looked_at_before_it_is_done_and_ends_with_a_rejoin() -> None:
    assert [
        "bin/zodbrepl failover b --dry-run",
        "bin/zodbrepl failover b --reason 'primary a is gone'",
        "bin/zodbrepl status",
        "bin/zodbrepl rejoin a --dry-run",
        "bin/zodbrepl rejoin a",
    ] == commands(procedures(**PRIMARY_KILLED)[1])


def test_a_failover_says_what_the_candidate_holds() -> None:
    assert "0x040d243a1e64b6aa" in procedures(**PRIMARY_KILLED)[1].steps[0].text


@pytest.mark.parametrize(
    "changes",
    [{"servers": {"a": REFUSED, "b": SILENT}}, {"lineages": {"b": (Condition.DIVERGED, "")}}],
)
def test_nobody_is_told_to_fail_over_to_a_node_that_can_not_take_over(
    changes: dict[str, Any],
) -> None:
    found = procedures(**{**PRIMARY_KILLED, **changes})
    assert not any("fail over" in procedure.title for procedure in found)


def test_a_primary_short_of_followers_is_neither_restarted_nor_replaced() -> None:
    found = procedures(
        servers={
            "a": server("a", held=Hold.FOLLOWERS, min_followers=1, followers=()),
            "b": REFUSED,
        },
        comparisons={"b": None},
    )
    assert ["Bring secondary b back"] == [
        procedure.title for procedure in found if "Indico" not in procedure.title
    ]


def test_a_primary_that_refused_to_start_is_not_started_again() -> None:
    refusal = StartRefusal("node a refuses to start", "epoch 2 is known", "rejoin it")
    found = procedures(**PRIMARY_KILLED, refusals={"a": refusal})
    assert not any("start node-a" in command for each in found for command in commands(each))


def test_a_node_that_runs_read_only_though_assigned_as_primary_is_brought_back() -> None:
    found = procedures(servers={"a": server("a", read_only=True)})
    assert ["Bring primary a back"] == [procedure.title for procedure in found]


@pytest.mark.parametrize(
    ("condition", "title", "command"),
    [
        (Condition.DIVERGED, "Rejoin node b", "rejoin"),
        (Condition.QUARANTINED, "Rejoin node b", "rejoin"),
        (Condition.NEEDS_SEEDING, "Clone the database to node b", "clone"),
    ],
)
def test_a_node_out_of_line_is_brought_back_by_a_command(
    condition: Condition, title: str, command: str
) -> None:
    (only,) = procedures(
        lineages={"b": (condition, "")}, servers={"b": REFUSED}, comparisons={"b": None}
    )
    assert title == only.title
    assert [
        f"bin/zodbrepl {command} b --dry-run",
        f"bin/zodbrepl {command} b",
        "bin/zodbrepl status",
    ] == commands(only)


def test_the_damaged_file_of_an_operation_is_put_away() -> None:
    operation = OpenOperation(
        "2026-failover",
        "operation",
        "2026-failover",
        "",
        0.0,
        "stopped",
        at_work=False,
        damaged=True,
    )
    found = snapshot(operations=(operation,))
    assert "the file of operation 2026-failover can't be used" == found.warnings[0].text
    commands = [
        command
        for step in procedures(operations=(operation,))[0].steps
        for command in step.commands
    ]
    assert [
        "bin/zodbrepl journal 2026-failover",
        "bin/zodbrepl resume --abandon --reason 'its file was damaged'",
        "bin/zodbrepl status",
    ] == commands


def test_an_operation_that_was_cut_short_comes_first() -> None:
    operation = OpenOperation(
        "2026-failover", "failover", "b", "eve", 0.0, "stopped", at_work=False
    )
    first = procedures(**PRIMARY_KILLED, operations=(operation,))[0]
    assert "Resume the failover that was interrupted" == first.title
    assert "bin/zodbrepl journal 2026-failover" in commands(first)
    assert "bin/zodbrepl resume" in commands(first)


def test_commands_name_a_cluster_file_that_is_not_the_default_one() -> None:
    elsewhere = cluster(source=HOME.parent / "my clusters" / "c.conf")
    found = procedures(elsewhere, **ALL_STOPPED)[0]
    assert "bin/zodbrepl -c '/srv/my clusters/c.conf' up" in commands(found)


def test_a_stopped_cluster_is_started() -> None:
    assert ("Start the cluster", "bin/zodbrepl up") == (
        procedures(**ALL_STOPPED)[0].title,
        commands(procedures(**ALL_STOPPED)[0])[0],
    )


def test_an_unknown_cluster_is_looked_for_on_its_host() -> None:
    (only,) = procedures(
        servers={"a": SILENT, "b": SILENT},
        comparisons={"b": None},
        indico={"one": SILENT, "two": SILENT},
        programs={},
        supervisor_problem="no answer in time",
    )
    assert "Find out whether the cluster runs" == only.title


def test_a_dead_indico_instance_is_restarted() -> None:
    (only,) = procedures(
        indico={"one": REFUSED}, programs={"indico-one": program("indico-one", "FATAL")}
    )
    assert "bin/zodbrepl restart one" in commands(only)


@pytest.fixture
def three() -> Cluster:
    """b is a relay that follows a; c follows b; d follows a."""

    def node(name: str, role: Role, upstream: str | None) -> Node:
        port = 8111 + 10 * (ord(name) - ord("a"))
        return Node(name, "127.0.0.1", port, port + 1, HOME / "var/node" / name, role, upstream)

    return dataclasses.replace(
        cluster(),
        nodes=(
            node("a", Role.PRIMARY, None),
            node("b", Role.RELAY, "a"),
            node("c", Role.SECONDARY, "b"),
            node("d", Role.SECONDARY, "a"),
        ),
    )


def holding(name: str, last_tid: int) -> ServerAnswer:
    return ServerAnswer(
        last_tid, 0, dataclasses.replace(situations.replication("b", connected=False), node=name)
    )


def test_the_node_with_the_newest_transaction_is_promoted_and_the_others_repointed(
    three: Cluster,
) -> None:
    states = {
        node.name: NodeState("demo", node.name, node.role, node.upstream, 4) for node in three.nodes
    }
    found = snapshot(
        three,
        states=states,
        comparisons={"b": None},
        servers={
            "a": REFUSED,
            "b": holding("b", TID),
            "c": holding("c", TID),
            "d": holding("d", TID + ONE_SECOND),
        },
    )
    candidate = best_candidate(found)
    assert candidate is not None
    assert "d" == candidate.name
    after = states_after(three, found, found.node("a"), candidate)
    assert {
        "a": (Role.SECONDARY, "d", 5),
        "b": (Role.RELAY, "d", 5),
        "c": (Role.SECONDARY, "b", 5),
        "d": (Role.PRIMARY, None, 5),
    } == {name: (state.role, state.upstream, state.epoch) for name, state in after.items()}


def test_a_cluster_of_one_node_has_no_candidate() -> None:
    alone = dataclasses.replace(cluster(), nodes=cluster().nodes[:1])
    found = snapshot(alone, servers={"a": server("a")}, states={"b": None}, comparisons={"b": None})
    assert best_candidate(found) is None
