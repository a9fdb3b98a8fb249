"""A node is compared with one of another host through its agent, as if both were here."""

from __future__ import annotations

import dataclasses
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from two_hosts import TwoHosts, two_hosts

from indico_zodbrepl.cluster import NodeState
from indico_zodbrepl.cluster import Role as NodeRole
from indico_zodbrepl.cluster.layout import blobs, data_fs
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host import (
    authority,
    certificates,
    comparing,
    datafs,
    following,
    history,
    verifying,
)
from indico_zodbrepl.host.certificates import Role
from indico_zodbrepl.host.datafs_answers import Comparison, Relation, describe
from indico_zodbrepl.host.history import Condition, Lineage
from indico_zodbrepl.host.interface import HostAwayError
from indico_zodbrepl.host.remote.dialogues import Dialogue
from indico_zodbrepl.host.remote.node_data import NodeData

UPLOADS = """
import os, sys, transaction, ZODB, ZODB.blob
from ZODB.FileStorage import FileStorage
folder = os.path.join(os.path.dirname(sys.argv[1]), 'blobs')
db = ZODB.DB(FileStorage(sys.argv[1], blob_dir=folder))
root = db.open().root()
for name, size in (('empty', 0), ('small', 3), ('large', 9 << 20)):
    root[name] = ZODB.blob.Blob(size * 'x')
transaction.commit()
db.close()
"""
PACK = """
import sys, time
from ZODB.FileStorage import FileStorage
from ZODB.serialize import referencesf
storage = FileStorage(sys.argv[1])
storage.pack(time.time(), referencesf)
storage.close()
"""


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[TwoHosts]:
    """Node a is a replica of node b."""
    with two_hosts(tmp_path) as made:
        made.grow("b", "count", 5)
        one, other = (data_fs(made.cluster.node(name)) for name in "ab")
        shutil.copyfile(other, one)
        yield made


def compared(hosts: TwoHosts, verified: str | None = None) -> Comparison:
    """Compare through the agent; it is the same as without."""
    node, upstream = (hosts.cluster.node(name) for name in "ab")
    found = comparing.compare(hosts.cluster, hosts.installation, node, upstream, verified)
    assert found == datafs.compare(hosts.installation, data_fs(node), data_fs(upstream), verified)
    return found


def test_the_result_is_that_of_two_files_of_one_host(hosts: TwoHosts) -> None:
    last = datafs.last(hosts.installation, data_fs(hosts.cluster.node("b"))).tid
    assert Relation.EQUAL is compared(hosts).relation
    hosts.grow("b", "count", 2)
    assert (Relation.BEHIND, 2) == (compared(hosts).relation, compared(hosts).missing)
    hosts.grow("a", "count", 1)
    for verified in (None, last):
        found = compared(hosts, verified)
        assert (Relation.DIVERGED, 1, 2) == (found.relation, found.private, found.missing)
    hosts.run27(PACK, "b")
    assert compared(hosts).packed


def test_files_of_blobs_are_compared_by_digests(hosts: TwoHosts) -> None:
    hosts.run27(UPLOADS, "b")
    one, other = (hosts.cluster.node(name) for name in "ab")
    shutil.copyfile(data_fs(other), data_fs(one))
    shutil.copytree(blobs(other), blobs(one))
    assert (Relation.EQUAL, 3) == (compared(hosts).relation, compared(hosts).blobs)

    (changed,) = [path for path in blobs(one).rglob("*.blob") if path.stat().st_size == 9 << 20]
    content = bytearray(changed.read_bytes())
    content[5 << 20] ^= 1
    changed.write_bytes(content)
    found = compared(hosts)
    assert (Relation.DIVERGED, 1, 1) == (
        found.relation,
        found.blobs_differing,
        found.blobs_private,
    )
    assert "9437184 bytes on node a, 9437184 bytes on node b, other content" in (
        describe(found, "a", "b")
    )
    for path in blobs(other).rglob("*.blob"):
        path.unlink()
    assert (3, 3) == (compared(hosts).blobs_differing, compared(hosts).blobs_missing_upstream)


def test_the_agents_log_says_who_compares_what(hosts: TwoHosts) -> None:
    compared(hosts)
    assert any(line.endswith("the data file of node b is compared") for line in hosts.said)


def test_a_missing_file_of_the_other_host_is_an_error(hosts: TwoHosts) -> None:
    data_fs(hosts.cluster.node("b")).unlink()
    with pytest.raises(OperatorError) as caught:
        compared(hosts)
    assert "No such file or directory" in caught.value.detail


