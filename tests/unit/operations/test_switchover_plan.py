"""Which steps a switchover takes in which situation, and in which there is none."""

from __future__ import annotations

from typing import Any

import pytest
from planning import COMMANDS, cluster_of, compared, situation, steps_of
from situations import REFUSED, server, state

from indico_zodbrepl.cluster.model import Role
from indico_zodbrepl.host.datafs_answers import Relation
from indico_zodbrepl.operations.model import Plan, Refusal, Verdict, plan_from_json
from indico_zodbrepl.operations.switchover import plan_switchover
from indico_zodbrepl.probing.answers import ServerRole

PAIR = cluster_of()
CHAIN = cluster_of(c=("b", Role.SECONDARY))
STAR = cluster_of(c=("a", Role.SECONDARY))


def plan(in_cluster: Any = PAIR, target: str | None = "b", **changes: Any) -> Plan:
    found = plan_switchover(
        in_cluster, situation(in_cluster, **changes), target, "a reason", COMMANDS(in_cluster)
    )
    assert isinstance(found, Plan), found
    return found


def refusal(target: str | None = "b", **changes: Any) -> Refusal:
    found = plan_switchover(PAIR, situation(PAIR, **changes), target, "", COMMANDS(PAIR))
    assert isinstance(found, Refusal), found
    assert any(finding.verdict is Verdict.AGAINST for finding in found.findings)
    return found


def against(found: Refusal) -> list[str]:
    return [
        f"{each.subject}: {each.text}" for each in found.findings if each.verdict is Verdict.AGAINST
    ]


def test_of_a_pair_the_target_is_proved_equal_and_promoted_before_the_old_one_lets_clients_go() -> (
    None
):
    made = plan()
    assert [
        "hold a",
        "prove b",
        "seal a",
        "promote b",
        "turn a",
        "see-writable one",
        "see-writable two",
        "see-following a",
        "verify b",
    ] == steps_of(made)
    assert ("promote", 2, None) == (made.steps[made.no_return()].action, made.epoch, made.loss)


def test_before_the_point_of_no_return_each_step_is_undone_or_changes_nothing() -> None:
    made = plan()
    before = made.steps[: made.no_return()]
    assert {"hold", "prove", "seal"} == {step.action for step in before}
    assert all(step.undoes for step in before if step.action != "prove")
    assert not any(step.may_fail for step in before)


def test_without_a_target_the_follower_that_is_furthest_is_taken() -> None:
    found = plan_switchover(PAIR, situation(PAIR), None, "", COMMANDS(PAIR))
    assert isinstance(found, Plan)
    assert ("b", "switchover from a") == (found.target, found.steps[3].arguments["reason"])


def test_the_other_followers_are_repointed_before_they_are_looked_at() -> None:
    made = plan(STAR)
    assert [
        "hold a",
        "prove b",
        "seal a",
        "promote b",
        "turn a",
        "see-writable one",
        "see-writable two",
        "follow c",
        "see-following c",
        "see-following a",
        "verify b",
    ] == steps_of(made)
    follow = made.steps[7]
    assert {"upstream": "b", "epoch": 2, "role": "secondary"} == follow.arguments


def test_what_is_below_the_target_stays_below_it() -> None:
    made = plan(CHAIN)
    assert {"upstream": "b", "epoch": 2, "role": "secondary"} == next(
        step for step in made.steps if step.action == "follow"
    ).arguments


def test_the_end_of_a_chain_becomes_primary_and_the_relay_turns_to_it() -> None:
    made = plan(CHAIN, "c")
    follow = next(step for step in made.steps if step.action == "follow")
    turn = next(step for step in made.steps if step.action == "turn")
    assert ("b", {"upstream": "c", "epoch": 2, "role": "relay"}) == (
        follow.subject,
        follow.arguments,
    )
    assert {"upstream": "c", "epoch": 2, "role": "secondary"} == turn.arguments


