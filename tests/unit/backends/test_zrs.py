"""What ZRS nodes and their clients are told, read back by ZConfig."""

from __future__ import annotations

import dataclasses
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import ZConfig.schemaless
from zope.interface.verify import verifyObject

from indico_zodbrepl import backends
from indico_zodbrepl.backends import IBackend, backend_of
from indico_zodbrepl.cluster import Cluster, NodeState, Role, load
from indico_zodbrepl.cluster.hosts import ClusterHost, LinkEncryption
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.cluster.layout import Layout, zeo_conf
from indico_zodbrepl.cluster.model import Synchronous, SyncLevel, WhenAlone
from indico_zodbrepl.cluster.shapes import SHAPES

EXAMPLE = Path(__file__).parents[3] / "etc" / "cluster.conf"
HOME = Path("/opt/zodb repl")


@pytest.fixture
def cluster() -> Cluster:
    return load(EXAMPLE, HOME)


def sections(parsed: Any) -> Iterator[Any]:
    for section in parsed.sections:
        yield section
        yield from sections(section)


def parse(text: str) -> dict[str, Any]:
    """The sections of a file by their type; an %import has no section."""
    return {
        section.type: section
        for section in sections(ZConfig.schemaless.loadConfigFile(io.StringIO(text)))
    }


def zrs_section(cluster: Cluster, name: str, role: Role, upstream: str | None) -> dict[str, Any]:
    state = NodeState(cluster.name, name, role, upstream, epoch=3)
    (text,) = backend_of(cluster).node_files(cluster, state).values()
    return dict(parse(text)["zrs"])


def test_each_backend_provides_the_interface_and_is_known_to_the_cluster_file(
    cluster: Cluster,
) -> None:
    for name in backends.names():
        assert verifyObject(IBackend, backend_of(dataclasses.replace(cluster, backend=name)))
        assert name in SHAPES


def options(cluster: Cluster, name: str) -> list[str]:
    """Return the options of a node's server about leases and acknowledged commits."""
    state = NodeState(cluster.name, name, Role.SECONDARY, "a", epoch=3)
    command = backend_of(cluster).server_command(cluster, Installation(HOME), state)
    plain = dataclasses.replace(cluster, automatic=False, synchronous=Synchronous())
    usual = backend_of(plain).server_command(plain, Installation(HOME), state)
    return list(command[len(usual) :])


def test_every_server_is_told_how_commits_are_acknowledged_because_it_may_be_promoted(
    cluster: Cluster,
) -> None:
    assert [] == options(cluster, "b")
    wanted = Synchronous(2, SyncLevel.WRITE, 2.5, WhenAlone.DEGRADE)
    assert [
        *("--synchronous", "2", "--synchronous-level", "write"),
        *("--synchronous-timeout", "2.5", "--synchronous-alone", "degrade"),
    ] == options(dataclasses.replace(cluster, synchronous=wanted), "b")


def test_with_automatic_failover_a_server_needs_a_lease_and_a_word_to_go_on_alone(
    cluster: Cluster,
) -> None:
    automatic = dataclasses.replace(cluster, automatic=True)
    assert ["--leased", "--alone-when-told"] == options(automatic, "b")


def test_a_primary_sends(cluster: Cluster) -> None:
    assert {"replicate-to": ["127.0.0.1:8112"]} == zrs_section(cluster, "a", Role.PRIMARY, None)


def test_a_secondary_receives_and_keeps_the_link_alive(cluster: Cluster) -> None:
    assert {"replicate-from": ["127.0.0.1:8112"], "keep-alive-delay": ["5"]} == zrs_section(
        cluster, "b", Role.SECONDARY, "a"
    )


def test_a_relay_does_both(cluster: Cluster) -> None:
    assert {
        "replicate-to": ["127.0.0.1:8122"],
        "replicate-from": ["127.0.0.1:8112"],
        "keep-alive-delay": ["5"],
    } == zrs_section(cluster, "b", Role.RELAY, "a")


def test_the_state_and_not_the_cluster_file_says_what_a_node_is(cluster: Cluster) -> None:
    assert {"replicate-to": ["127.0.0.1:8122"]} == zrs_section(cluster, "b", Role.PRIMARY, None)


def test_a_node_keeps_its_data_in_its_own_folder(cluster: Cluster) -> None:
    state = NodeState("demo", "a", Role.PRIMARY, None, 1)
    ((path, text),) = backend_of(cluster).node_files(cluster, state).items()
    assert zeo_conf(cluster.node("a")) == path
    parsed = parse(text)
    assert ["/opt/zodb repl/var/node/a/Data.fs"] == parsed["filestorage"]["path"]
    assert ["/opt/zodb repl/var/node/a/blobs"] == parsed["filestorage"]["blob-dir"]
    assert ["127.0.0.1:8111"] == parsed["zeo"]["address"]


