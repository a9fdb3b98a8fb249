"""The phases on a server and without one: all in their order, with results that are checked."""

from __future__ import annotations

import pytest

from indico_zodbrepl.bench.sites.pool import Sites
from indico_zodbrepl.bench.sites.storages import STORAGES
from indico_zodbrepl.bench.suite import Case, Settings
from indico_zodbrepl.bench.suites.phases import CREATE, SUITE
from indico_zodbrepl.errors import OperatorError


def settings(scale: float) -> Settings:
    return Settings(1, 1.0, quick=True, options={"scale": scale})


@pytest.mark.parametrize("storage", ["in-memory", "zeo"])
def test_each_phase_takes_some_time_and_loads_or_stores_records(sites: Sites, storage: str) -> None:
    site = sites.site(STORAGES[storage])
    SUITE.prepare(site, settings(0.05))
    for case in SUITE.cases(settings(0.05), site.storage):
        made = SUITE.measure(case, site, settings(0.05))
        assert made.metrics["seconds"] > 0
        assert made.metrics["records"] > 0


def test_a_query_over_other_data_than_it_should_find_is_an_error(sites: Sites) -> None:
    site = sites.site(STORAGES["filestorage"])
    SUITE.measure(Case(CREATE), site, settings(0.02))
    with pytest.raises(OperatorError) as raised:
        SUITE.measure(Case("sequence-walk"), site, settings(0.05))
    assert "WrongResult" in raised.value.detail
