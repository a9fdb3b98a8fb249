"""One storage in two directories: each is measured where it is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from indico_zodbrepl.bench.sites.pool import Sites
from indico_zodbrepl.bench.sites.storages import STORAGES
from indico_zodbrepl.bench.suite import Made, Settings
from indico_zodbrepl.bench.suites.devices import SUITE
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.errors import OperatorError


@pytest.fixture
def sites(home: Path, tmp_path: Path) -> Iterator[Sites]:
    with Sites(Installation(home), tmp_path, lambda _: None) as opened:
        yield opened


def settings(*directories: str) -> Settings:
    values = {
        option.name: option.default if option.quick is None else option.quick
        for option in SUITE.options
    }
    return Settings(
        1,
        0.3,
        quick=True,
        options=values | {"data-directories": directories, "objects": 200, "fsyncs": 5},
    )


def test_writes_and_cold_reads_are_measured_in_each_directory(sites: Sites, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    wanted = settings("default", str(other))
    storage = STORAGES["zeo"]
    site = sites.site(storage)
    SUITE.prepare(site, wanted)
    assert site.elsewhere(other).folder.parent == other
    assert site.elsewhere(other).pids() != site.pids()
    made = {str(case): SUITE.measure(case, site, wanted) for case in SUITE.cases(wanted, storage)}
    assert 6 == len(made)
    for name, each in made.items():
        _check(name, each)
    written = made[f"write directory {other} interval 0.3"]
    assert written.cpu is not None
    assert {"node-a"} == written.cpu.keys()


def _check(name: str, made: Made) -> None:
    assert made.metrics.keys() == {metric.name for metric in SUITE.metrics}, name
    assert made.metrics["rate"] > 0
    assert {"device", "type", "block_bytes", "rotational"} <= made.details["disk"].keys()
    if name.startswith("write"):
        assert made.details["commits"] == sum(made.details["slices"])
    if name.startswith("read"):
        assert made.details["reads"] == sum(made.details["slices"])
        assert made.details["dropped_files"]


def test_a_directory_that_is_not_there_is_named(sites: Sites, tmp_path: Path) -> None:
    missing = str(tmp_path / "missing")
    with pytest.raises(OperatorError, match="no place") as caught:
        SUITE.prepare(sites.site(STORAGES["filestorage"]), settings(missing))
    assert missing in caught.value.detail
