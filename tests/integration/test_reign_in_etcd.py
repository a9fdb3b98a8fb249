"""The reign of a leader and the campaign of another host, with a real etcd and a real process."""

from __future__ import annotations

import dataclasses
import json
import re
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
from indico_zodbrepl.host import acknowledging

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


def publisher_of(cluster: Cluster) -> Publisher:
    store = store_of(cluster)
    view = View(store, lambda _leader: None)
    here = Installation(Path(__file__).parents[2])
    return Publisher(cluster, here, store, view, reign=lambda: None, obstacle=str)


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
    reign = reign_of(cluster, publisher_of(cluster))
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


SYNC = Sync(EPOCH, 1, "fsync", members=("b",))


def recorded(cluster: Cluster) -> Sync:
    store = store_of(cluster)
    found = store.read(store.keys.sync)
    assert found is not None
    return found.record


def test_a_record_that_is_written_late_does_not_take_the_place_of_a_newer_one(
    cluster: Cluster,
) -> None:
    """Its writer was frozen after it had read the former one; then it looks again."""
    store = store_of(cluster)
    alone = dataclasses.replace(SYNC, epoch=EPOCH + 1, alone=True)
    seen: list[Sync | None] = []

    def change(known: Sync | None) -> Sync | None:
        seen.append(known)
        if len(seen) == 1:
            store_of(cluster).put(store.keys.sync, alone)
            return SYNC
        return None

    assert store.update(store.keys.sync, change) is None
    assert (seen, recorded(cluster)) == ([None, alone], alone)


def test_a_former_leader_leaves_the_record_of_a_later_one_alone(cluster: Cluster) -> None:
    store = store_of(cluster)
    newer = dataclasses.replace(SYNC, epoch=EPOCH + 1, alone=True)
    store.put(store.keys.sync, newer)
    server = server_of(
        cluster, state="asking", count=1, level="fsync", timeout=10.0, alone="degrade"
    )
    reign = reign_of(cluster)
    try:
        publisher_of(cluster).record(reign)
    finally:
        server.kill()
        said, _ = server.communicate()
    assert recorded(cluster) == newer
    assert "alone" not in [json.loads(line)["do"] for line in said.splitlines()]


@pytest.mark.parametrize("state", ["synchronous", "waiting"])
def test_a_node_that_was_added_stays_in_the_record_while_it_is_not_connected(
    cluster: Cluster, state: str
) -> None:
    """As soon as it is, it may confirm a commit that no other node has."""
    server = server_of(cluster, state=state, count=1, level="fsync", timeout=10.0, alone="refuse")
    publisher = publisher_of(cluster)
    reign = reign_of(cluster)
    try:
        publisher.record(reign)
        assert recorded(cluster).members == ("b",)
        text = cluster.source.read_text()
        node = re.search(r"<node b>.*?</node>", text, re.DOTALL)
        assert node is not None
        added = node[0].replace("<node b>", "<node c>").replace("/b", "/c")
        ports = iter(range(9001, 9010))
        added = re.sub(r"(-port) \d+", lambda found: f"{found[1]} {next(ports)}", added)
        cluster.source.write_text(f"{text}\n{added}\n")
        publisher.record(reign)
    finally:
        server.kill()
        server.communicate()
    assert recorded(cluster).members == ("b", "c")


def test_elections_ask_for_a_new_node_before_a_server_counts_it(cluster: Cluster) -> None:
    store = store_of(cluster)
    said: list[str] = []
    acknowledging.expect_nodes(cluster, said.append)
    assert store.read(store.keys.sync) is None, "commits wait for nobody"
    key_of(cluster)
    new = dataclasses.replace(cluster.node("b"), name="c")
    for number, each in enumerate(
        (cluster, dataclasses.replace(cluster, nodes=(*cluster.nodes, new)))
    ):
        store.put(store.keys.sync, dataclasses.replace(SYNC, count=number))
        acknowledging.expect_nodes(each, said.append)
    assert recorded(cluster).members == ("b", "c")
    assert said == ["elections ask for b, c"]
    acknowledging.expect_nodes(cluster, said.append)
    assert recorded(cluster).members == ("b", "c"), "it may still confirm commits"


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
