"""Which cases the suite has, who counts as a follower, and which processes belong together."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from indico_zodbrepl.bench.machine import Process, family
from indico_zodbrepl.bench.sites import pinning, replication_nodes
from indico_zodbrepl.bench.sites.site import Site
from indico_zodbrepl.bench.sites.storages import STORAGES
from indico_zodbrepl.bench.suite import Settings
from indico_zodbrepl.bench.suites.replication import SUITE
from indico_zodbrepl.cluster import Cluster, load
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.errors import OperatorError


def settings(**changed: Any) -> Settings:
    options = {option.name: option.default for option in SUITE.options} | changed
    return Settings(1, 1.0, options=options)


def cluster_of(name: str, folder: Path) -> Cluster:
    """That of a storage, from the very file that its site would have."""
    site = Site(STORAGES[name], folder, Installation(folder))
    path = folder / "cluster.conf"
    path.write_text(site._cluster_file())
    return load(path, folder)


def test_all_operations_are_done_by_one_process_and_by_several() -> None:
    found = [str(case) for case in SUITE.cases(settings(), STORAGES["zrs"])]
    assert found == [
        "commits transaction small processes 1",
        "commits transaction small processes 4",
        "commits transaction large processes 1",
        "commits transaction large processes 4",
        "commits transaction indico processes 1",
        "commits transaction indico processes 4",
        "reads processes 1",
        "reads processes 4",
    ]


def test_pinned_cases_are_not_mixed_up_with_others() -> None:
    found = SUITE.cases(
        settings(pinned="yes", operations=("read",), processes=(1,)), STORAGES["zrs"]
    )
    assert [str(case) for case in found] == ["reads processes 1 pinned yes"]


def test_a_storage_without_servers_has_nothing_that_could_follow() -> None:
    assert SUITE.unfit(STORAGES["filestorage"])
    assert SUITE.unfit(STORAGES["sqlite"])
    assert not any(SUITE.unfit(STORAGES[name]) for name in SUITE.storages)


@pytest.mark.parametrize(
    ("name", "followers", "observable"),
    [
        ("zeo", "", ""),
        ("zrs-0", "", ""),
        ("zrs", "b", "b"),
        ("zrs-sync", "b", "b"),
        ("zrs-2-direct", "bc", "bc"),
        ("zrs-2-serial", "bc", "bc"),
        ("postgresql-sync", "b", "b"),
        ("mariadb", "", ""),
    ],
)
def test_followers_are_the_nodes_with_an_upstream(
    name: str, followers: str, observable: str, tmp_path: Path
) -> None:
    cluster = cluster_of(name, tmp_path)
    assert followers == "".join(node.name for node in replication_nodes.followers(cluster))
    assert observable == "".join(node.name for node in replication_nodes.observable(cluster))


@pytest.mark.parametrize(
    ("name", "followers"), [("neo", []), ("neo-1", ["s2"]), ("neo-2", ["s2", "s3"])]
)
def test_neo_s_replicas_count_as_followers_and_can_t_lag(
    name: str, followers: list[str], tmp_path: Path
) -> None:
    cluster = cluster_of(name, tmp_path)
    assert followers == [node.name for node in replication_nodes.followers(cluster)]
    assert () == replication_nodes.observable(cluster)


def test_a_process_takes_all_its_descendants_with_it() -> None:
    there = {
        pid: Process(parent, ended=False, cpu_seconds=0.0)
        for pid, parent in ((1, 0), (10, 1), (11, 10), (12, 11), (20, 1), (21, 20))
    }
    assert family([10], there) == {10, 11, 12}
    assert family([11, 20, 99], there) == {11, 12, 20, 21}


def test_followers_get_all_cores_but_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {4, 2, 3})
    assert pinning.cores() == pinning.Cores((2,), (3, 4))


def test_on_one_core_pinning_is_refused_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})
    with pytest.raises(OperatorError, match="core of their own") as raised:
        pinning.cores()
    assert "without pinning" in raised.value.hint
