"""Who replaces a lost leader, and when that is refused because commits might be lost."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indico_zodbrepl.automation.candidates import (
    Judgement,
    Verdict,
    judge,
    why_unfit,
    with_data,
)
from indico_zodbrepl.automation.timing import YIELD_SECONDS
from indico_zodbrepl.etcd.keys import Member
from indico_zodbrepl.host.candidacy import Candidacy

EPOCH = 4
LACKING = "its data prove nothing about acknowledged commits: it was restored from a backup"
FIT = Candidacy(
    "b",
    runs=True,
    detached=True,
    role="secondary",
    epoch=EPOCH,
    last_tid=100,
    state_epoch=EPOCH,
    condition="",
    was_writable=False,
)


def fit(node: str, tid: int = 100, **changes: Any) -> Candidacy:
    return dataclasses.replace(FIT, node=node, last_tid=tid, **changes)


def decided(
    own: str,
    *answers: Candidacy,
    nodes: tuple[str, ...] = ("a", "b", "c"),
    count: int = 0,
    waited: float = 0.0,
) -> Judgement:
    found = {each.node: each for each in answers}
    return judge(own, found, nodes, count=count, epoch=EPOCH, waited=waited)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({}, ""),
        ({"role": "relay"}, ""),
        ({"condition": "diverged"}, "marked diverged"),
        ({"runs": False}, "does not run"),
        ({"role": "primary"}, "runs as primary"),
        ({"was_writable": True}, "was a primary"),
        ({"doubt": LACKING}, LACKING),
        ({"state_epoch": 3}, "epoch 3"),
        ({"detached": False, "problem": "no answer"}, "no answer"),
        ({"role": "", "detached": False, "problem": "it is frozen"}, "it is frozen"),
    ],
)
def test_a_node_leads_only_with_a_clean_history_in_the_epoch_of_the_key(
    changes: dict[str, Any], why: str
) -> None:
    found = why_unfit(fit("b", **changes), EPOCH)
    assert why in found
    assert bool(why) == bool(found)


def test_a_node_that_has_reported_a_transaction_is_not_replaced_by_an_empty_one() -> None:
    empty, silent = Member("b", "h2", 1, tid=16 * "0"), Member("c", "h3", 1)
    assert with_data({"b": empty, "c": silent}) == ()
    assert with_data({"a": Member("a", "h1", 1, tid="03f0000000000001"), "b": empty}) == ("a",)


def test_the_newest_node_takes_over_and_the_other_one_leaves_it_the_role() -> None:
    b, c = fit("b", 100), fit("c", 101)
    assert decided("c", b, c).verdict is Verdict.TAKE
    assert decided("b", b, c).verdict is Verdict.YIELD


def test_of_equal_nodes_the_first_by_name_takes_over() -> None:
    b, c = fit("b"), fit("c")
    assert decided("b", b, c).verdict is Verdict.TAKE
    assert decided("c", b, c).verdict is Verdict.YIELD


def test_a_better_candidate_that_does_not_take_the_role_loses_its_turn() -> None:
    b, c = fit("b", 100), fit("c", 101)
    found = decided("b", b, c, waited=YIELD_SECONDS)
    assert found.verdict is Verdict.TAKE
    assert found.ahead == ("c",)
    assert not found.proven


def test_with_acknowledged_commits_a_newer_node_never_loses_its_turn() -> None:
    b, c = fit("b", 100), fit("c", 101)
    assert decided("b", b, c, count=1, waited=900.0).verdict is Verdict.YIELD
    assert decided("c", b, fit("c", 100), count=1, waited=900.0).verdict is Verdict.TAKE


def test_a_former_primary_with_newer_transactions_is_not_elected() -> None:
    """It may have diverged; the newest transaction alone elected it in a prototype."""
    b, c = fit("b", 100), fit("c", 500, was_writable=True)
    assert decided("b", b, c).verdict is Verdict.TAKE
    assert decided("c", b, c).verdict is Verdict.CANNOT


def test_one_answer_of_two_proves_nothing_where_one_secondary_confirms_each_commit() -> None:
    found = decided("b", fit("b"), count=1)
    assert found.verdict is Verdict.CANNOT
    assert "1 of the 2 nodes" in found.why
    assert "c: no answer" in found.why


def test_one_answer_of_two_is_enough_where_both_confirm_each_commit() -> None:
    found = decided("b", fit("b"), count=2)
    assert (found.verdict, found.proven) == (Verdict.TAKE, True)


def test_one_answer_is_enough_where_no_secondary_has_to_confirm() -> None:
    found = decided("b", fit("b"))
    assert (found.verdict, found.proven) == (Verdict.TAKE, False)


def test_the_data_file_of_a_stopped_node_is_proof_too() -> None:
    stopped = fit("c", 99, runs=False, detached=False, role="")
    assert decided("b", fit("b"), stopped, count=1).verdict is Verdict.TAKE
    newer = dataclasses.replace(stopped, last_tid=101)
    found = decided("b", fit("b"), newer, count=1)
    assert found.verdict is Verdict.CANNOT
    assert "node c only" in found.why


def test_a_node_that_may_lack_what_it_confirmed_proves_nothing() -> None:
    """It confirmed 100, was restored, and has caught up to 50 only; c never had more than 90."""
    b, c = fit("b", 50, doubt=LACKING), fit("c", 90)
    for own in ("b", "c"):
        found = decided(own, b, c, count=1, waited=900.0)
        assert found.verdict is Verdict.CANNOT
        assert "restored from a backup" in found.why
    assert decided("b", b).verdict is Verdict.CANNOT
    assert decided("c", b, c).verdict is Verdict.TAKE


def test_a_server_that_does_not_detach_proves_nothing() -> None:
    found = decided("b", fit("b"), fit("c", detached=False, problem="no answer"), count=1)
    assert found.verdict is Verdict.CANNOT


def test_a_leader_that_failed_before_any_node_followed_it_is_replaced() -> None:
    """The key is of an epoch that never began: no node's state is of it."""
    b, c = (fit(node, state_epoch=EPOCH - 1) for node in ("b", "c"))
    assert decided("b", b, c, count=1).verdict is Verdict.TAKE


