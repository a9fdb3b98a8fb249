"""What a plan would lose is named, from an export that is there or from the data file itself."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from fake_world import PLAN
from test_exports import HOME, commit, export

from indico_zodbrepl.cluster import Cluster, load
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.operations import exports as module
from indico_zodbrepl.operations.exports import AtStake, at_stake
from indico_zodbrepl.operations.model import Loss


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    path = tmp_path / "cluster.conf"
    path.write_text((HOME / "etc" / "cluster.conf").read_text())
    made = load(path, tmp_path)
    made.node("a").data_directory.mkdir(parents=True)
    return made


def looked(
    cluster: Cluster, after: str | None, count: int | None = 2, *, exact: bool = True
) -> AtStake:
    loss = Loss("a", count, None, exact, after, "something")
    return at_stake(cluster, Installation(HOME), dataclasses.replace(PLAN, loss=loss))


def test_what_was_not_exported_is_listed_and_leaves_nothing_behind(cluster: Cluster) -> None:
    common = commit(cluster, 2)
    commit(cluster, 2)
    before = sorted(cluster.var_directory.iterdir())
    assert AtStake(("and 2 more objects",)) == looked(cluster, common)
    assert before == sorted(cluster.var_directory.iterdir())


def test_an_export_that_has_it_is_named(cluster: Cluster) -> None:
    common = commit(cluster, 2)
    commit(cluster, 2)
    export(cluster, common, "a-2-x")
    assert AtStake(("and 2 more objects",), "a-2-x") == looked(cluster, common)


def test_where_nothing_is_lost_nothing_is_at_stake(cluster: Cluster) -> None:
    assert AtStake() == at_stake(cluster, Installation(HOME), PLAN)
    assert AtStake() == looked(cluster, "0" * 16, 0)


def test_what_can_not_be_listed_is_said_with_the_reason(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    common = commit(cluster, 1)
    monkeypatch.setattr(module, "MOST_TRANSACTIONS", 2)
    assert "could not be compared" in looked(cluster, common, exact=False).unknown
    assert "where it begins" in looked(cluster, None).unknown
    assert "too many" in looked(cluster, common, 3).unknown
    assert "has no transaction" in looked(cluster, "1" * 16).unknown
    neo = dataclasses.replace(cluster, backend="neo")
    assert "its engine" in looked(neo, common).unknown
