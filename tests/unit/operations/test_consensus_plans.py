"""NEO's plans: how a storage comes back, and when a process counts as hung."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from indico_zodbrepl.backends.consensus import ANSWERS, REFUSES, SILENT, Look, Member
from indico_zodbrepl.cluster import Cluster, Role, load
from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.operations.consensus_facts import ElectingFacts, NodeFacts
from indico_zodbrepl.operations.consensus_failover import plan_hung_failover, reports_of
from indico_zodbrepl.operations.consensus_rejoin import plan_storage_rejoin
from indico_zodbrepl.operations.evidence import Process
from indico_zodbrepl.operations.model import Plan, Refusal, Verdict

HOME = Path(__file__).parents[3]
GOOD = {"up_to_date": 2}
ROLES = {"m": Role.MASTER, "n": Role.MASTER, "a": Role.STORAGE, "b": Role.STORAGE, "w": Role.ADMIN}
LOOK = Look(
    1000.0,
    "RUNNING",
    True,
    2,
    2,
    tuple(
        Member(
            name,
            role,
            "RUNNING",
            "" if name == "w" else ANSWERS,
            leads=name == "m",
            cells=GOOD if role is Role.STORAGE else {},
        )
        for name, role in ROLES.items()
    ),
    (frozenset("ab"), frozenset("ab")),
)
WELL = ElectingFacts(
    LOOK,
    "",
    tuple(
        NodeFacts(name, role, "RUNNING", Process.RUNS, ANSWERS, has_data=role is Role.STORAGE)
        for name, role in ROLES.items()
    ),
    ("one",),
)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Cluster:
    folder = tmp_path_factory.mktemp("neo")
    path = folder / "cluster.conf"
    path.write_text(
        f"name test\nbackend neo\nvar-directory {folder}/var\n"
        + "".join(
            f"<node {name}>\n  host 127.0.0.1\n  storage-port {9001 + number}\n"
            f"  data-directory {folder}/{name}\n  role {role}\n</node>\n"
            for number, (name, role) in enumerate(ROLES.items())
        )
        + "<admin>\n  port 9009\n</admin>\n"
    )
    return load(path, folder)


def but(
    facts: ElectingFacts,
    name: str,
    *,
    member: dict[str, Any] | None = None,
    node: dict[str, Any] | None = None,
    **look: Any,
) -> ElectingFacts:
    """The same facts with other ones of a node, or of the cluster."""
    assert facts.look is not None
    members = tuple(
        dataclasses.replace(each, **member or {}) if each.name == name else each
        for each in facts.look.members
    )
    nodes = tuple(
        dataclasses.replace(each, **node or {}) if each.name == name else each
        for each in facts.nodes
    )
    return dataclasses.replace(
        facts, nodes=nodes, look=dataclasses.replace(facts.look, members=members, **look)
    )


ONLY_B: dict[str, Any] = {"copies": 1, "holders": (frozenset("b"), frozenset("b"))}
STOPPED: dict[str, Any] = {"program": "STOPPED", "process": Process.NONE, "ping": REFUSES}
DOWN: dict[str, Any] = {"state": "DOWN", "ping": REFUSES, "cells": {"out_of_date": 2}}
EMPTY = but(WELL, "a", member={"state": "PENDING", "cells": {"out_of_date": 2}}, **ONLY_B)
GONE = but(WELL, "a", member=DOWN, node=STOPPED, **ONLY_B)


def rejoin(cluster: Cluster, facts: ElectingFacts, name: str = "a") -> Plan | Refusal:
    return plan_storage_rejoin(facts, name, "it is back", Commands(cluster, HOME))


def failover(cluster: Cluster, facts: ElectingFacts, name: str | None = None) -> Plan | Refusal:
    return plan_hung_failover(facts, name, "it hangs", Commands(cluster, HOME))


def actions(plan: Plan | Refusal) -> list[str]:
    assert isinstance(plan, Plan), plan
    return [step.action for step in plan.steps]


def against(refusal: Plan | Refusal) -> list[str]:
    assert isinstance(refusal, Refusal), refusal
    return [each.text for each in refusal.findings if each.verdict is Verdict.AGAINST]


FILL = ["storage-add", "storage-spread", "storage-copy", "electing-whole"]


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        (EMPTY, ["storage-drop", "storage-return", *FILL]),
        (but(EMPTY, "a", member={"cells": {}}), FILL),
        (but(GONE, "a", node={"has_data": False}), ["storage-drop", "storage-return", *FILL]),
        (but(GONE, "a", member={"state": "", "cells": {}}), ["storage-return", *FILL]),
        (GONE, ["storage-return", "storage-copy", "electing-whole"]),
        (
            but(WELL, "a", member={"cells": {"up_to_date": 1, "out_of_date": 1}}),
            ["storage-copy", "electing-whole"],
        ),
        (
            but(WELL, "a", member={"cells": {"corrupted": 1, "up_to_date": 1}}, **ONLY_B),
            ["storage-drop", "storage-return", *FILL],
        ),
        (but(WELL, "a", member={"cells": {}}, **ONLY_B), FILL),
    ],
)
def test_a_storage_comes_back_by_as_few_steps_as_its_state_needs(
    cluster: Cluster, facts: ElectingFacts, expected: list[str]
) -> None:
    plan = rejoin(cluster, facts)
    assert expected == actions(plan)
    assert isinstance(plan, Plan)
    assert not any(step.may_fail for step in plan.steps)
    assert plan.steps[-1].arguments == {"instances": ["one"]}
    assert "rejoin of a" == plan.name


def test_one_that_works_has_joined_already(cluster: Cluster) -> None:
    found = rejoin(cluster, WELL)
    assert isinstance(found, Refusal)
    assert [Verdict.FINE] == [each.verdict for each in found.findings]


def test_one_whose_program_has_just_ended_has_not_joined(cluster: Cluster) -> None:
    assert ["storage-return", "storage-copy", "electing-whole"] == actions(
        rejoin(cluster, but(WELL, "a", node={"program": "STOPPED"}))
    )


def test_nothing_is_taken_from_a_storage_unless_the_others_hold_everything(
    cluster: Cluster,
) -> None:
    facts = but(EMPTY, "a", holders=(frozenset("b"), frozenset()))
    assert ["1 of 2 partitions would be without an up-to-date copy"] == against(
        rejoin(cluster, facts)
    )
    corrupted = but(
        WELL,
        "a",
        member={"cells": {"corrupted": 1, "up_to_date": 1}},
        holders=(frozenset("a"), frozenset("b")),
    )
    assert against(rejoin(cluster, corrupted))


def test_another_storage_that_is_away_comes_first_and_a_pending_one_is_only_reported(
    cluster: Cluster,
) -> None:
    """To spread partitions would take from one that is away what it has."""
    third = Member("c", Role.STORAGE, "DOWN", REFUSES, cells={"out_of_date": 2})
    assert EMPTY.look is not None
    with_one = dataclasses.replace(
        EMPTY, look=dataclasses.replace(EMPTY.look, members=(*EMPTY.look.members, third))
    )
    assert ["does not take part"] == against(rejoin(cluster, with_one))
    pending = but(with_one, "c", member={"state": "PENDING", "ping": ANSWERS})
    plan = rejoin(cluster, pending)
    assert isinstance(plan, Plan)
    assert ("c", Verdict.WARNING) in [(each.subject, each.verdict) for each in plan.findings]


@pytest.mark.parametrize(
    ("name", "facts", "hint"),
    [
        ("m", WELL, "node start m"),
        ("a", dataclasses.replace(EMPTY, look=None, away="silent"), "failover w --dry-run"),
        ("a", but(GONE, "a", state="RECOVERING"), "node start a"),
        ("a", but(EMPTY, "a", state="RECOVERING"), "status"),
        ("a", but(WELL, "a", member={"ping": SILENT, "silent": 9.0}), "failover a --dry-run"),
    ],
)
def test_a_rejoin_that_can_not_be_says_what_to_do_instead(
    cluster: Cluster, name: str, facts: ElectingFacts, hint: str
) -> None:
    found = rejoin(cluster, facts, name)
    assert isinstance(found, Refusal)
    assert hint in found.hint
    assert against(found)


def test_a_disk_that_is_not_mounted_is_no_empty_one(cluster: Cluster) -> None:
    facts = but(GONE, "a", node={"has_data": False, "mounted": False})
    assert ["its data directory is not there"] == against(rejoin(cluster, facts))


def hung(facts: ElectingFacts, name: str) -> ElectingFacts:
    return but(
        facts, name, member={"ping": SILENT, "silent": 7.0}, node={"ping": SILENT}, writable=False
    )


@pytest.mark.parametrize("name", ["a", "m"])
def test_what_hangs_is_ended_then_the_cluster_serves_and_it_is_started(
    cluster: Cluster, name: str
) -> None:
    plan = failover(cluster, hung(WELL, name))
    assert ["fence", "electing-serves", "start", "electing-whole"] == actions(plan)
    assert isinstance(plan, Plan)
    assert (name, f"failover of {name}") == (plan.target, plan.name)
    assert all(step.subject == name for step in plan.steps)
    assert plan.no_return() == 2
    assert not plan.steps[2].may_fail
    assert "the others stand in for it" in [each.text for each in plan.findings]


@pytest.mark.parametrize(
    "facts",
    [
        but(hung(WELL, "a"), "a", holders=(frozenset("a"), frozenset("ab"))),
        but(hung(WELL, "m"), "n", node=STOPPED),
    ],
)
def test_where_nobody_stands_in_that_is_said_and_nothing_is_seen_in_between(
    cluster: Cluster, facts: ElectingFacts
) -> None:
    plan = failover(cluster, facts)
    assert ["fence", "start", "electing-whole"] == actions(plan)
    assert isinstance(plan, Plan)
    assert "nothing can be saved until it is back" in [
        each.text for each in plan.findings if each.verdict is Verdict.WARNING
    ]


@pytest.mark.parametrize(
    "facts",
    [
        but(WELL, "a", member={"ping": SILENT, "silent": 7.0}),
        but(WELL, "a", node={"ping": SILENT}),
        but(WELL, "a", node={"process": Process.FROZEN, "ping": SILENT}),
        but(hung(WELL, "a"), "a", node={"program": "STARTING", "process": Process.NONE}),
    ],
)
def test_nothing_is_ended_on_the_word_of_one_or_while_one_sees_it_answer(
    cluster: Cluster, facts: ElectingFacts
) -> None:
    assert against(failover(cluster, facts))
    assert against(failover(cluster, facts, "a"))


def test_with_nothing_hung_it_is_said_who_leads(cluster: Cluster) -> None:
    """Master n was killed: that is stood in for without us."""
    for facts in (WELL, but(WELL, "n", member={"ping": REFUSES, "state": "DOWN"}, node=STOPPED)):
        found = failover(cluster, facts)
        assert ["the masters have elected m by themselves, and the cluster takes writes"] == (
            against(found)
        )


def test_a_master_that_is_gone_is_started_when_it_is_missed_or_meant(cluster: Cluster) -> None:
    gone = but(
        WELL,
        "m",
        member={"ping": REFUSES, "state": "DOWN", "leads": False},
        node=STOPPED,
        writable=False,
        state="",
    )
    assert ["start", "electing-whole"] == actions(failover(cluster, gone))
    other = but(WELL, "n", member={"ping": REFUSES, "state": "DOWN"}, node=STOPPED)
    assert ["start", "electing-whole"] == actions(failover(cluster, other, "n"))


def test_a_storage_that_is_gone_is_left_to_a_rejoin(cluster: Cluster) -> None:
    found = failover(cluster, GONE, "a")
    assert isinstance(found, Refusal)
    assert "rejoin a" in found.hint


def test_a_leading_master_comes_before_a_storage_and_what_hangs_as_well_is_reported(
    cluster: Cluster,
) -> None:
    plan = failover(cluster, hung(hung(hung(WELL, "a"), "n"), "m"))
    assert isinstance(plan, Plan)
    assert "m" == plan.target
    assert ["n", "a"] == [each.subject for each in plan.findings if "as well" in each.text]


def test_a_frozen_neo_monitor_is_ended_though_its_child_answers(cluster: Cluster) -> None:
    facts = but(WELL, "w", node={"process": Process.FROZEN})
    away = dataclasses.replace(facts, look=None, away="the NEO monitor does not answer")
    assert ["fence", "start", "electing-whole"] == actions(failover(cluster, away))
    hangs = dataclasses.replace(hung(facts, "a"), look=None, away="the NEO monitor does not answer")
    frozen = tuple(
        dataclasses.replace(each, process=Process.FROZEN) if each.name == "a" else each
        for each in hangs.nodes
    )
    plan = failover(cluster, dataclasses.replace(hangs, nodes=frozen))
    assert isinstance(plan, Plan)
    assert "a" == plan.target


def test_a_cluster_of_which_nothing_runs_has_nothing_that_hangs(cluster: Cluster) -> None:
    nodes = tuple(
        dataclasses.replace(each, program="UNREACHABLE", process=Process.UNKNOWN, ping=REFUSES)
        for each in WELL.nodes
    )
    facts = ElectingFacts(None, "the NEO monitor does not run", nodes, ())
    assert against(failover(cluster, facts))
    assert isinstance(failover(cluster, facts, "a"), Refusal)


AWAY: dict[str, Any] = {
    "program": "UNREACHABLE",
    "process": Process.UNKNOWN,
    "ping": SILENT,
    "here": False,
    "reachable": False,
}


def test_a_storage_does_not_rejoin_while_the_programs_of_its_host_do_not_run(
    cluster: Cluster,
) -> None:
    refused = rejoin(cluster, but(GONE, "a", node={"program": "UNREACHABLE"}))
    assert isinstance(refused, Refusal)
    against = [each.text for each in refused.findings if each.verdict is Verdict.AGAINST]
    assert against == ["the supervisord of its host does not answer"]


@pytest.mark.parametrize("name", ["n", "a"])
def test_a_node_whose_host_does_not_answer_does_not_count_as_hung(
    cluster: Cluster, name: str
) -> None:
    facts = but(WELL, name, member={"ping": SILENT, "silent": 20.0}, node=AWAY)
    refused = failover(cluster, facts)
    assert isinstance(refused, Refusal)
    assert refused.notice == "nothing hangs: there is nothing left to fail over"


@pytest.mark.parametrize(
    ("ping", "sight"), [(ANSWERS, "inconclusive"), (SILENT, "down"), (REFUSES, "down")]
)
def test_the_neo_monitor_of_another_host_is_judged_by_pings(ping: str, sight: str) -> None:
    facts = but(WELL, "w", member={"ping": ping}, node={"here": False})
    (report, *_others) = reports_of(facts, facts.node("w"))
    assert report.sight == sight
