"""Files are uploaded and downloaded through a scratch Indico, into the database or a folder."""

from __future__ import annotations

import pytest

from indico_zodbrepl.bench.sites.pool import LITTLE, Sites
from indico_zodbrepl.bench.sites.storages import STORAGES
from indico_zodbrepl.bench.suite import settings_of
from indico_zodbrepl.bench.suites.files import SUITE
from indico_zodbrepl.cluster.layout import Layout, blobs

SETTINGS = settings_of(SUITE, quick=True, options={"users": (2,), "megabytes": 4})


@pytest.mark.parametrize("name", ["zrs", "zrs-archive"])
def test_files_are_uploaded_and_downloaded(sites: Sites, name: str) -> None:
    site = sites.site(STORAGES[name], 1, LITTLE)
    SUITE.prepare(site, SETTINGS)
    for case in SUITE.cases(SETTINGS, STORAGES[name]):
        made = SUITE.measure(case, site, SETTINGS)
        assert made.metrics["mb_s"] > 0, case
        assert made.details["requests"] == 4, case
        if case.test == "upload" and name == "zrs":
            assert made.metrics["lag_max_ms"] >= made.metrics["lag_ms"] > 0
    cluster = site.require_cluster()
    archived = [path for path in Layout(cluster).archive.rglob("*.bin") if path.is_file()]
    stored = [list(blobs(node).rglob("*.blob")) for node in cluster.nodes]
    expected = (4, [0, 0]) if name == "zrs-archive" else (0, [4, 4])
    assert expected == (len(archived), [len(each) for each in stored])
