"""The ledger finds what the scenarios are there to find."""

from __future__ import annotations

import dataclasses

from ledger import Attempt, Record, Sight, account, longest_gap, records, seen_in
from report import Row, table

ONE, TWO, THREE = ("w", 1), ("w", 2), ("w", 3)
NONE: frozenset[Record] = frozenset()
ATTEMPTS = (Attempt(ONE, True, 0.0, 0.1), Attempt(TWO, True, 0.2, 0.3),
            Attempt(THREE, False, 0.4, 0.5))


def seen(*found: tuple[str, int], at: float) -> Sight:
    return Sight({name: [[number, number]] for name, number in found}, at, at + 0.1)


def test_all_that_was_acknowledged_and_is_there_balances() -> None:
    found = account(ATTEMPTS, [seen(ONE, at=0.1), seen(TWO, at=5.0)],
                    frozenset({ONE, TWO}), frozenset(), settled=1.0)
    assert 2 == found.acknowledged
    assert NONE == found.missing == found.exported == found.phantom == found.unaccounted


def test_an_acknowledged_record_that_vanished_is_found() -> None:
    found = account(ATTEMPTS, [], frozenset({TWO}), frozenset(), settled=0.0)
    assert {ONE} == found.missing == found.unaccounted


def test_a_missing_record_that_was_exported_is_accounted_for() -> None:
    found = account(ATTEMPTS, [], frozenset({TWO}), frozenset({ONE, THREE}), settled=0.0)
    assert {ONE} == found.missing == found.exported
    assert NONE == found.unaccounted


def test_a_record_that_was_not_acknowledged_may_be_there_or_not() -> None:
    for held in ({ONE, TWO}, {ONE, TWO, THREE}):
        found = account(ATTEMPTS, [], frozenset(held), frozenset(), settled=0.0)
        assert set() == found.missing


def test_what_is_read_after_the_failover_and_is_not_there_is_a_phantom() -> None:
    sights = [Sight({"w": [[1, 2]]}, 0.5, 0.6), Sight({"w": [[1, 2]]}, 1.5, 1.6)]
    held = frozenset({ONE})
    assert {TWO} == account(ATTEMPTS, sights, held, frozenset(), settled=1.0).phantom
    assert set() == account(ATTEMPTS, sights, held, frozenset(), settled=2.0).phantom


def test_what_was_seen_is_the_union_of_all_sights() -> None:
    sights = [Sight({"w": [[1, 3], [9, 9]]}, 0.0, 0.1), Sight({"w": [[2, 5]], "v": [[7, 7]]}, 1, 2)]
    assert records({"w": [[1, 5], [9, 9]], "v": [[7, 7]]}) == seen_in(sights)


def test_a_gap_is_the_longest_time_between_two_successes() -> None:
    assert 2.5 == longest_gap([4.0, 1.0, 1.5])
    assert 0.0 == longest_gap([4.0])


def test_ranges_become_records() -> None:
    assert {ONE, TWO, ("v", 7)} == records({"w": [[1, 2]], "v": [[7, 7]]})


def test_the_table_shows_each_figure_of_a_scenario() -> None:
    found = dataclasses.replace(
        account(ATTEMPTS, [], frozenset({TWO}), frozenset({ONE}), settled=0.0), write_gap=1.25)
    shown = table([Row("feature", "a fault", found, {}, "passed"),
                   Row("feature", "another", None, {}, "failed")])
    assert ["a", "fault", "2", "1", "1", "0", "1.25", "s", "0.00", "s", "passed"] in [
        line.split() for line in shown.splitlines()]
    assert "failed" in shown
