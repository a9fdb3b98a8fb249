"""Pages of a real Indico under load: rates, who was busy, and storages with one process."""

from __future__ import annotations

from pathlib import Path

import pytest

from indico_zodbrepl.bench.runner import make
from indico_zodbrepl.bench.sites.pool import Sites
from indico_zodbrepl.bench.sites.site import Amount
from indico_zodbrepl.bench.sites.storages import STORAGES
from indico_zodbrepl.bench.suite import Settings
from indico_zodbrepl.bench.suites.http import SUITE
from indico_zodbrepl.bench.suites.http_saturation import Saturated
from indico_zodbrepl.bench.suites.http_trials import MIX

FEW = Amount(10, 3, 2)


def settings(**options: object) -> Settings:
    values = {
        each.name: each.default if each.quick is None else each.quick for each in SUITE.options
    }
    return Settings(
        1, 1.0, True, values | {name.replace("_", "-"): value for name, value in options.items()}
    )


@pytest.mark.parametrize(
    "storage", [pytest.param("filestorage", marks=pytest.mark.exhaustive), "zeo"]
)
def test_every_page_is_answered_and_the_programs_that_did_it_are_reported(
    sites: Sites, tmp_path: Path, storage: str
) -> None:
    site = sites.site(STORAGES[storage], 2, FEW)
    assert site.cluster
    run = make(
        SUITE,
        [site.storage],
        settings(rate=10.0, indico=2, timeout=60.0, limit_ms=60_000.0),
        sites,
        cluster=site.cluster,
        folder=tmp_path / "run",
        told=lambda _: None,
    )
    assert run.is_complete
    assert {} == run.left_out
    workers = [each.parameters["workers"] for each in run.measurements]
    assert ([1] if storage == "filestorage" else [1, 2]) == workers
    for each in run.measurements:
        assert "" == each.error
        (trial,) = each.details["trials"]
        assert (10, 10, 0) == (trial["scheduled"], trial["answered"], trial["dropped"])
        assert {} == trial["failures"]
        assert set(each.details["pages"]) == set(MIX)
        assert each.parameters["workers"] == len(trial["shares"]["workers"])
        assert all(share > 0 for share in trial["shares"]["workers"].values())
        assert ("storage_cpu_ms" in each.metrics) == (storage == "zeo")
        assert each.metrics["worker_cpu_ms"] > 0
        assert each.metrics["storage_call_ms"] > 0
        assert each.parameters["workers"] == len(trial["shares"]["calls"])


@pytest.mark.exhaustive
def test_a_quick_search_finds_a_rate(sites: Sites) -> None:
    site = sites.site(STORAGES["zeo"], 2, FEW)
    patient = settings(timeout=60.0, limit_ms=60_000.0)
    SUITE.prepare(site, patient)
    found = SUITE.measure(SUITE.cases(patient, site.storage)[0], site, patient)
    assert len(found.details["trials"]) <= 3
    assert found.metrics["rate"] > 0
    assert found.details["saturated"] in set(Saturated)