def test_an_agent_that_does_not_run_is_a_host_that_is_away(hosts: TwoHosts) -> None:
    hosts.stop()
    with pytest.raises(HostAwayError) as caught:
        compared(hosts)
    assert ExitCode.TIMED_OUT is caught.value.exit_code
    assert "host two does not answer" == caught.value.notice


def test_an_agent_that_goes_away_meanwhile_ends_the_comparison(hosts: TwoHosts) -> None:
    upstream = NodeData(hosts.cluster, hosts.cluster.node("b"))
    with upstream.dialogue() as dialogue:
        stopping = threading.Thread(target=hosts.stop)
        stopping.start()
        assert b"" == dialogue.stream.recv(1)
        stopping.join()
    assert isinstance(upstream.broken(dialogue), HostAwayError)


def test_a_comparison_whose_connection_breaks_says_that_the_host_is_away(
    hosts: TwoHosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    entered = Dialogue.__enter__

    def broken(self: Dialogue) -> Dialogue:
        entered(self)
        hosts.stop()
        return self

    monkeypatch.setattr(Dialogue, "__enter__", broken)
    with pytest.raises(HostAwayError):
        compared(hosts)


def test_a_certificate_of_a_monitoring_system_reads_no_data(hosts: TwoHosts) -> None:
    folder = hosts.cluster.var_directory / "tls"
    (folder / "host.pem").write_bytes((folder / "monitor.pem").read_bytes())
    upstream = NodeData(hosts.cluster, hosts.cluster.node("b"))
    with pytest.raises(OperatorError), upstream.dialogue():
        pass
    with pytest.raises(OperatorError) as caught, upstream.stream([]):
        pass
    assert "403" in caught.value.detail
    with pytest.raises(OperatorError):
        upstream.origin()


def test_a_host_that_was_removed_from_the_cluster_file_reads_no_data(hosts: TwoHosts) -> None:
    issuing = hosts.cluster.var_directory / "tls"
    certificates.install(issuing, authority.issue(issuing, "three", Role.HOST, "127.0.0.3"))
    upstream = NodeData(hosts.cluster, hosts.cluster.node("b"))
    with pytest.raises(OperatorError), upstream.dialogue():
        pass
    with pytest.raises(OperatorError) as caught, upstream.stream([]):
        pass
    assert "has no host three at 127.0.0.3" in caught.value.detail


def known(hosts: TwoHosts, *, was_writable: bool) -> NodeState:
    """Write a history for node a; return its state."""
    tid = datafs.last(hosts.installation, data_fs(hosts.cluster.node("a"))).tid
    found = Lineage(tid, "ab", "b", 1, was_writable, Condition.OK, "", "2026-11-21T12:00:00Z")
    history.write(hosts.cluster.node("a"), found)
    return NodeState(hosts.cluster.name, "a", NodeRole.SECONDARY, "b", 1)


def test_a_follower_is_admitted_after_a_comparison_with_the_other_host(hosts: TwoHosts) -> None:
    state = known(hosts, was_writable=True)
    assert [] == following.admit_follower(hosts.cluster, hosts.installation, state)
    found = history.read(hosts.cluster.node("a"))
    assert found is not None
    assert not found.was_writable

    hosts.grow("a", "count", 1)
    hosts.grow("b", "count", 1)
    with pytest.raises(OperatorError) as caught:
        following.admit_follower(hosts.cluster, hosts.installation, state)
    assert "diverged" in caught.value.notice


def test_while_the_other_host_is_away_only_a_former_primary_is_refused(hosts: TwoHosts) -> None:
    state = known(hosts, was_writable=False)
    hosts.stop()
    (remark,) = following.admit_follower(hosts.cluster, hosts.installation, state)
    assert "host two does not answer" in remark
    known(hosts, was_writable=True)
    with pytest.raises(OperatorError) as caught:
        following.admit_follower(hosts.cluster, hosts.installation, state)
    assert "it was a primary" in caught.value.detail


def test_a_running_follower_is_verified_against_the_other_host(hosts: TwoHosts) -> None:
    known(hosts, was_writable=False)
    last = hosts.grow("b", "count", 1)
    shutil.copyfile(*(data_fs(hosts.cluster.node(name)) for name in "ba"))
    found = verifying.verify(hosts.cluster, hosts.installation, "a", "b")
    assert found == dataclasses.replace(verifying.Verified(last, ""))
