"""Who may start as the primary: the decision alone."""

from __future__ import annotations

import pytest

from indico_zodbrepl.cluster import Forced, NodeState, Role
from indico_zodbrepl.node import guard
from indico_zodbrepl.node.guard import highest, judge, objection

FORCED = Forced("ann", "host b burnt down", "2026-02-03T04:05:06Z")
SILENT = guard.Testimony("the running server of node c", problem="no answer in time", node="c")


def claim(epoch: int = 2, forced: Forced | None = None) -> NodeState:
    return NodeState("demo", "a", Role.PRIMARY, None, epoch, forced)


def record(epoch: int, primary: str, keeper: str = "the control host") -> guard.Testimony:
    return guard.Testimony(f"the record of {keeper}", epoch, primary)


def server(node: str, epoch: int, primary: str | None, *,
           writable: bool = False) -> guard.Testimony:
    return guard.Testimony(f"the running server of node {node}", epoch, primary, writable,
                           node=node)


@pytest.mark.parametrize("voucher", [
    record(2, "a"), record(2, "a", "Indico instance one"), server("b", 2, "a"),
    guard.Testimony("the state file of node b", 2, "a", node="b")])
def test_one_voucher_of_this_epoch_is_enough(voucher: guard.Testimony) -> None:
    verdict = judge(claim(), [SILENT, voucher])
    assert verdict.allowed
    assert (voucher.voucher,) == verdict.vouchers
    assert not verdict.forced


@pytest.mark.parametrize("testimonies", [
    [],
    [SILENT],
    [record(1, "a")],
    [server("b", 2, None)],
    [guard.Testimony("the record of the control host", problem="is no JSON")],
])
def test_a_node_for_which_nobody_vouches_in_its_epoch_is_refused(
        testimonies: list[guard.Testimony]) -> None:
    verdict = judge(claim(), testimonies)
    assert not verdict.allowed
    assert "nobody can vouch that it is the primary of epoch 2" == verdict.reason


def test_one_who_knows_a_later_epoch_outweighs_all_who_vouch() -> None:
    verdict = judge(claim(), [record(2, "a"), server("b", 3, "b"), server("c", 2, "a")])
    assert "the running server of node b knows epoch 3, of which b is the primary, not 2" == (
        verdict.reason)
    assert 3 == verdict.seen


def test_a_follower_that_knows_a_later_epoch_is_enough_although_its_primary_is_not_seen() -> None:
    assert not judge(claim(), [record(2, "a"), server("c", 3, None)]).allowed


def test_another_primary_of_the_same_epoch_keeps_both_from_starting() -> None:
    testimonies = [record(2, "a"), guard.Testimony("the state file of node b", 2, "b", node="b")]
    assert "the state file of node b says that b is the primary of epoch 2" == (
        judge(claim(), testimonies).reason)


def test_nobody_starts_beside_a_server_that_takes_writes_even_in_an_older_epoch() -> None:
    verdict = judge(claim(), [record(2, "a"), server("b", 1, "b", writable=True)])
    assert "the running server of node b takes writes: two primaries would drift apart" == (
        verdict.reason)


def test_a_primary_of_an_older_epoch_that_takes_no_writes_hinders_nobody() -> None:
    assert judge(claim(), [record(2, "a"), server("b", 1, "b")]).allowed


def test_an_operators_word_stands_in_for_vouchers() -> None:
    verdict = judge(claim(forced=FORCED), [SILENT, record(1, "b")])
    assert (True, True) == (verdict.allowed, verdict.forced)


def test_a_forced_node_with_a_voucher_needs_the_operators_word_no_more() -> None:
    assert not judge(claim(forced=FORCED), [record(2, "a")]).forced


@pytest.mark.parametrize("against", [
    record(3, "b"), record(2, "b"), server("b", 1, "b", writable=True)])
def test_an_operators_word_outweighs_nobody(against: guard.Testimony) -> None:
    assert not judge(claim(forced=FORCED), [against]).allowed


def test_a_node_does_not_object_to_itself_when_it_is_promoted_again() -> None:
    assert not objection("b", 3, [server("b", 3, "b", writable=True), record(3, "b")])


def test_a_promotion_is_objected_to_as_long_as_the_old_primary_takes_writes() -> None:
    assert objection("b", 3, [server("a", 2, "a", writable=True)])


def test_the_highest_epoch_counts_the_silent_for_nothing() -> None:
    assert 5 == highest(2, [SILENT, record(5, "b"), record(3, "a")])
