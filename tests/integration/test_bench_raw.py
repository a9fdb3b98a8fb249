"""The raw storage tests with several processes at once, on a server and without one."""

from __future__ import annotations

import contextlib
import signal
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from indico_zodbrepl.bench import processes27
from indico_zodbrepl.bench.sites import together
from indico_zodbrepl.bench.sites.pool import Sites
from indico_zodbrepl.bench.sites.site import Site
from indico_zodbrepl.bench.sites.storages import STORAGES
from indico_zodbrepl.bench.suite import LATENCIES, Case, Made, Settings
from indico_zodbrepl.bench.suites.raw import LATENCY, READ, SUITE, WRITE
from indico_zodbrepl.errors import ExitCode, OperatorError

SETTINGS = Settings(
    1, 0.2, quick=True, options={"processes": (1, 2), "object-bytes": 300, "repetitions": 5}
)


@pytest.fixture(scope="module")
def zeo(sites: Sites) -> Site:
    """One server with objects for two processes."""
    site = sites.site(STORAGES["zeo"])
    SUITE.prepare(site, SETTINGS)
    return site


def measured(site: Site, test: str, **parameters: str | int) -> Made:
    return SUITE.measure(Case(test, {"processes": 1, **parameters}), site, SETTINGS)


def test_two_processes_write_objects_of_their_own_at_once(zeo: Site) -> None:
    made = measured(zeo, WRITE, objects=1, processes=2)
    assert 2 == len(made.details["rates"])
    assert all(rate > 0 for rate in made.details["rates"])
    assert (0, sum(made.details["rates"])) == (made.metrics["conflicts"], made.metrics["rate"])


def test_latencies_are_those_of_so_many_commits(zeo: Site) -> None:
    made = measured(zeo, LATENCY, objects=1)
    assert 5 == made.details["operations"]
    assert {metric.name for metric in LATENCIES} <= set(made.metrics)


@pytest.mark.parametrize(
    ("caches", "loads", "misses"),
    [("cold", True, True), ("warm", True, False), ("hot", False, False)],
)
def test_each_state_of_the_caches_reads_from_where_it_should(
    zeo: Site, caches: str, loads: bool, misses: bool
) -> None:
    made = measured(zeo, READ, caches=caches)
    assert (loads, misses) == (made.details["loads"] > 0, made.details["misses"] > 0)


def test_a_database_in_memory_is_measured_without_being_prepared(sites: Sites) -> None:
    site = sites.site(STORAGES["in-memory"])
    SUITE.prepare(site, SETTINGS)
    assert measured(site, WRITE, objects=100).metrics["rate"] > 0


def test_the_error_of_a_process_is_reported_and_the_others_are_ended(
    zeo: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[subprocess.Popen[str]] = []
    start = processes27.started

    @contextlib.contextmanager
    def noting(*arguments: Any, **named: Any) -> Iterator[subprocess.Popen[str]]:
        with start(*arguments, **named) as process:
            started.append(process)
            yield process

    monkeypatch.setattr(processes27, "started", noting)
    with pytest.raises(OperatorError, match=r"raw failed") as raised:
        together.run(
            zeo,
            "raw",
            [[zeo.zodb_conf, "read", "--share", "0"], [zeo.zodb_conf, "read", "--share", "7"]],
            seconds=60,
        )
    assert "IndexError" in raised.value.detail
    assert [-signal.SIGKILL, 1] == [each.returncode for each in started]


def test_a_process_that_is_late_is_an_error(zeo: Site) -> None:
    with pytest.raises(OperatorError, match="not end in time") as raised:
        together.run(zeo, "raw", [[zeo.zodb_conf, "throughput", "--seconds", "60"]], seconds=0.1)
    assert ExitCode.TIMED_OUT == raised.value.exit_code
