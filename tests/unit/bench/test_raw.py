"""What the raw tests measure of each storage, and how processes' figures are put together."""

from __future__ import annotations

from typing import Any

import pytest

from indico_zodbrepl.bench.sites.storages import STORAGES
from indico_zodbrepl.bench.suite import Case, Settings
from indico_zodbrepl.bench.suites.raw import READ, SUITE, WRITE, put_together

OPTIONS = {option.name: option.default for option in SUITE.options}


def cases(storage: str, *, quick: bool = False, **options: Any) -> list[Case]:
    return list(SUITE.cases(Settings(1, 1.0, quick, OPTIONS | options), STORAGES[storage]))


def processes(found: list[Case]) -> set[str | int | float]:
    return {case.parameters["processes"] for case in found}


def answer(**changed: Any) -> dict[str, Any]:
    """What a process prints that made 10 commits in 2 seconds."""
    return {
        "operations": 10,
        "seconds": 2.0,
        "cpu_seconds": 0.5,
        "conflicts": 1,
        "stored_bytes": 4000,
        "loads": 3,
        "misses": 2,
        "latencies": [[10_000, 10]],
        "versions": {"ZODB": "5.8.1"},
    } | changed


def test_all_storages_that_it_measures_exist() -> None:
    assert {*SUITE.storages, *SUITE.quick_storages, SUITE.control} <= set(STORAGES)


def test_a_storage_with_servers_is_measured_with_one_and_with_several_processes() -> None:
    assert {1, 4} == processes(cases("zeo"))
    assert {1, 4} == processes(cases("sqlite"))


@pytest.mark.parametrize("storage", ["in-memory", "filestorage"])
def test_a_storage_that_one_process_can_open_is_left_at_one(storage: str) -> None:
    assert {1} == processes(cases(storage))
    assert {1} == processes(cases(storage, processes=(4,)))


def test_a_case_comes_once_however_often_its_processes_are_named() -> None:
    found = cases("zeo", processes=(2, 2))
    assert len({str(case) for case in found}) == len(found)


def test_all_names_of_metrics_are_those_of_the_suite() -> None:
    names = {metric.name for metric in SUITE.metrics}
    assert names == set(put_together(Case(WRITE), [answer()]).metrics)


def test_rates_of_processes_are_added_up() -> None:
    found = put_together(Case(WRITE), [answer(), answer(operations=40, seconds=4.0)])
    assert 5 + 10 == found.metrics["rate"]
    assert [5, 10] == found.details["rates"]


def test_what_a_commit_takes_is_that_of_all_commits_of_all_processes() -> None:
    found = put_together(Case(WRITE), [answer(), answer(operations=30, stored_bytes=16_000)])
    assert 500 == found.metrics["stored_bytes"]
    assert 25 == found.metrics["cpu_seconds_per_1000"]
    assert 2 == found.metrics["conflicts"]


def test_reading_has_no_metrics_of_commits() -> None:
    found = put_together(Case(READ, {"caches": "cold"}), [answer()])
    assert not {"conflicts", "stored_bytes"} & set(found.metrics)
    assert "objects/s" == found.details["unit"]


def test_hot_reading_has_no_latencies() -> None:
    found = put_together(Case(READ, {"caches": "hot"}), [answer(latencies=[])])
    assert {"rate", "cpu_seconds_per_1000"} == set(found.metrics)
