"""What the clients of a host read about the leader."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from indico_zodbrepl.backends.relstorage import servers_file
from indico_zodbrepl.cluster import Cluster, load
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.host.leader_file import announce_leader

EXAMPLES = Path(__file__).parents[3] / "etc"


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    return example(tmp_path, "cluster.conf")


def example(tmp_path: Path, name: str) -> Cluster:
    path = tmp_path / "cluster.conf"
    path.write_text((EXAMPLES / name).read_text())
    cluster = load(path, tmp_path)
    cluster.var_directory.mkdir(parents=True)
    return cluster


def announced(cluster: Cluster) -> tuple[str, int, str]:
    values = json.loads(Layout(cluster).leader_file.read_text())
    return values["node"], values["epoch"], values["address"]


def test_the_file_names_the_leader_and_its_address_as_clients_have_it(cluster: Cluster) -> None:
    node = cluster.node("b")
    announce_leader(cluster, node, 4)
    assert announced(cluster) == ("b", 4, str(node.storage_address))
    assert [each.name for each in cluster.var_directory.iterdir()] == ["leader.json"]


def test_an_earlier_leader_changes_nothing(cluster: Cluster) -> None:
    announce_leader(cluster, cluster.node("b"), 4)
    announce_leader(cluster, cluster.node("a"), 3)
    assert announced(cluster)[:2] == ("b", 4)
    announce_leader(cluster, cluster.node("a"), 5)
    assert announced(cluster)[:2] == ("a", 5)


@pytest.mark.parametrize("content", ["", "{", "[]", '{"epoch": 9}'])
def test_a_damaged_file_is_replaced(cluster: Cluster, content: str) -> None:
    Layout(cluster).leader_file.write_text(content)
    announce_leader(cluster, cluster.node("b"), 4)
    assert announced(cluster)[:2] == ("b", 4)


def test_a_file_of_another_cluster_is_replaced(cluster: Cluster) -> None:
    announce_leader(dataclasses.replace(cluster, name="another"), cluster.node("a"), 9)
    announce_leader(cluster, cluster.node("b"), 4)
    assert announced(cluster)[:2] == ("b", 4)


def test_clients_of_a_database_server_are_directed_to_the_leader_at_once(tmp_path: Path) -> None:
    cluster = example(tmp_path, "cluster-relstorage-postgresql.conf")

    def first() -> str:
        return servers_file(cluster).read_text().splitlines()[1]

    announce_leader(cluster, cluster.node("b"), 4)
    assert first() == str(cluster.node("b").storage_address)
    announce_leader(cluster, cluster.node("a"), 3)
    assert first() == str(cluster.node("b").storage_address)
