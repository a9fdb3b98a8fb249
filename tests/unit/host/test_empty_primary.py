"""A node without a transaction becomes the primary only if the database is known to be empty."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from two_hosts import CONF

from indico_zodbrepl.cluster import Cluster, Node, load
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.cluster.layout import data_fs
from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.host import confirmed_commits, peers, roles, state
from indico_zodbrepl.host.server_control import NoServerError

SILENT = "it is unknown if node b has some"


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    """Return the cluster as host one sees it: that of the primary, node b, does not answer."""
    file = tmp_path / "cluster.conf"
    file.write_text(CONF.format(folder=tmp_path))
    return dataclasses.replace(load(file, tmp_path), here="one")


@pytest.fixture
def a(cluster: Cluster) -> Node:
    node = cluster.node("a")
    node.data_directory.mkdir(parents=True)
    data_fs(node).write_bytes(b"FS21")
    return node


def lead(cluster: Cluster, node: Node) -> None:
    installation = Installation(cluster.var_directory)
    roles.lead(cluster, installation, node.name, epoch=2, until=0.0)


def test_a_follower_that_has_seen_an_empty_primary_replaces_it(cluster: Cluster, a: Node) -> None:
    """It could never be replaced otherwise: its host is lost."""
    confirmed_commits.settle(cluster, a, None, 0)
    with pytest.raises(NoServerError):  # everything before the order to its server is done
        lead(cluster, a)
    assert state.current(cluster, a).upstream is None


@pytest.mark.parametrize("why", ["", "it started without data"])
def test_one_that_may_have_lost_its_data_does_not(cluster: Cluster, a: Node, why: str) -> None:
    if why:
        confirmed_commits.distrust(cluster, a, why)
    with pytest.raises(OperatorError, match="can't be the primary") as caught:
        lead(cluster, a)
    assert SILENT in caught.value.detail


def test_nor_one_that_had_a_transaction(cluster: Cluster, a: Node) -> None:
    confirmed_commits.settle(cluster, a, None, 90)
    with pytest.raises(OperatorError) as caught:
        lead(cluster, a)
    assert SILENT in caught.value.detail


def test_nor_one_while_another_has_data(
    cluster: Cluster, a: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peers, "with_data", lambda _cluster: {"a": False, "b": True})
    confirmed_commits.settle(cluster, a, None, 0)
    with pytest.raises(OperatorError, match="can't be the primary"):
        lead(cluster, a)
