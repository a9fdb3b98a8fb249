"""Acknowledgements of writers and arrivals at followers are joined by their tids."""

from __future__ import annotations

import pytest

from indico_zodbrepl.bench.suites.replication import Missing, lags, slowest


def test_a_lag_is_the_time_from_the_acknowledgement_to_the_arrival() -> None:
    assert lags([(1, 10.0), (2, 11.0)], [(1, 10.5), (2, 11.25)]) == [0.5, 0.25]


def test_what_arrived_before_it_was_acknowledged_has_no_lag() -> None:
    assert lags([(1, 10.0)], [(1, 9.9)]) == [0.0]


def test_a_later_transaction_that_arrived_stands_for_those_that_it_skipped() -> None:
    assert lags([(1, 10.0), (2, 10.5), (3, 10.75)], [(0, 1.0), (3, 11.0)]) == [1.0, 0.5, 0.25]


def test_a_repeated_or_older_arrival_changes_nothing() -> None:
    assert lags([(5, 10.0)], [(5, 10.5), (4, 11.0), (5, 12.0)]) == [0.5]


def test_acknowledgements_of_several_writers_may_come_in_any_order() -> None:
    assert lags([(3, 3.0), (1, 1.0), (2, 2.0)], [(1, 1.5), (2, 2.25), (3, 4.0)]) == [1.0, 0.5, 0.25]


def test_what_never_arrived_is_an_error_and_not_a_lag_of_zero() -> None:
    with pytest.raises(Missing, match=r"1 of 2 transactions never arrived, the last of them 0+b$"):
        lags([(10, 1.0), (11, 2.0)], [(10, 1.5)])
    with pytest.raises(Missing, match="1 of 1"):
        lags([(10, 1.0)], [])


def test_of_several_followers_the_slowest_counts_for_each_transaction() -> None:
    assert slowest([[0.1, 0.4], [0.3, 0.2]]) == [0.3, 0.4]
