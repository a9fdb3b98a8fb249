"""`bench all` with its defaults ends in an evening, so that people run it."""

from __future__ import annotations

from pathlib import Path

from runs import cluster_in

from indico_zodbrepl.bench import suite as suites

MOST_MINUTES = 90
"""Of measurements, by their settings; preparation and what has no duration takes as long again."""


def test_all_suites_measure_for_an_hour_and_a_half_at_most(tmp_path: Path) -> None:
    cluster = cluster_in(tmp_path)
    seconds = 0.0
    for suite in map(suites.suite, suites.known()):
        settings = suites.settings_of(suite)
        cases = sum(
            len(suite.cases(settings, storage))
            for storage in suites.storages_of(suite, (), cluster, quick=False)
            if not suite.unfit(storage)
        )
        seconds += cases * settings.rounds * settings.seconds
    assert 0 < seconds / 60 <= MOST_MINUTES
