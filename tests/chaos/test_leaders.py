"""Commits of two leaders at the same time are found by their times."""

from __future__ import annotations

from histories import Kind, Transaction
from leaders import judge
from traffic import Outcome


def commit(number: int, server: str, began: float, ended: float) -> Transaction:
    return Transaction(
        "h1", number, Outcome.ACKNOWLEDGED, began, ended, appended=("x",), server=server
    )


def test_a_leader_may_follow_another() -> None:
    history = [commit(1, "a", 0, 1), commit(2, "a", 2, 5), commit(3, "b", 4, 6)]
    assert [] == judge(history, 2)


def test_commits_that_overlap_prove_nothing() -> None:
    history = [commit(1, "a", 0, 5), commit(2, "b", 1, 2), commit(3, "b", 3, 4)]
    assert [] == judge(history, 2)


def test_a_leader_that_acknowledges_after_its_successor_is_found() -> None:
    history = [commit(1, "a", 0, 1), commit(2, "b", 2, 3), commit(3, "a", 4, 5)]
    (found,) = judge(history, 2)
    assert (Kind.TWO_LEADERS, (1, 2, 3)) == (found.kind, found.numbers)
    assert [] == judge(history, 3), "it became the leader again"
