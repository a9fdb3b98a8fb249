"""Where the nodes of a NEO cluster may be placed on several hosts."""

from __future__ import annotations

from pathlib import Path

import pytest
from cluster_texts import load_text, refusal

GOOD = {
    "m1": ("one", "master"),
    "m2": ("two", "master"),
    "m3": ("three", "master"),
    "s1": ("one", "storage"),
    "s2": ("two", "storage"),
    "w1": ("one", "admin"),
    "w2": ("two", "admin"),
    "w3": ("three", "admin"),
}
THREE = ("one", "two", "three")


def text(nodes: dict[str, tuple[str, str]], hosts: tuple[str, ...] = THREE, copies: int = 2) -> str:
    lines = ["name three", "backend neo", "var-directory /srv/three/var"]
    lines += ["<neo>", f"  replicas {copies - 1}", "</neo>"]
    for number, host in enumerate(hosts, 1):
        lines += [f"<host {host}>", f"  address 10.77.0.1{number}", "</host>"]
    for number, (name, (host, role)) in enumerate(nodes.items()):
        lines += [
            f"<node {name}>",
            f"  host {host}",
            f"  storage-port {8140 + number}",
            f"  data-directory /srv/three/{name}",
            f"  role {role}",
            "</node>",
        ]
    return "\n".join([*lines, "<admin>", "  host one", "  port 8131", "</admin>", ""])


def without(*names: str) -> dict[str, tuple[str, str]]:
    return {name: each for name, each in GOOD.items() if name not in names}


def test_a_master_and_an_admin_node_on_each_host_and_two_storages_are_accepted(
    tmp_path: Path,
) -> None:
    assert len(load_text(tmp_path, text(GOOD)).nodes) == len(GOOD)


def test_automatic_failover_is_accepted_and_left_to_the_masters(tmp_path: Path) -> None:
    found = load_text(tmp_path, text(GOOD).replace("backend neo", "backend neo\nautomatic true"))
    assert found.etcd is None
    assert not any(found.automates(host) for host in THREE)
    assert not found.automatic, "something would ask an etcd that does not exist"


def test_one_master_is_accepted(tmp_path: Path) -> None:
    load_text(tmp_path, text(without("m2", "m3")))


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        pytest.param(
            without("m3"),
            "there are 2 masters; with several hosts use an odd number, because a majority of "
            "them elects the leader",
            id="an even number of masters",
        ),
        pytest.param(
            GOOD | {"m2": ("one", "master")},
            "2 of 3 masters are on host one: without it no majority can elect a leader; "
            "place them on different hosts",
            id="a majority of masters on one host",
        ),
        pytest.param(
            GOOD | {"m2": ("one", "master"), "m3": ("one", "master")},
            "3 of 3 masters are on host one: without it no majority can elect a leader; "
            "place them on different hosts",
            id="all masters on one host",
        ),
        pytest.param(
            GOOD | {"s2": ("one", "storage")},
            "all storages are on host one, which holds every copy of the data: place one on "
            "another host, or set replicas 0",
            id="all copies on one host",
        ),
        pytest.param(
            without("w3"),
            "host three has no node with the role admin; with several hosts each needs one: its "
            "NEO monitor answers the commands typed there, and kills what hangs there",
            id="no admin node on a host",
        ),
    ],
)
def test_a_cluster_that_does_not_survive_what_it_should_is_refused(
    tmp_path: Path, nodes: dict[str, tuple[str, str]], expected: str
) -> None:
    (line,) = refusal(tmp_path, text(nodes))
    assert line.endswith(expected)


def test_with_two_hosts_a_majority_of_the_masters_may_be_on_one(tmp_path: Path) -> None:
    nodes = without("w3") | {"m3": ("one", "master")}
    load_text(tmp_path, text(nodes, hosts=("one", "two")))


def test_storages_with_one_copy_may_be_on_one_host(tmp_path: Path) -> None:
    load_text(tmp_path, text(GOOD | {"s2": ("one", "storage")}, copies=1))