def test_with_a_node_that_does_not_answer_the_old_primary_is_restarted_not_turned() -> None:
    made = plan(STAR, servers={"c": REFUSED}, comparisons={"c": None})
    assert [
        "promote b",
        "stop a",
        "see-writable one",
        "see-writable two",
        "follow c",
        "assign a",
        "start a",
        "see-following a",
        "verify b",
    ] == steps_of(made)[3:]
    assert ("c", "does not answer; it is left as it is") in [
        (each.subject, each.text) for each in made.findings if each.verdict is Verdict.WARNING
    ]


def test_an_instance_that_does_not_answer_is_not_waited_for() -> None:
    made = plan(indico={"two": REFUSED})
    assert "see-writable two" not in steps_of(made)
    assert "see-writable one" in steps_of(made)


def test_each_step_says_what_a_person_would_type() -> None:
    commands = {f"{step.action} {step.subject}": step.command for step in plan().steps}
    assert "bin/zodbrepl node pause-writes a" == commands["hold a"]
    assert "bin/zodbrepl node promote b --epoch 2 --reason 'a reason'" == commands["promote b"]
    assert "bin/zodbrepl node follow a --upstream b --epoch 2" == commands["turn a"]


def test_a_plan_comes_back_from_json_as_it_was() -> None:
    made = plan()
    assert made == plan_from_json(made.to_json())


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"compared": {"b": compared(Relation.DIVERGED, private=3)}}, "b: its history is diverged"),
        ({"compared": {"b": compared(Relation.AHEAD, private=1)}}, "b: its history is ahead"),
        (
            {"compared": {"b": "no such file"}},
            "b: its history can't be compared with the primary's",
        ),
        ({"conditions": {"b": "diverged"}}, "b: its history is marked diverged"),
        ({"servers": {"b": server("b", connected=False)}}, "b: is disconnected from the primary"),
        (
            {"servers": {"b": server("b", server("b").last_tid - 60 * 71582788)}},
            "b: is too far behind",
        ),
        ({"servers": {"b": REFUSED}, "comparisons": {"b": None}}, "b: does not answer"),
        ({"free": {"b": 1024}}, "b: its disk is full"),
        (
            {"supervisor_problem": "no socket", "programs": {}},
            ": supervisord does not answer, so no program can be stopped or started",
        ),
        (
            {"servers": {"a": REFUSED}, "comparisons": {"b": None}},
            ": no node is a writable primary",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_it_is_refused_with_the_evidence_when(changes: dict[str, Any], expected: str) -> None:
    assert expected in against(refusal(**changes))


def test_two_writable_primaries_are_no_place_to_hand_over_from() -> None:
    rival = server("b", role=ServerRole.PRIMARY, read_only=False, upstream=None, connected=None)
    found = refusal(servers={"b": rival})
    assert [": a and b both are a writable primary"] == against(found)


def test_the_primary_itself_is_no_target() -> None:
    assert ["a: a is already primary"] == against(refusal("a"))


def test_a_dead_primary_is_pointed_to_failover() -> None:
    assert (
        "bin/zodbrepl failover --dry-run"
        in refusal(servers={"a": REFUSED}, comparisons={"b": None}).hint
    )


def test_another_s_trouble_is_told_but_hinders_nothing() -> None:
    made = plan(
        STAR, servers={"c": REFUSED}, comparisons={"c": None}, compared={"c": "no such file"}
    )
    warnings = [each.text for each in made.findings if each.verdict is Verdict.WARNING]
    assert "its history can't be compared with the primary's" in warnings


def test_a_diverged_bystander_does_hinder_it() -> None:
    found = plan_switchover(
        STAR,
        situation(STAR, compared={"c": compared(Relation.DIVERGED, private=2)}),
        "b",
        "",
        COMMANDS(STAR),
    )
    assert isinstance(found, Refusal)
    assert ["c: its history is diverged"] == against(found)


def test_the_epoch_is_above_every_epoch_seen() -> None:
    made = plan(states={"b": state("b", epoch=7)})
    assert 8 == made.epoch == made.steps[3].arguments["epoch"]