def test_clients_know_all_nodes_and_fall_back_to_reading(cluster: Cluster) -> None:
    parsed = parse(backend_of(cluster).client_files(cluster)[Layout(cluster).zodb_conf])
    assert ["127.0.0.1:8111", "127.0.0.1:8121"] == parsed["clientstorage"]["server"]
    assert ["true"] == parsed["clientstorage"]["read-only-fallback"]
    assert "indicostorage" in parsed
    assert "cache-path" not in parsed["clientstorage"]


def test_the_client_of_one_node_only_reads_from_it(cluster: Cluster) -> None:
    b = cluster.node("b")
    parsed = parse(backend_of(cluster).client_files(cluster)[Layout(cluster).node_zodb_conf(b)])
    assert (["127.0.0.1:8121"], ["true"]) == (
        parsed["clientstorage"]["server"],
        parsed["clientstorage"]["read-only"],
    )


def test_the_server_is_told_its_node_and_epoch(cluster: Cluster) -> None:
    command = backend_of(cluster).server_command(
        cluster, Installation(HOME), NodeState("demo", "b", Role.SECONDARY, "a", 7)
    )
    assert (
        "/opt/zodb repl/parts/python27/bin/python",
        "-m",
        "indico_zodbrepl.dataplane.server.main",
        "-C",
        "/opt/zodb repl/var/node/b/zeo.conf",
        "--cluster",
        "demo",
        "--node",
        "b",
        "--epoch",
        "7",
        "--reconnect-delay",
        "1",
        "--min-followers",
        "0",
        "--members",
        "/opt/zodb repl/var/etc/members.json",
    ) == command


def test_supervisor_does_not_repeat_what_an_operator_has_to_repair(cluster: Cluster) -> None:
    """1 is an unforeseen error of both programs, which a further start may not meet again."""
    (program,) = backend_of(cluster).programs(cluster, Installation(HOME), cluster.node("a"))
    assert {0, *range(2, 9)} == set(program.final_exits)


@pytest.mark.parametrize(
    ("role", "upstream", "keys"),
    [
        (Role.PRIMARY, None, ["storage-port", "replication-port"]),
        (Role.RELAY, "a", ["storage-port", "replication-port"]),
        (Role.SECONDARY, "a", ["storage-port"]),
    ],
)
def test_only_a_node_with_followers_listens_on_its_replication_port(
    cluster: Cluster, role: Role, upstream: str | None, keys: list[str]
) -> None:
    state = NodeState("demo", "b", role, upstream, 1)
    assert [("b", key) for key in keys] == [
        (endpoint.name, endpoint.key) for endpoint in backend_of(cluster).listens_on(cluster, state)
    ]


def members(cluster: Cluster) -> dict[str, Any]:
    text = backend_of(cluster).client_files(cluster)[Layout(cluster).members]
    found: dict[str, Any] = json.loads(text)["nodes"]
    return found


def test_the_confirmations_of_the_nodes_of_the_cluster_file_count(cluster: Cluster) -> None:
    everywhere = {"from": None, "forwards": False}
    assert dict.fromkeys(("a", "b"), everywhere) == members(cluster)
    a, b = cluster.nodes
    relay = dataclasses.replace(b, forwards=True)
    changed = dataclasses.replace(cluster, nodes=(a, relay))
    assert members(changed)["b"] == {"from": None, "forwards": True}


@pytest.mark.parametrize("encryption", list(LinkEncryption))
def test_with_tls_they_have_to_come_from_the_host_of_the_node(
    cluster: Cluster, encryption: LinkEncryption
) -> None:
    hosts = tuple(
        ClusterHost(name, f"10.77.0.1{number}", 8100, encryption)
        for number, name in enumerate(("one", "two"), 1)
    )
    nodes = tuple(
        dataclasses.replace(node, on=host.name)
        for node, host in zip(cluster.nodes, hosts, strict=True)
    )
    found = members(dataclasses.replace(cluster, hosts=hosts, nodes=nodes, here="one"))
    expected = (
        {"a": ["127.0.0.1", "127.77.0.11"], "b": ["127.77.0.12"]}
        if encryption is LinkEncryption.TLS
        else {"a": None, "b": None}
    )
    assert expected == {name: rule["from"] for name, rule in found.items()}


def test_a_node_writes_the_list_before_it_starts(cluster: Cluster, tmp_path: Path) -> None:
    changed = dataclasses.replace(cluster, var_directory=tmp_path / "var")
    state = NodeState(cluster.name, "b", Role.SECONDARY, "a", epoch=3)
    backend_of(changed).prepare(changed, Installation(HOME), state)
    assert {"a", "b"} == set(json.loads(Layout(changed).members.read_text())["nodes"])
