"""The phases are measured in their order, and have the metrics of the suite."""

from __future__ import annotations

import pytest

from indico_zodbrepl.bench.sites.storages import STORAGES
from indico_zodbrepl.bench.suite import Settings
from indico_zodbrepl.bench.suites.phases import CREATE, QUERIES, SUITE, made_of

CREATED = {
    "create_seconds": 1.0,
    "commit_seconds": 3.0,
    "objects": 100,
    "records": 200,
    "stored_bytes": 9,
    "versions": {"ZODB": "5.8.1"},
}


def test_all_storages_that_it_measures_exist() -> None:
    assert {*SUITE.storages, *SUITE.quick_storages, SUITE.control} <= set(STORAGES)


@pytest.mark.parametrize("quick", [False, True])
def test_the_data_is_made_before_the_queries_of_a_round(quick: bool) -> None:
    found = [case.test for case in SUITE.cases(Settings(1, 1.0, quick), STORAGES["zeo"])]
    assert CREATE == found[0]
    assert set(found[1:]) <= set(QUERIES)


def test_making_the_data_takes_as_long_as_creation_and_commit() -> None:
    found = made_of(CREATED)
    assert (4.0, 1.0, 3.0) == tuple(
        found.metrics[name] for name in ("seconds", "create_seconds", "commit_seconds")
    )
    assert 25 == found.metrics["objects_per_second"]
    assert {"stored_bytes", "versions"} == set(found.details)


def test_a_query_has_no_times_of_creation() -> None:
    found = made_of({"seconds": 2.0, "objects": 100, "records": 50, "answer": [1, 2]})
    assert {"seconds", "objects", "objects_per_second", "records"} == set(found.metrics)
    assert 50 == found.metrics["objects_per_second"]
    assert [1, 2] == found.details["answer"]


def test_all_names_of_metrics_are_those_of_the_suite() -> None:
    assert set(made_of(CREATED).metrics) == {metric.name for metric in SUITE.metrics}
