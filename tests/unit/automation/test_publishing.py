"""What a host reports in etcd of its nodes."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from indico_zodbrepl.automation import publishing
from indico_zodbrepl.automation.publishing import Publisher
from indico_zodbrepl.cluster import Cluster, load
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.etcd.keys import Key, Member
from indico_zodbrepl.host import confirmed_commits
from indico_zodbrepl.host.disks import Disk

EXAMPLE = Path(__file__).parents[3] / "etc" / "cluster.conf"


@dataclasses.dataclass
class Keys:
    @staticmethod
    def member(node: str) -> Key[Member]:
        return Key(node, Member)


class Written:
    """Keeps what is written."""

    keys = Keys()

    def __init__(self) -> None:
        self.members: dict[str, Member] = {}

    def put(self, key: Key[Member], record: Member, _limit: float) -> None:
        self.members[key.name] = record


def publisher(cluster: Cluster, store: Any) -> Publisher:
    view: Any = None
    here = Installation(cluster.var_directory)
    return Publisher(cluster, here, store, view, reign=lambda: None, obstacle=str)


@pytest.mark.parametrize("settled", [False, True])
def test_a_node_whose_server_does_not_answer_is_no_proof_either(
    tmp_path: Path, *, settled: bool
) -> None:
    """A failover by hand would call it one, if that server answers in time there."""
    cluster = load(EXAMPLE, tmp_path)
    node = cluster.node("b")
    node.data_directory.mkdir(parents=True)
    if settled:
        confirmed_commits.settle(cluster, node, None, 90)
    written: Any = Written()
    publisher(cluster, written)._report(node)
    found = written.members["b"]
    assert found.problem
    assert bool(found.doubt) == (not settled)


@pytest.mark.parametrize("free", [0, 200 << 30])
def test_a_report_says_if_the_nodes_disk_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: int
) -> None:
    monkeypatch.setattr(publishing, "disk_of", lambda _folder: Disk(free, 500 << 30, 1))
    cluster = load(EXAMPLE, tmp_path)
    written: Any = Written()
    publisher(cluster, written)._report(cluster.node("b"))
    assert (free == 0) is written.members["b"].full
