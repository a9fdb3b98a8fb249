"""The plan by which a node joins where the engine compares histories itself."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from indico_zodbrepl.cluster import Cluster, NodeState, Role, load
from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.operations.model import Plan, Refusal, Verdict
from indico_zodbrepl.operations.native_rejoin import NativeFacts, plan_native_rejoin

HOME = Path(__file__).parents[3]
NOW = 1.0


@pytest.fixture(scope="module")
def cluster() -> Cluster:
    return load(HOME / "etc" / "cluster-relstorage-postgresql.conf", HOME)


def old_primary(cluster: Cluster) -> NativeFacts:
    """a was the primary of epoch 1 and is not running; b is that of epoch 2."""
    return NativeFacts(
        NOW,
        history=True,
        data=Path("/data/a/postgresql"),
        own=NodeState(cluster.name, "a", Role.PRIMARY, None, 1),
        primary="b",
        epoch=2,
        primary_problem="",
        runs=False,
        following=False,
    )


def plan(cluster: Cluster, facts: NativeFacts) -> Plan | Refusal:
    return plan_native_rejoin(cluster, facts, "it is back", Commands(cluster, HOME))


def test_what_only_an_old_primary_has_is_kept_before_it_starts_as_a_follower(
    cluster: Cluster,
) -> None:
    made = plan(cluster, old_primary(cluster))
    assert isinstance(made, Plan)
    assert [
        "fence",
        "rejoin-keep-tail",
        "rejoin-put-aside",
        "assign",
        "rejoin-admit",
        "rejoin-start",
        "rejoin-catch-up",
    ] == [step.action for step in made.steps]
    assert 2 == made.no_return()
    keep, aside, assign = made.steps[1:4]
    assert str(keep.arguments["folder"]).endswith("lost-tails/a-2-19700101T000001Z")
    assert {"folder": "/data/a/postgresql.lost-2-19700101T000001Z"} == aside.arguments
    assert {"role": "secondary", "upstream": "b", "epoch": 2} == assign.arguments
    assert not any(step.may_fail for step in made.steps)


def test_the_plan_does_not_say_that_nothing_is_lost_before_that_is_known(cluster: Cluster) -> None:
    made = plan(cluster, old_primary(cluster))
    assert isinstance(made, Plan)
    assert made.loss is not None
    assert (None, False) == (made.loss.transactions, made.loss.exact)


@pytest.mark.parametrize(
    ("history", "verdicts"), [(True, [Verdict.FINE]), (False, [Verdict.FINE, Verdict.WARNING])]
)
def test_that_not_all_can_be_told_without_history_is_said_before(
    cluster: Cluster, history: bool, verdicts: list[Verdict]
) -> None:
    made = plan(cluster, dataclasses.replace(old_primary(cluster), history=history))
    assert isinstance(made, Plan)
    assert verdicts == [each.verdict for each in made.findings]


def test_one_that_runs_is_ended_first(cluster: Cluster) -> None:
    made = plan(cluster, dataclasses.replace(old_primary(cluster), runs=True))
    assert isinstance(made, Plan)
    assert "stop" == made.steps[0].action


def test_one_that_follows_already_has_nothing_to_do(cluster: Cluster) -> None:
    facts = dataclasses.replace(
        old_primary(cluster),
        own=NodeState(cluster.name, "a", Role.SECONDARY, "b", 2),
        runs=True,
        following=True,
    )
    made = plan(cluster, facts)
    assert isinstance(made, Refusal)
    assert [Verdict.FINE] == [each.verdict for each in made.findings]


@pytest.mark.parametrize(("primary", "problem"), [("a", ""), ("b", "nothing listens")])
def test_nobody_joins_the_primary_itself_or_one_that_does_not_serve(
    cluster: Cluster, primary: str, problem: str
) -> None:
    made = plan(
        cluster, dataclasses.replace(old_primary(cluster), primary=primary, primary_problem=problem)
    )
    assert isinstance(made, Refusal)
    assert Verdict.AGAINST in [each.verdict for each in made.findings]
