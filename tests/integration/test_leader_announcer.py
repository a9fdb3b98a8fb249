"""An agent names the leader to the clients of a host without nodes, from a real etcd."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from clusters import wait_until
from etcd_members import BINARY, EtcdMembers, etcd_members

from indico_zodbrepl.cluster import Cluster, load
from indico_zodbrepl.cluster.hosts import Etcd
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.etcd.connection import store_of
from indico_zodbrepl.etcd.keys import Leader
from indico_zodbrepl.host import secrets
from indico_zodbrepl.host.remote.leader_announcer import LeaderAnnouncer, is_needed

pytestmark = pytest.mark.skipif(BINARY is None, reason="lacks etcd-server")

HOSTS = """\
name announced
backend zrs
var-directory {folder}/var

<host one>
  address 10.77.0.11
</host>
<host two>
  address 10.77.0.12
</host>
<host three>
  address 10.77.0.13
</host>
<node a>
  host one
  storage-port 8111
  replication-port 8112
  data-directory {folder}/a
  role primary
</node>
<node b>
  host two
  storage-port 8111
  replication-port 8112
  data-directory {folder}/b
  role secondary
  upstream a
</node>
<admin>
  host three
  port 8131
</admin>
"""


@pytest.fixture
def members(tmp_path: Path) -> Iterator[EtcdMembers]:
    with etcd_members(tmp_path / "etcd", count=1) as found:
        yield found


@pytest.fixture
def cluster(tmp_path: Path, members: EtcdMembers) -> Cluster:
    """Return the cluster as host three, which has no node, sees it."""
    path = tmp_path / "cluster.conf"
    path.write_text(HOSTS.format(folder=tmp_path))
    (tmp_path / "var").mkdir()
    etcd = Etcd(endpoints=members.endpoints)
    found = dataclasses.replace(load(path, tmp_path), here="three", automatic=True, etcd=etcd)
    secrets.make_shared(found)
    return found


@pytest.fixture
def log(cluster: Cluster) -> Iterator[list[str]]:
    """Return the lines that the agent logs; its announcer begins with the fixture."""
    lines: list[str] = []
    announcer = LeaderAnnouncer(lambda: cluster, lines.append)
    announcer.start()
    yield lines
    announcer.stop()


def announced(cluster: Cluster) -> tuple[str, int] | None:
    try:
        values = json.loads(Layout(cluster).leader_file.read_text())
    except FileNotFoundError:
        return None
    return values["node"], values["epoch"]


def test_each_leader_is_named_also_after_etcd_was_away(
    cluster: Cluster, members: EtcdMembers, log: list[str]
) -> None:
    store = store_of(cluster)
    first = store.create(store.keys.leader, Leader("a", "one", 1, 1), 10.0).stored
    assert first is not None
    wait_until(lambda: announced(cluster) == ("a", 1), "the first leader")
    assert not log
    members.all[0].kill()
    wait_until(lambda: bool(log), "a line about etcd")
    members.all[0].start()
    members.wait_until_ready()
    released = Leader("a", "one", 1, 2, released=True)
    free = store.swap(first, released, 10.0).stored
    assert free is not None
    assert store.swap(free, Leader("b", "two", 2, 3), 10.0).done
    wait_until(lambda: announced(cluster) == ("b", 2), "the next leader")


def test_the_automation_does_it_on_hosts_with_nodes(cluster: Cluster) -> None:
    assert is_needed(cluster)
    assert not is_needed(dataclasses.replace(cluster, here="one"))
    assert not is_needed(dataclasses.replace(cluster, automatic=False))
