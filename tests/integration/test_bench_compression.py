"""Compression of a loaded Indico's records, on its own file and on a pair of servers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from indico_zodbrepl.bench.sites.pool import Sites
from indico_zodbrepl.bench.sites.site import Amount, Site
from indico_zodbrepl.bench.sites.storages import STORAGES
from indico_zodbrepl.bench.suite import Case, Made, Settings
from indico_zodbrepl.bench.suites.compression import NONE, READ, SUITE, WRITE, ZLIB
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.errors import OperatorError

QUICK = Settings(1, 0.2, quick=True)
FEW = Amount(conferences=5, contributions=2, categories=1)


@pytest.fixture(
    scope="module", params=[pytest.param("filestorage", marks=pytest.mark.exhaustive), "zrs"]
)
def site(
    tmp_path_factory: pytest.TempPathFactory, home: Path, request: pytest.FixtureRequest
) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("sites")
    with Sites(Installation(home), folder, lambda _: None) as sites:
        made = sites.site(STORAGES[request.param], indico=1, amount=FEW)
        SUITE.prepare(made, QUICK)
        yield made


def measured(site: Site, test: str, compression: str) -> Made:
    return SUITE.measure(Case(test, {"compression": compression}), site, QUICK)


def test_there_is_nothing_to_be_read_before_something_was_written(site: Site) -> None:
    with pytest.raises(OperatorError, match="nothing to be read"):
        measured(site, READ, NONE)


def test_data_files_grow_less_with_compression_and_those_of_followers_too(site: Site) -> None:
    plain, compressed = (measured(site, WRITE, each) for each in (NONE, ZLIB))
    assert compressed.metrics["size_percent"] < plain.metrics["size_percent"]
    for made in (plain, compressed):
        assert made.details["records"] == 10 * made.details["operations"]
        if site.storage.followers:
            assert made.metrics["follower_record_bytes"] == made.metrics["record_bytes"]


@pytest.mark.parametrize("compression", [pytest.param(NONE, marks=pytest.mark.exhaustive), ZLIB])
def test_what_was_written_is_read(site: Site, compression: str) -> None:
    wrote = measured(site, WRITE, compression)
    read = measured(site, READ, compression)
    assert 0 < read.details["records"] <= wrote.details["records"]
    assert read.metrics["p50_ms"] > 0
