"""Figures of each suite are drawn of what its measurements have, and of nothing else."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from report_runs import about, made, rounds

from indico_zodbrepl.bench.report import drawing, figures, wording
from indico_zodbrepl.bench.report.subject import Subject
from indico_zodbrepl.bench.results import Measurement
from indico_zodbrepl.bench.sites.storages import STORAGES

TRIALS = [
    {"rate": rate, "latency_ms": {"p99": 10 * rate}, "broken": "" if rate < 20 else "late"}
    for rate in (10.0, 20.0, 15.0)
]
SLICES = [5, 6, 7, 8]
WINDOW = {"slices": SLICES, "seconds": 4.2}


def of_suite(suite: str) -> list[Measurement]:
    """What a suite measures, of one or two cases on one or two storages."""
    return {
        "zodbshootout": [
            each
            for storage in ("zeo", "zrs")
            for count in (1, 10, 40)
            for test in ("add", "cold")
            for each in rounds(
                storage,
                100 * count,
                110 * count,
                test=test,
                parameters={"objects": 100, "concurrency": count},
            )
        ],
        "phases": [
            made(
                storage,
                test=test,
                parameters={},
                metrics={"seconds": 3.0, "create_seconds": 1.0, "commit_seconds": 2.0},
            )
            for storage in ("in-memory", "zeo")
            for test in ("create", "sequence-walk")
        ],
        "http": rounds(
            "zeo",
            15,
            16,
            test="highest rate",
            parameters={"workers": 1},
            details={
                "trials": TRIALS,
                "limit": {"ms": 100.0, "percentile": 99},
                "saturated": "worker CPU",
                "saturated_why": "it used all of a core",
            },
        ),
        "devices": [
            made(parameters={"directory": name}, details={"slices": SLICES})
            for name in ("default", "/fast")
        ],
        "writes": [
            made(
                metrics={"fsyncs": 1.0, "written_bytes": 5000.0, "amplification": 5.0},
                details={
                    "commits": 10,
                    "files": {
                        "data": {"sizes": {"1": 10, "4096": 15}},
                        "index": {"sizes": {"512": 2}},
                        "socket": {"sizes": {"64": 99}},
                    },
                },
            )
        ],
        "compression": [
            made("zeo", rate=rate, parameters={"compression": name})
            for name, rate in (("none", 100.0), ("zlib", 90.0))
        ],
        "backup": [
            made(
                "zrs",
                test="commits",
                parameters={"from": source, "kind": "full"},
                metrics={"rate": 100.0, "rate_ratio": 0.9},
                details={"windows": [WINDOW] * 3},
            )
            for source in ("none", "primary")
        ],
        "replication": [
            made(
                storage,
                metrics={
                    "rate": 1.0,
                    "primary_cpu_ms": 1.0,
                    **(
                        {"lag_p50_ms": 0.0, "lag_p99_ms": 2.0, "lag_max_ms": 3.0}
                        if storage == "zrs"
                        else {}
                    ),
                },
            )
            for storage in ("zeo", "zrs")
        ],
    }.get(suite, [*rounds("zeo", 1, 2), *rounds("zrs", 2, 3)])


EXPECTED = {
    "zodbshootout": ("zodbshootout-concurrency-100", "zodbshootout-ratio-add"),
    "phases": ("phases-seconds", "phases-ratio-create"),
    "http": ("http-highest-rate", "http-latency-over-rate", "http-latency-highest-rate"),
    "devices": ("devices-by-directory-rate", "devices-over-time", "devices-rate-write"),
    "writes": (
        "writes-sizes-write-objects-100",
        "writes-fsyncs-write",
        "writes-written-bytes-write",
        "writes-amplification-write",
    ),
    "compression": ("compression-by-compression-rate", "compression-rate-write"),
    "backup": ("backup-rate-ratio-commits", "backup-over-time", "backup-rate-commits"),
    "replication": (
        "replication-ratio-write",
        "replication-lag-write",
        "replication-primary-cpu-ms-write",
        "replication-rate-write",
    ),
    "in-app": ("in-app-rate-write", "in-app-latency-write", "in-app-ratio-write"),
    "raw": ("raw-rate-write", "raw-latency-write", "raw-ratio-write"),
    "of a later version": ("of-a-later-version-rate-write",),
}


def named(subject: Subject) -> list[str]:
    drawn, problems = figures.of(subject)
    assert not problems
    assert all(each.caption for each in drawn)
    return [each.name for each in drawn]


@pytest.mark.parametrize("suite", EXPECTED)
def test_each_suite_has_its_figures(suite: str) -> None:
    names = named(about(of_suite(suite), suite=suite))
    assert set(EXPECTED[suite]) <= set(names)
    assert len(names) == len(set(names))


@pytest.mark.parametrize("suite", EXPECTED)
def test_without_measurements_nothing_is_drawn(suite: str) -> None:
    assert not named(about([], suite=suite))


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda each: (
        st.lists(each, max_size=3) | st.dictionaries(st.text(max_size=4), each, max_size=3)
    ),
    max_leaves=6,
)


@pytest.mark.parametrize("suite", ["http", "devices", "writes", "backup", "replication"])
@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_details_of_any_form_are_no_error(suite: str, data: st.DataObject) -> None:
    measured = of_suite(suite)[0]
    changed: dict[str, Any] = {name: data.draw(ANYTHING) for name in measured.details}
    named(
        about(
            [
                made(
                    measured.storage,
                    test=measured.test,
                    parameters=measured.parameters,
                    metrics=measured.metrics,
                    details=changed,
                )
            ],
            suite=suite,
        )
    )


@given(ANYTHING)
@settings(deadline=None)
def test_only_what_can_be_drawn_is_taken_from_details(value: Any) -> None:
    for found in (wording.numbers(value), wording.numbers([value])):
        assert all(abs(each) < 1e15 for each in found)
    assert all(isinstance(each, float) for pair in wording.by_number(value) for each in pair)
    assert not wording.mapping(value) or wording.mapping(value) is value
    assert all(isinstance(each, dict) for each in wording.records(value))


@pytest.mark.parametrize("name", [*STORAGES, "configured", "unknown"])
def test_a_storages_colour_can_be_seen_on_white_and_on_dark(name: str) -> None:
    for background in ("#ffffff", "#16191d"):
        assert contrast(drawing.style(name).colour, background) >= 3


def test_each_storage_has_a_look_of_its_own() -> None:
    styles = [drawing.style(name) for name in STORAGES]
    assert len(set(styles)) == len(styles)
    assert drawing.OTHER not in styles


def contrast(one: str, other: str) -> float:
    """As WCAG defines it."""
    light, dark = sorted(map(luminance, (one, other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def luminance(colour: str) -> float:
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = (
        each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4 for each in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize(("fastest", "scale"), [(400.0, "linear"), (40_000.0, "log")])
def test_values_too_far_apart_for_one_axis_have_a_logarithmic_one(
    fastest: float, scale: str
) -> None:
    found = about([*rounds("zeo", 100.0), *rounds("zrs", fastest)], suite="raw")
    [figure] = [each.figure for each in figures.of(found)[0] if each.name == "raw-rate-write"]
    assert scale == figure.axes[0].get_xscale()
