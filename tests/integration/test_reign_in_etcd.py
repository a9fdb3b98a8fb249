"""The reign of a leader and the campaign of another host, with a real etcd and a real process."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from clusters import wait_until
from etcd_members import BINARY, EtcdMembers
from test_lock_in_etcd import PATIENCE, cluster_of

from indico_zodbrepl.automation.campaign import Campaign
from indico_zodbrepl.automation.candidates import Judgement, Verdict
from indico_zodbrepl.automation.publishing import Publisher
from indico_zodbrepl.automation.renewal import Reign
from indico_zodbrepl.automation.timing import ORDER_SECONDS, now
from indico_zodbrepl.automation.view import View
from indico_zodbrepl.cluster import Cluster
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.etcd.connection import store_of
from indico_zodbrepl.etcd.keys import Leader, Paused, Stored, Sync

pytestmark = pytest.mark.skipif(BINARY is None, reason="etcd is not installed")

EPOCH = 4
STATUS = {
    "ok": True,
    "role": "primary",
    "epoch": EPOCH,
    "known_epoch": EPOCH,
    "last_tid": "00000000000000ff",
    "held": None,
    "held_for": None,
    "upstream": None,
    "connected": None,
    "followers": [],
}
SERVER = """
import socket, sys, time
listener = socket.socket(socket.AF_UNIX)
listener.bind("control.sock")
listener.listen(9)
print("ready", flush=True)
while True:
    peer = listener.accept()[0]
    order = peer.recv(9999)
    if order:
        print(order.decode().strip(), flush=True)
        time.sleep(float(sys.argv[2]))
        try:
            peer.sendall(sys.argv[1].encode() + b"\\n")
        except OSError:
            pass  # nobody waits any more
    peer.close()
"""


@pytest.fixture
def cluster(
    tmp_path: Path, members: EtcdMembers, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Cluster]:
    monkeypatch.setenv("ZODBREPL_HOME", str(Path(__file__).parents[2]))
    found = cluster_of(tmp_path, "one", *members.endpoints)
    found.node("a").data_directory.mkdir()
    yield found
    store = store_of(found)
    for entry in store.etcd.list(store.keys.prefix).entries:
        store.etcd.delete(entry)


def server_of(
    cluster: Cluster, *, delay: float = 0.0, **synchronous: object
) -> subprocess.Popen[str]:
    """Start a process that answers each order as a primary does, after so many seconds."""
    answer = json.dumps(STATUS | ({"synchronous": synchronous} if synchronous else {}))
    process = subprocess.Popen(
        [sys.executable, "-c", SERVER, answer, str(delay)],
        cwd=cluster.node("a").data_directory,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def key_of(cluster: Cluster, **changes: object) -> Stored[Leader]:
    store = store_of(cluster)
    leader = Leader("a", "one", EPOCH, 1, **changes)  # type: ignore[arg-type]
    stored = store.create(store.keys.leader, leader).stored
    assert stored is not None
    return stored


def reign_of(cluster: Cluster, publisher: Publisher | None = None) -> Reign:
    return Reign(
        cluster,
        store_of(cluster),
        key_of(cluster),
        now(),
        leads=True,
        is_paused=lambda: False,
        vouch=publisher.record if publisher else lambda _reign: None,
        on_end=lambda: None,
    )


def test_a_server_without_its_socket_is_killed_before_its_role_is_given_away(
    cluster: Cluster,
) -> None:
    """It has a lease, and would go on to acknowledge commits beside the new leader."""
    server = server_of(cluster)
    reign = reign_of(cluster)
    try:
        reign.start()
        wait_until(lambda: reign.status is not None, "the server has a lease", PATIENCE)
        (cluster.node("a").data_directory / "control.sock").unlink()
        wait_until(lambda: bool(reign.over), "the reign is over", PATIENCE)
        assert server.poll() is not None
    finally:
        reign.stop()
        server.kill()
        server.communicate()


def test_a_server_that_always_answers_a_little_late_keeps_its_role(cluster: Cluster) -> None:
    server = server_of(cluster, delay=1.4 * ORDER_SECONDS)
    reign = reign_of(cluster)
    try:
        reign.start()
        time.sleep(3 * cluster.lease)
        assert not reign.over
        assert reign.status is not None
    finally:
        reign.stop()
        server.kill()
        server.communicate()


def test_a_leader_that_is_alone_gets_no_lease_before_that_is_recorded(cluster: Cluster) -> None:
    """The record was lost with etcd's data; the server is as it was."""
    store = store_of(cluster)
    server = server_of(
        cluster, state="alone", count=1, level="fsync", timeout=10.0, alone="degrade"
    )
    view = View(store, lambda _leader: None)
    publisher = Publisher(cluster, store, view, lambda: None, lambda: "")
    reign = reign_of(cluster, publisher)
    try:
        reign.start()
        wait_until(lambda: reign.status is not None, "the server has a lease", PATIENCE)
        found = store.read(store.keys.sync)
        assert found is not None
        assert (found.record.epoch, found.record.alone) == (EPOCH, True)
    finally:
        reign.stop()
        server.kill()
        said, _ = server.communicate()
    orders = [json.loads(line)["do"] for line in said.splitlines()]
    assert orders.index("status") < orders.index("lease")


def campaign_of(cluster: Cluster) -> Campaign:
    def make_reign(_stored: Stored[Leader], _sent: float) -> Reign:
        raise AssertionError("the role was taken")

    return Campaign(
        cluster,
        Installation(cluster.source.parent),
        store_of(cluster),
        key_of(cluster, released=True),
        unchanged=9.0,
        waited=9.0,
        make_reign=make_reign,
    )


def test_what_the_former_leader_recorded_last_counts(cluster: Cluster) -> None:
    """The stream of changes may not have told this host yet that the leader went on alone."""
    store = store_of(cluster)
    store.put(store.keys.sync, Sync(EPOCH, 1, "fsync", alone=True))
    found = campaign_of(cluster).run()
    assert isinstance(found, Judgement)
    assert found.verdict is Verdict.CANNOT
    assert "no other node has" in found.why


def test_nobody_takes_over_after_a_pause_that_was_not_told_yet(cluster: Cluster) -> None:
    store = store_of(cluster)
    store.put(store.keys.paused, Paused("me", "work on the network", ""))
    found = campaign_of(cluster).run()
    assert isinstance(found, Judgement)
    assert "work on the network" in found.why
