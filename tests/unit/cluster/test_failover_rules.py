"""Problems of acknowledged commits, automatic failover and etcd in a cluster file."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest

from indico_zodbrepl.cluster.failover_rules import failover_problems
from indico_zodbrepl.cluster.hosts import ClusterHost, Etcd
from indico_zodbrepl.cluster.loader import load
from indico_zodbrepl.cluster.model import Cluster, Synchronous, SyncLevel, WhenAlone
from indico_zodbrepl.errors import OperatorError

HOME = Path(__file__).parents[3]
ZRS = HOME / "etc/cluster.conf"
OURS = Etcd(client_port=2379, peer_port=2380)
THREE = tuple(ClusterHost(name, f"10.0.0.{number}", 8300) for number, name in enumerate("xyz"))


@pytest.fixture
def zrs() -> Cluster:
    return load(ZRS, HOME)


def said(cluster: Cluster, **changes: object) -> list[str]:
    return [each.message for each in failover_problems(dataclasses.replace(cluster, **changes))]  # type: ignore[arg-type]


def test_the_keys_are_read(tmp_path: Path) -> None:
    path = tmp_path / "cluster.conf"
    path.write_text(
        "synchronous 1\nsynchronous-level write\nsynchronous-timeout 2.5\n"
        "synchronous-alone degrade\nlease 5\n"
        "<etcd>\n endpoints https://10.0.0.1:2379/, https://10.0.0.2:2379\n ca-file /ca\n</etcd>\n"
        + ZRS.read_text()
    )
    cluster = load(path, HOME)
    assert Synchronous(1, SyncLevel.WRITE, 2.5, WhenAlone.DEGRADE) == cluster.synchronous
    assert 5.0 == cluster.lease
    assert not cluster.automatic
    urls = ("https://10.0.0.1:2379", "https://10.0.0.2:2379")
    assert Etcd(endpoints=urls, ca_file=Path("/ca")) == cluster.etcd


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("synchronous-level disk", "none of receive, write, fsync"),
        ("synchronous-alone wait", "none of refuse, degrade"),
        ("lease 1", "1"),
        ("lease 61", "more than 60 seconds"),
        ("<etcd>\nendpoints 10.0.0.1:2379\n</etcd>", "is no URL such as"),
        ("<etcd>\nendpoints https://u:p@h:1\n</etcd>", "more than a scheme, a host and a port"),
    ],
)
def test_a_wrong_value_is_named(tmp_path: Path, line: str, problem: str) -> None:
    path = tmp_path / "cluster.conf"
    path.write_text(f"{line}\n{ZRS.read_text()}")
    with pytest.raises(OperatorError) as caught:
        load(path, HOME)
    assert problem in caught.value.detail


def test_the_former_key_of_the_engines_is_named_with_its_successor(tmp_path: Path) -> None:
    path = tmp_path / "cluster.conf"
    text = (HOME / "etc/cluster-relstorage-postgresql.conf").read_text()
    path.write_text(text.replace("<postgresql>", "<postgresql>\n  synchronous true"))
    with pytest.raises(OperatorError) as caught:
        load(path, HOME)
    assert "synchronous is no key of <postgresql> any more" in caught.value.detail
    assert "with a number" in caught.value.detail


def test_more_acknowledgements_than_secondaries_are_refused(zrs: Cluster) -> None:
    others = len(zrs.nodes) - 1
    assert [] == said(zrs, synchronous=Synchronous(others))
    assert "never acknowledge a commit" in said(zrs, synchronous=Synchronous(others + 1))[0]
    assert "at most 1" in said(zrs, synchronous=Synchronous(2), backend="relstorage-mariadb")[0]
    assert "no acknowledged commits" in said(zrs, synchronous=Synchronous(1), backend="zeo")[0]


def test_only_a_relay_forwards(zrs: Cluster) -> None:
    nodes = tuple(dataclasses.replace(node, forwards=True) for node in zrs.nodes)
    wrong = [node.name for node in nodes if node.role != "relay"]
    assert len(wrong) == len(said(zrs, nodes=nodes))


def test_automatic_failover_needs_hosts_and_etcd(zrs: Cluster) -> None:
    assert ["automatic needs <host> sections", "automatic needs a section <etcd>"] == [
        each.partition(":")[0] for each in said(zrs, automatic=True)
    ]
    assert [] == said(zrs, automatic=True, hosts=THREE, etcd=OURS)
    assert [] == said(zrs, automatic=True, hosts=THREE, backend="neo")
    for backend in ("relstorage-postgresql", "relstorage-mariadb"):
        assert [] == said(zrs, automatic=True, hosts=THREE, etcd=OURS, backend=backend)
    (problem,) = said(zrs, automatic=True, hosts=THREE, backend="zeo")
    assert "the backend zeo has nothing to fail over to" in problem


WRONG: list[tuple[Callable[[], Etcd], str]] = [
    (Etcd, "give client-port and peer-port"),
    (lambda: Etcd(client_port=1), "client-port needs peer-port too"),
    (lambda: Etcd(client_port=1, peer_port=1), "is the same"),
    (lambda: Etcd(1, 2, endpoints=("https://h:1",)), "use one"),
    (lambda: Etcd(1, 2, user="u", password_file=Path("/p")), "existing cluster"),
    (lambda: Etcd(endpoints=("https://h:1",), user="u"), "user needs password-file too"),
    (lambda: Etcd(endpoints=("https://h:1",), key_file=Path("/k")), "needs certificate-file"),
    (
        lambda: Etcd(endpoints=("http://h:1",), user="u", password_file=Path("/p")),
        "never sent unencrypted",
    ),
]


@pytest.mark.parametrize(("etcd", "problem"), WRONG)
def test_a_wrong_etcd_section_is_named(
    zrs: Cluster, etcd: Callable[[], Etcd], problem: str
) -> None:
    found = said(zrs, hosts=THREE, etcd=etcd())
    assert [problem] == [problem for each in found if problem in each]


def test_members_of_our_own_need_three_hosts(zrs: Cluster) -> None:
    assert "3 are needed" in said(zrs, hosts=THREE[:2], etcd=OURS)[0]
    assert [] == said(zrs, hosts=THREE, etcd=OURS)
