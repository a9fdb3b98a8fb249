"""Writes and reads of single objects: linearizable or not."""

from __future__ import annotations

import itertools
import math
import random

from histories import Kind
from registers import Access, judge, unordered
from traffic import Outcome

ACKNOWLEDGED, REFUSED, UNKNOWN = Outcome


def write(
    number: int, saw: int, began: float, ended: float = math.inf, outcome: Outcome = ACKNOWLEDGED
) -> Access:
    return Access(number, "x", True, saw, outcome, began, ended)


def read(number: int, saw: int, began: float, ended: float) -> Access:
    return Access(number, "x", False, saw, ACKNOWLEDGED, began, ended)


def kinds(accesses: list[Access], last: int, exported: tuple[int, ...] = ()) -> list[Kind]:
    return [each.kind for each in judge(accesses, {"x": last}, 1000.0, frozenset(exported))]


def test_accesses_that_overlap_may_take_effect_in_any_order() -> None:
    history = [write(1, 2, 0, 5), write(2, 0, 1, 6), read(3, 1, 2, 7), read(4, 2, 2, 7)]
    assert [] == kinds(history, 1)


def test_a_read_does_not_return_what_was_replaced_before_it_began() -> None:
    assert [Kind.NOT_LINEARIZABLE] == kinds([write(1, 0, 0, 1), read(2, 0, 2, 3)], 1)


def test_reads_do_not_go_back() -> None:
    history = [write(1, 0, 0, 9), read(2, 1, 1, 2), read(3, 0, 3, 4)]
    assert [Kind.NOT_LINEARIZABLE] == kinds(history, 1)


def test_two_writes_do_not_replace_the_same_value() -> None:
    assert [Kind.NOT_LINEARIZABLE] == kinds([write(1, 0, 0, 5), write(2, 0, 0, 5)], 2)


def test_an_acknowledged_write_that_left_no_trace_is_found() -> None:
    history = [write(1, 0, 0, 1), write(2, 1, 2, 3), write(3, 1, 4, 5)]
    assert [Kind.NOT_LINEARIZABLE] == kinds(history, 3)
    assert [] == kinds(history, 3, exported=(2,))


def test_what_was_lost_after_an_exported_write_needs_an_export_too() -> None:
    history = [write(1, 0, 0, 1), write(2, 1, 2, 3), read(3, 2, 3, 4), write(4, 2, 5, 6)]
    assert [] == kinds(history, 1, exported=(2, 4))
    assert [Kind.NOT_LINEARIZABLE] == kinds(history, 1, exported=(2,))


def test_the_last_write_must_be_the_value_of_the_end() -> None:
    assert [Kind.NOT_LINEARIZABLE] == kinds([write(1, 0, 0, 1)], 0)


def test_an_unknown_write_may_take_effect_late_or_never() -> None:
    unknown = write(1, 0, 0, outcome=UNKNOWN)
    assert [] == kinds([unknown, read(2, 0, 5, 6), read(3, 1, 7, 8)], 1)
    assert [] == kinds([unknown, read(2, 0, 5, 6)], 0)
    assert [Kind.NOT_LINEARIZABLE] == kinds([unknown, read(2, 1, 5, 6), read(3, 0, 7, 8)], 1)


def test_a_refused_write_takes_no_effect() -> None:
    refused = write(1, 0, 0, 1, REFUSED)
    assert [] == kinds([refused], 0)
    assert [Kind.NOT_LINEARIZABLE] == kinds([refused], 1)


def test_a_value_that_nobody_wrote_is_found() -> None:
    assert [Kind.PHANTOM] == kinds([read(1, 7, 0, 1)], 0)


def test_what_is_stuck_is_named() -> None:
    history = [write(1, 0, 0, 1), write(2, 1, 2, 3), read(3, 1, 4, 5), read(4, 2, 6, 7)]
    assert [3] == [each.number for each in unordered(history)]


def test_objects_are_judged_each_by_itself() -> None:
    bad = Access(5, "y", False, 9, ACKNOWLEDGED, 0, 1)
    found = judge([write(1, 0, 0, 1), bad], {"x": 1}, 10.0)
    assert ["9 was in y"] == [each.text for each in found]


def test_it_agrees_with_trying_all_orders() -> None:
    chance = random.Random(1)  # noqa: S311  # the same histories each time
    verdicts = set()
    for _ in range(400):
        history = [
            Access(
                number,
                "x",
                chance.random() < 0.6,
                chance.randrange(6),
                chance.choice((ACKNOWLEDGED, ACKNOWLEDGED, UNKNOWN)),
                began := chance.randrange(6),
                began + chance.randrange(4),
            )
            for number in range(1, 6)
        ]
        expected = _has_an_order(history)
        verdicts.add(expected)
        assert expected is not bool(unordered(history)), history
    assert {True, False} == verdicts


def _has_an_order(history: list[Access]) -> bool:
    certain = {each.number for each in history if each.outcome is ACKNOWLEDGED}
    return any(
        certain <= {each.number for each in order} and _is_right(order)
        for count in range(len(history) + 1)
        for order in itertools.permutations(history, count)
    )


def _is_right(order: tuple[Access, ...]) -> bool:
    value = 0
    for place, each in enumerate(order):
        if each.saw != value:
            return False
        later = order[place + 1 :]
        if any(other.ended < each.began for other in later if other.outcome is ACKNOWLEDGED):
            return False
        value = each.left
    return True
