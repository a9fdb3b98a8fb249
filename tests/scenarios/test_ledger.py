"""The ledger finds what the scenarios are there to find."""

from __future__ import annotations

import dataclasses

from ledger import Attempt, Declared, Gap, Record, Sight, account, longest_gap, records, seen_in
from report import Row, table

ONE, TWO, THREE = ("w", 1), ("w", 2), ("w", 3)
NONE: frozenset[Record] = frozenset()
ATTEMPTS = (
    Attempt(ONE, True, 0.0, 0.1, "w", "01"),
    Attempt(TWO, True, 0.2, 0.3, "w", "02"),
    Attempt(THREE, False, 0.4, 0.5, "w"),
)


def seen(*found: tuple[str, int], at: float) -> Sight:
    return Sight({name: [[number, number]] for name, number in found}, at, at + 0.1)


def test_all_that_was_acknowledged_and_is_there_balances() -> None:
    found = account(
        ATTEMPTS,
        [seen(ONE, at=0.1), seen(TWO, at=5.0)],
        frozenset({ONE, TWO}),
        frozenset(),
        settled=1.0,
    )
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


def test_what_the_journal_says_is_out_of_reach_is_reported_and_nothing_older_is() -> None:
    found = account(ATTEMPTS, [], NONE, NONE, settled=0.0, losses=[Declared("01")])
    assert {ONE, TWO} == found.missing
    assert {TWO} == found.told
    assert {ONE} == found.unaccounted


def test_what_was_exported_need_not_be_told() -> None:
    found = account(
        ATTEMPTS, [], frozenset({ONE}), frozenset({TWO}), settled=0.0, losses=[Declared("01")]
    )
    assert {TWO} == found.exported
    assert NONE == found.told == found.unaccounted


def test_the_gap_is_that_of_the_client_who_waited_longest() -> None:
    """Not of all together, of whom one may go on, nor up to a look when they have ended."""
    sights = [
        Sight({}, moment, moment, client)
        for client, moment in (
            ("one", 0.0),
            ("two", 1.0),
            ("one", 2.0),
            ("two", 4.0),
            ("one", 4.5),
            ("", 60.0),
        )
    ]
    assert Gap(3.0, 1.0, "two") == account([], sights, NONE, NONE, settled=0.0).read_gap


def test_a_client_that_is_slow_before_anything_has_happened_is_no_gap() -> None:
    sights = [Sight({}, moment, moment, "one") for moment in (0.0, 9.0, 10.0, 12.0)]
    assert 2.0 == account([], sights, NONE, NONE, settled=0.0, disturbed=9.5).read_gap.seconds


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
        account(ATTEMPTS, [], frozenset({TWO}), frozenset({ONE}), settled=0.0),
        write_gap=Gap(1.25, 10.5, "w"),
    )
    shown = table(
        [
            Row("feature", "a fault", found, [], "passed"),
            Row("feature", "another", None, [], "failed"),
        ]
    )
    assert ["a", "fault", "2", "1", "1", "0", "0", "1.25", "s", "0.00", "s", "passed"] in [
        line.split() for line in shown.splitlines()
    ]
    assert "failed" in shown


def test_a_gap_names_the_sentences_during_which_it_was() -> None:
    row = Row(
        "feature",
        "a fault",
        None,
        [],
        "passed",
        [("Given a cluster", 1.0), ("When it dies", 0.5), ("Then all is well", 2.0)],
        10.0,
    )
    assert {"seconds": 1.25, "client": "w", "during": ["When it dies", "Then all is well"]} == (
        row.gap(Gap(1.25, 11.25, "w"))
    )
