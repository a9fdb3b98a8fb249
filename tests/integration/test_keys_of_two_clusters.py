"""Two clusters of the same name that share an etcd: the second one is refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from etcd_members import BINARY, EtcdMembers
from test_lock_in_etcd import cluster_of

from indico_zodbrepl.cluster import Cluster
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.etcd import leadership
from indico_zodbrepl.etcd.connection import store_of
from indico_zodbrepl.etcd.keys import Leader, Owner, Paused, encode
from indico_zodbrepl.etcd.problems import ForeignKeysError
from indico_zodbrepl.host import etcd_control
from indico_zodbrepl.host.remote import etcd_lock
from indico_zodbrepl.monitor import etcd_questions
from indico_zodbrepl.monitor.host_status import Automation

pytestmark = pytest.mark.skipif(BINARY is None, reason="lacks etcd-server")

LEADER = Leader("a", "one", 1, 1)
PAUSED = Paused("ada", "work", "now")


@pytest.fixture
def first(tmp_path: Path, members: EtcdMembers) -> Iterator[Cluster]:
    """A cluster whose keys exist."""
    found = cluster_of(_folder(tmp_path, "first"), "one", *members.endpoints)
    store = store_of(found)
    assert store.create(store.keys.leader, LEADER).done
    yield found
    for entry in store.etcd.list(store.keys.prefix).entries:
        assert store.etcd.delete(entry)


@pytest.fixture
def second(tmp_path: Path, members: EtcdMembers, first: Cluster) -> Cluster:
    """Another cluster of the same name."""
    found = cluster_of(_folder(tmp_path, "second"), "one", *members.endpoints)
    assert found.name == first.name
    Layout(found).cluster_id.write_text("another cluster\n")
    return found


def _folder(path: Path, name: str) -> Path:
    (path / name).mkdir()
    return path / name


def test_no_write_of_the_second_cluster_counts(first: Cluster, second: Cluster) -> None:
    store, own = store_of(second), store_of(first)
    before = own.etcd.list(own.keys.prefix).entries
    leader = store.read(store.keys.leader)
    assert leader is not None
    writes = (
        store.own,
        lambda: store.create(store.keys.paused, PAUSED),
        lambda: store.swap(leader, Leader("b", "two", 2, 2)),
        lambda: store.put(store.keys.paused, PAUSED),
        lambda: store.delete(leader),
        lambda: leadership.claim(second, "b", 2, "a test"),
    )
    for write in writes:
        with pytest.raises(ForeignKeysError) as refused:
            write()
        assert refused.value.exit_code is ExitCode.REFUSED
        assert "one (10.77.0.11), two (10.77.0.12)" in refused.value.detail
        assert "etcdctl del --prefix /zodbrepl/locked/" in refused.value.hint
    with pytest.raises(ForeignKeysError), etcd_lock.held(second):
        pass
    assert own.etcd.list(own.keys.prefix).entries == before


def test_the_second_cluster_does_not_start_and_its_status_says_why(second: Cluster) -> None:
    with pytest.raises(ForeignKeysError):
        etcd_control.check(second)
    ((_key, found),) = etcd_questions.ask(second)
    assert isinstance(found, Automation)
    assert found.leader is None
    assert "another cluster of the same name" in found.problem
    assert "etcdctl del --prefix" in found.hint


def test_the_first_cluster_goes_on_when_its_hosts_have_changed(first: Cluster) -> None:
    store = store_of(first)
    owner = store.read(store.keys.owner)
    assert owner is not None
    former = Owner(owner.record.id, "one (10.77.0.1)")
    store.etcd.put(store.keys.owner.name, encode(former))
    assert store.create(store.keys.paused, PAUSED).done
    store.own()


def test_lost_keys_are_taken_again_but_not_those_of_another_cluster(
    first: Cluster, second: Cluster
) -> None:
    store, other = store_of(first), store_of(second)
    store.put(store.keys.paused, PAUSED)
    for entry in store.etcd.list(store.keys.prefix).entries:
        assert store.etcd.delete(entry)
    other.own()
    with pytest.raises(ForeignKeysError):
        store.put(store.keys.paused, PAUSED)
    for entry in store.etcd.list(store.keys.prefix).entries:
        assert store.etcd.delete(entry)
    store.put(store.keys.paused, PAUSED)
    store.own()


def test_a_host_without_the_identity_does_not_start(first: Cluster) -> None:
    Layout(first).cluster_id.unlink()
    with pytest.raises(OperatorError, match="lacks the identity") as refused:
        etcd_control.check(first)
    assert "hosts push" in refused.value.hint
