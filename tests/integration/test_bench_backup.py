"""Backups of a pair that replicates, by themselves and while somebody commits."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from indico_zodbrepl.bench.sites.pool import Sites
from indico_zodbrepl.bench.sites.storages import STORAGES
from indico_zodbrepl.bench.suite import Settings
from indico_zodbrepl.bench.suites.backup import SUITE
from indico_zodbrepl.cluster.installation import Installation

SETTINGS = Settings(
    1,
    0.4,
    quick=True,
    options={
        option.name: option.default if option.quick is None else option.quick
        for option in SUITE.options
    }
    | {"kinds": ("full", "incremental"), "megabytes": 1},
)


@pytest.fixture
def sites(home: Path, tmp_path: Path) -> Iterator[Sites]:
    with Sites(Installation(home), tmp_path, lambda _: None) as opened:
        yield opened


def test_both_kinds_by_themselves_and_while_somebody_commits(sites: Sites) -> None:
    storage = STORAGES["zrs"]
    site = sites.site(storage)
    SUITE.prepare(site, SETTINGS)
    for case in SUITE.cases(SETTINGS, storage):
        if case.test == "commits" and case.parameters["from"] == "primary":
            continue  # as from the secondary
        made = SUITE.measure(case, site, SETTINGS)
        kind = case.parameters["kind"]
        assert {kind} - {"none"} == {each["kind"] for each in made.details.get("backups", ())}, case
        if case.test == "commits":
            assert 3 == len(made.details["windows"])
            assert made.metrics["rate_ratio"] > 0, case
        if kind == "full":
            assert made.metrics["backup_mb"] >= 1
            assert made.details["progress"], case
    assert not (site.folder / "backups").exists()
