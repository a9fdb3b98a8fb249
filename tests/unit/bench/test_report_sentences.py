"""The report's sentences say what their data shows, and no more."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from report_runs import ENVIRONMENT, about, failed, made, rounds, run

from indico_zodbrepl.bench.report import sentences, special
from indico_zodbrepl.bench.report.sentences import Sentence, Tone
from indico_zodbrepl.bench.results import Measurement

RATES = st.lists(st.floats(1, 1e6), min_size=1, max_size=5)


def texts(found: Iterable[Sentence]) -> list[str]:
    return [each.text for each in found]


def of_run(*measurements: Measurement, **changed: Any) -> list[str]:
    return texts(sentences.of_run(about(measurements, **changed)))


def compared(*measurements: Measurement) -> list[str]:
    found = about(measurements)
    return [sentences.said(found, each).text for each in sentences.all_of(found)]


def test_a_quick_run_is_an_alarm() -> None:
    quick = {"quick": True, "storages": {}}
    first = next(iter(sentences.of_run(about([made()], settings=quick))))
    assert (sentences.QUICK, Tone.ALARM) == (first.text, first.tone)


def test_one_round_has_no_spread() -> None:
    assert sentences.ONE_ROUND in of_run(made())


def test_several_rounds_have_one() -> None:
    assert sentences.ONE_ROUND not in of_run(*rounds("zeo", 1, 2))


@settings(deadline=None)
@given(st.integers(2, 5))
def test_what_chance_does_is_told_of_few_rounds(count: int) -> None:
    said = of_run(*rounds("zeo", *[1] * count), *rounds("zrs", *[2] * count))
    assert any(f"in 1 of {2 ** (count - 1)} comparisons" in text for text in said)


def test_an_interrupted_run_says_how_much_there_is() -> None:
    assert "Interrupted: 1 of 40 measurements were made; the figures rest on these." in of_run(
        made(), planned=40
    )


def test_a_run_that_has_not_ended_says_so() -> None:
    assert any(text.startswith("This run had not ended") for text in of_run(made(), ended=None))


def test_a_complete_run_is_not_called_interrupted() -> None:
    assert not list(sentences.completeness(run([made()])))


def test_failed_measurements_are_counted() -> None:
    assert any(
        text.startswith("1 of 2 measurements failed") for text in of_run(made(), failed("zeo", 2))
    )


@pytest.mark.parametrize(("load", "busy"), [(0.1, False), (1.0, False), (3.1, True)])
def test_a_machine_is_busy_from_half_of_its_cores_on(load: float, busy: bool) -> None:
    (said,) = texts(sentences.of_load({**ENVIRONMENT, "load_before": [load, 0, 0]}))
    assert busy == said.startswith("The machine was busy")
    assert f"load {load:g} on 2 cores" in said


@pytest.mark.parametrize("environment", [{}, {"load_before": "x", "cores": 2}, {"cores": None}])
def test_nothing_is_said_of_a_load_that_is_not_known(environment: dict[str, object]) -> None:
    assert not list(sentences.of_load(environment))


def test_storages_without_servers_have_no_network_to_speak_of() -> None:
    assert sentences.ONE_HOST in of_run(made("zeo"))
    assert sentences.ONE_HOST not in of_run(made("filestorage"))


def test_more_programs_than_cores_are_reported() -> None:
    cpu = {"a": 1.0, "b": 1.0, "c": 1.0}
    assert any("ZRS, 2 direct (3)" in text for text in of_run(made("zrs-2-direct", cpu=cpu)))
    assert not any("More programs" in text for text in of_run(made("zeo", cpu={"a": 1.0})))
    idle = {"a": 1.0, "b": 0.0, "c": 0.0}
    assert not any("More programs" in text for text in of_run(made("zrs-2-direct", cpu=idle)))


def test_a_ratio_is_reported_with_its_range_and_rounds() -> None:
    unit = {"unit": "commits/s"}
    (said,) = compared(
        *rounds("zeo", 100, 100, 100, details=unit), *rounds("zrs", 96, 93, 97, details=unit)
    )
    assert said == (
        "ZRS, 1 secondary made 0.96 times as many commits a second as ZEO (0.93 to "
        "0.97 in 3 rounds), less in every round."
    )


def test_a_ratio_of_many_rounds_is_reported_with_its_confidence_interval() -> None:
    lower = [90.0, 91, 92, 93, 94, 95, 96, 97, 98, 120]
    (said,) = compared(*rounds("zeo", *(10 * [100.0])), *rounds("zrs", *lower))
    assert said == (
        "\u201crate (1/s)\u201d of ZRS, 1 secondary was 0.94 times that of ZEO (0.91 to "
        "0.98 with 95 % confidence, 10 rounds): less."
    )
    (said,) = compared(*rounds("zeo", *(10 * [96.0])), *rounds("zrs", *lower))
    assert said == (
        "No difference between ZRS, 1 secondary and ZEO is shown: their ratio may be 1 (0.95 to "
        "1.02 with 95 % confidence, 10 rounds)."
    )


def test_one_round_has_a_ratio_without_a_range() -> None:
    assert [
        "\u201crate (1/s)\u201d of ZRS, 1 secondary was 0.50 times that of ZEO (one round)."
    ] == compared(made("zeo"), made("zrs", rate=50.0))


def test_a_storage_is_compared_with_the_plain_one_that_its_details_name() -> None:
    plain = {"plain": "postgresql"}
    (said,) = compared(
        made("zeo"),
        made("postgresql", rate=10, details=plain),
        made("postgresql-sync", rate=5, details=plain),
    )
    assert said == (
        "\u201crate (1/s)\u201d of PostgreSQL, synchronous was 0.50 times that of "
        "PostgreSQL alone (one round)."
    )


@settings(deadline=None)
@given(RATES, RATES)
def test_a_difference_is_only_reported_when_all_rounds_agree(
    zeo: list[float], zrs: list[float]
) -> None:
    (said,) = compared(*rounds("zeo", *zeo), *rounds("zrs", *zrs))
    ratios = [two / one for one, two in zip(zeo, zrs, strict=False)]
    if len(ratios) == 1:
        assert said.endswith("(one round).")
        return
    assert f"in {len(ratios)} rounds" in said
    assert (max(ratios) < 1) == said.endswith("less in every round.")
    assert (min(ratios) > 1) == said.endswith("more in every round.")
    assert (min(ratios) <= 1 <= max(ratios)) == said.startswith("No difference")


@settings(deadline=None)
@given(RATES, RATES, RATES)
def test_the_best_is_best_and_overlapping_ranges_are_no_difference(
    zeo: list[float], zrs: list[float], neo: list[float]
) -> None:
    measured = {"ZEO": zeo, "ZRS, 1 secondary": zrs, "NEO, no replica": neo}
    having = {name: sorted(rates) for name, rates in measured.items() if len(rates) > 1}
    said = list(
        sentences.best(about([*rounds("zeo", *zeo), *rounds("zrs", *zrs), *rounds("neo", *neo)]))
    )
    assert (len(having) > 1) == bool(said)
    for text in texts(said):
        found = re.search(r"is that of (ZEO|ZRS, 1 secondary|NEO, no replica):", text)
        assert found
        own = having.pop(found[1])
        for name, rates in having.items():
            overlap = own[0] <= rates[-1] and rates[0] <= own[-1]
            assert overlap == (name in text.partition("No difference")[2])


def test_many_cases_are_reported_in_sum() -> None:
    found = about(
        [
            each
            for number in range(4)
            for each in (
                *rounds("zeo", 100, 100, parameters={"n": number}),
                *rounds("zrs", 90 + 10 * number, 91 + 10 * number, parameters={"n": number}),
            )
        ]
    )
    (text,) = texts(sentences.in_sum(found, sentences.all_of(found)))
    assert text == (
        "\u201crate (1/s)\u201d of ZRS, 1 secondary to that of ZEO, 4 cases: the "
        "median of the ratios is between 0.91 (write, n 0) and 1.21 (write, n 3); less "
        "in every round in 1 of 4 cases, more in every round in 2, no difference shown "
        "in 1."
    )


def test_a_sum_is_of_one_metric_and_names_no_unit_that_not_all_have() -> None:
    found = about(
        [
            each
            for storage, rate in (("zeo", 100.0), ("zrs", 50.0))
            for each in (
                made(storage, rate=rate, test="write", details={"unit": "commits/s"}),
                made(storage, rate=rate, test="read", details={"unit": "objects/s"}),
                made(storage, test="backup", metrics={"backup_seconds": 1 / rate}),
            )
        ]
    )
    rates, seconds = texts(sentences.in_sum(found, sentences.all_of(found)))
    assert rates.startswith("\u201crate\u201d of ZRS, 1 secondary to that of ZEO, 2 cases")
    assert seconds.startswith("\u201cbackup (seconds)\u201d of ZRS, 1 secondary to that")


def test_devices_are_compared_within_a_storage() -> None:
    found = about(
        [
            *rounds("zeo", 100, 100, parameters={"directory": "default"}),
            *rounds("zeo", 200, 300, parameters={"directory": "/fast"}),
        ],
        suite="devices",
    )
    (said,) = texts(special.of(found))
    assert said == (
        "With directory /fast the rate of ZEO was 2.50 times that with default (2.00 "
        "to 3.00 in 2 rounds)."
    )


def backups(*rates: float, source: str) -> list[Measurement]:
    return [
        made(
            "zrs",
            number,
            metrics={"rate_ratio": each},
            test="commits",
            parameters={"kind": "full" if source != "none" else "none", "from": source},
        )
        for number, each in enumerate(rates, 1)
    ]


def test_a_backup_slows_only_what_is_slower_than_by_chance() -> None:
    found = about(
        [
            *backups(0.97, 1.02, source="none"),
            *backups(0.5, 0.6, source="primary"),
            *backups(0.96, 1.0, source="secondary"),
        ],
        suite="backup",
    )
    quiet, primary, secondary = texts(special.of(found))
    assert quiet.endswith("so much is chance.")
    assert primary.endswith("less in every round than in any without backups.")
    assert secondary.endswith("no slowing is shown: the range overlaps that without backups.")


def test_where_there_is_no_lag_by_construction_that_is_reported_once() -> None:
    details = {"lag": "none: a commit is acknowledged once all copies have it"}
    found = about(
        [made("neo-1", details=details), made("neo-1", 2, details=details)], suite="replication"
    )
    (said,) = texts(special.of(found))
    assert said == (
        "Lag of NEO, 1 replica is 0 by construction: a commit is acknowledged once all "
        "copies have it."
    )


def test_a_storage_that_never_syncs_is_named() -> None:
    found = about(
        [made("neo", metrics={"fsyncs": 0.0}), made("zeo", metrics={"fsyncs": 1.0})], suite="writes"
    )
    (text,) = texts(special.of(found))
    assert text.startswith("No fsync was seen in the commits of NEO, no replica")