def test_a_node_that_missed_the_last_epoch_proves_nothing_about_it() -> None:
    b, c = fit("b", 90), fit("c", 95, state_epoch=EPOCH - 1)
    assert decided("b", b, c, count=1).verdict is Verdict.CANNOT
    assert decided("b", b, c).verdict is Verdict.TAKE
    assert decided("c", b, c).verdict is Verdict.CANNOT


NODES = ("b", "c", "d", "e")
ALL = ("a", *NODES)


@given(
    st.integers(1, 4),
    st.lists(st.integers(0, 5), min_size=4, max_size=4),
    st.sets(st.sampled_from(NODES)),
    st.integers(0, 5),
    st.sets(st.sampled_from(NODES)),
)
def test_no_acknowledged_commit_is_lost_by_a_takeover(
    count: int, tids: list[int], away: set[str], acknowledged: int, replaced: set[str]
) -> None:
    """A commit that ``count`` nodes have confirmed is on whoever takes over, if anybody does.

    Nodes whose data were replaced since may have confirmed it too.
    """
    held = [
        node
        for node, tid in zip(NODES, tids, strict=True)
        if tid >= acknowledged or node in replaced
    ]
    if len(held) < count:
        return  # it was not acknowledged
    answers = [
        fit(n, tid, doubt=LACKING if n in replaced else "")
        for n, tid in zip(NODES, tids, strict=True)
        if n not in away
    ]
    for own in NODES:
        found = decided(own, *answers, nodes=ALL, count=count, waited=900.0)
        if found.verdict is Verdict.TAKE:
            assert found.proven
            assert tids[NODES.index(own)] >= acknowledged


@given(st.lists(st.integers(0, 3), min_size=4, max_size=4), st.integers(0, 4))
def test_exactly_one_of_the_nodes_that_see_the_same_takes_over_at_once(
    tids: list[int], count: int
) -> None:
    answers = [fit(n, tid) for n, tid in zip(NODES, tids, strict=True)]
    takes = [
        own
        for own in NODES
        if decided(own, *answers, nodes=ALL, count=count).verdict is Verdict.TAKE
    ]
    assert len(takes) == 1
    assert tids[NODES.index(takes[0])] == max(tids)


@pytest.mark.parametrize("order", list(itertools.permutations(("b", "c"))))
def test_the_order_of_the_answers_does_not_count(order: tuple[str, str]) -> None:
    answers = {"b": fit("b"), "c": fit("c")}
    found = [decided(own, *(answers[each] for each in order)).verdict for own in ("b", "c")]
    assert found == [Verdict.TAKE, Verdict.YIELD]
