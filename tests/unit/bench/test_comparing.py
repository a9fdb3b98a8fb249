"""A difference is told only where the rounds of two runs do not reach each other."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from indico_zodbrepl.bench import comparing
from indico_zodbrepl.bench.comparing import Verdict
from indico_zodbrepl.bench.results import Measurement, Run
from indico_zodbrepl.bench.suite import Better, Metric
from indico_zodbrepl.bench.suites.in_app import SUITE
from indico_zodbrepl.bench.summary import Spread

RATE = Metric("rate", "rate", "commits/s", Better.HIGHER)
LATENCY = Metric("p50_ms", "median", "ms", Better.LOWER)
SIZE = Metric("stored_bytes", "stored", "bytes", Better.LOWER)
LOADS = Metric("loads", "loads", "an operation", Better.NEITHER)
ENVIRONMENT: dict[str, Any] = {
    "cpu": "a CPU",
    "cores": 2,
    "load_before": (0.1, 0.1, 0.1),
    "disk": {"device": "/dev/sda", "type": "ext4", "free_bytes": 5},
}


def run_of(*rates: float, test: str = "write", **changed: Any) -> Run:
    made = tuple(
        Measurement("zeo", test, {"caches": "hot"}, number, {"rate": rate, "p50_ms": 1000 / rate})
        for number, rate in enumerate(rates, 1)
    )
    settings = {"rounds": 2, "seconds": 1.0, "quick": False, "options": {"test": ["write"]}}
    return dataclasses.replace(
        Run(
            Path("x"),
            SUITE.name,
            1.0,
            2.0,
            len(made),
            "demo",
            "zeo",
            settings,
            ENVIRONMENT,
            {"ZODB": "5.8.1"},
            {"zeo": "name x\n  storage-port 1\n"},
            measurements=made,
        ),
        **changed,
    )


@pytest.mark.parametrize(
    ("metric", "old", "new", "expected"),
    [
        (RATE, (1, 2), (3, 4), Verdict.FASTER),
        (RATE, (3, 4), (1, 2), Verdict.SLOWER),
        (RATE, (1, 3), (2, 4), Verdict.NONE),
        (RATE, (1, 2), (2, 3), Verdict.NONE),
        (RATE, (1, 9), (2, 3), Verdict.NONE),
        (LATENCY, (1, 2), (3, 4), Verdict.SLOWER),
        (LATENCY, (3, 4), (1, 2), Verdict.FASTER),
        (SIZE, (3, 4), (1, 2), Verdict.LESS),
        (LOADS, (1, 2), (3, 4), Verdict.MORE),
    ],
)
def test_what_rounds_show(
    metric: Metric, old: tuple[float, float], new: tuple[float, float], expected: Verdict
) -> None:
    before, after = (Spread(sum(each) / 2, *each) for each in (old, new))
    assert expected == comparing.verdict(metric, before, after, 2)
    assert Verdict.ONE_ROUND == comparing.verdict(metric, before, after, 1)


def test_medians_are_side_by_side_with_their_ratio() -> None:
    found = comparing.compare(run_of(10, 12), run_of(20, 24), SUITE)
    rate, latency = found.pairs
    assert (11, 22, 2, Verdict.FASTER) == (
        rate.old.median,
        rate.new.median,
        rate.ratio,
        rate.verdict,
    )
    assert (latency.metric.name, Verdict.FASTER) == ("p50_ms", latency.verdict)
    assert (latency.suite, latency.storage, latency.test) == ("in-app", "zeo", "write")
    assert ([], [], []) == (list(found.notes), found.only_old, found.only_new)


def test_what_only_one_run_has_is_named() -> None:
    found = comparing.compare(run_of(10, 12), run_of(20, 24, test="read"), SUITE)
    assert not found.pairs
    assert (["zeo: write caches hot"], ["zeo: read caches hot"]) == (found.only_old, found.only_new)


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"environment": ENVIRONMENT | {"cpu": "another"}}, "cpu: a CPU, now another"),
        (
            {"environment": ENVIRONMENT | {"disk": {"device": "/dev/sda", "type": "xfs"}}},
            "disk, type: ext4, now xfs",
        ),
        (
            {"environment": ENVIRONMENT | {"load_before": (9.5, 1, 1)}},
            "the machine was busy before the new run: load 9.5, 2 cores",
        ),
        ({"versions": {"ZODB": "6"}}, "version of ZODB: 5.8.1, now 6"),
        (
            {
                "settings": {
                    "rounds": 2,
                    "seconds": 5.0,
                    "quick": False,
                    "options": {"test": ["write"]},
                }
            },
            "seconds: 1.0, now 5.0",
        ),
        (
            {
                "settings": {
                    "rounds": 2,
                    "seconds": 1.0,
                    "quick": False,
                    "options": {"test": ["a", "b"]},
                }
            },
            "--test: write, now a,b",
        ),
        (
            {"configs": {"zeo": "name y\n"}},
            "the cluster files of zeo differ in more than ports and folders",
        ),
        ({"planned": 7}, "the new run has 2 of 7 measurements"),
    ],
)
def test_what_else_differs_is_noted(changed: dict[str, Any], expected: str) -> None:
    assert [expected] == list(comparing.notes(run_of(10, 12), run_of(10, 12, **changed)))


def test_ports_and_folders_of_scratch_clusters_are_no_difference() -> None:
    other = run_of(10, 12, configs={"zeo": "name x\n  storage-port 2\n"})
    assert not list(comparing.notes(run_of(10, 12), other))


def test_a_median_of_zero_has_no_ratio() -> None:
    measured = Measurement("zeo", "t", {}, 1, {"conflicts": 0})
    run = dataclasses.replace(run_of(), measurements=(measured,), planned=1)
    (found,) = comparing.compare(run, run, SUITE).pairs
    assert found.ratio is None


@pytest.mark.parametrize(
    "environment",
    [{}, {"load_before": "x", "cores": 2}, {"load_before": [], "cores": None, "disk": 1}],
)
def test_environments_of_any_form_are_compared(environment: dict[str, Any]) -> None:
    old, new = (run_of(1, 2, environment=environment) for _ in range(2))
    assert [] == list(comparing.compare(old, new, SUITE).notes)
