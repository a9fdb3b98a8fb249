"""The lock of operations in a real etcd: commands of several hosts, and the automation."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from clusters import wait_until
from etcd_members import BINARY, EtcdMembers

from indico_zodbrepl.cluster import Cluster, NodeState, Role, load
from indico_zodbrepl.cluster.hosts import Etcd
from indico_zodbrepl.cluster.installation import Installation, home_from_environment
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.etcd import leadership
from indico_zodbrepl.etcd.connection import store_of
from indico_zodbrepl.etcd.keys import Leader
from indico_zodbrepl.host.operations_interface import LockHeldError, LockLostError
from indico_zodbrepl.host.remote import client, etcd_lock
from indico_zodbrepl.host.remote.router import several_hosts
from indico_zodbrepl.operations import automatic, journal, maintenance, roles, single
from indico_zodbrepl.operations.model import Context, Plan

PATIENCE = 30.0
pytestmark = pytest.mark.skipif(BINARY is None, reason="etcd is not installed")

CONF = """\
name locked
backend zrs
var-directory {folder}
<host one>
  address 10.77.0.11
</host>
<host two>
  address 10.77.0.12
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
  host one
  port 8131
</admin>
"""
HOLD = """
import sys
sys.path.insert(0, {tests!r})
from pathlib import Path
import test_lock_in_etcd as test
from indico_zodbrepl.host.remote import etcd_lock
with etcd_lock.held(test.cluster_of(Path({folder!r}), {host!r}, {url!r})) as lock:
    print("held", flush=True)
    for line in sys.stdin:
        lock.check()
        print("checked", flush=True)
"""


def cluster_of(folder: Path, host: str, *endpoints: str) -> Cluster:
    """Return a cluster with automation as one of its hosts sees it."""
    path = folder / "cluster.conf"
    if not path.exists():
        path.write_text(CONF.format(folder=folder))
    var = folder / host
    var.mkdir(exist_ok=True)
    found = dataclasses.replace(
        load(path, folder),
        here=host,
        var_directory=var,
        automatic=True,
        lease=2.0,
        etcd=Etcd(endpoints=endpoints),
    )
    identity = Layout(found).cluster_id
    identity.parent.mkdir(exist_ok=True)
    identity.write_text("one cluster\n")
    return found


@pytest.fixture
def one(tmp_path: Path, members: EtcdMembers) -> Iterator[Cluster]:
    found = cluster_of(tmp_path, "one", *members.endpoints)
    yield found
    etcd = store_of(found).etcd
    for entry in etcd.list(store_of(found).keys.prefix).entries:
        assert etcd.delete(entry)


@pytest.fixture
def two(tmp_path: Path, members: EtcdMembers, one: Cluster) -> Cluster:  # noqa: ARG001 - its keys
    return cluster_of(tmp_path, "two", *members.endpoints)


def command_on(cluster: Cluster) -> subprocess.Popen[str]:
    """Start a command on a host; return when it holds the lock."""
    assert cluster.etcd is not None
    text = HOLD.format(
        tests=str(Path(__file__).parent),
        folder=str(cluster.source.parent),
        host=cluster.here,
        url=cluster.etcd.endpoints[0],
    )
    process = subprocess.Popen(
        [sys.executable, "-c", text],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    said = process.stdout.readline()
    assert said == "held\n", process.communicate(timeout=30)
    return process


def test_a_second_command_is_refused_and_told_of_the_first(one: Cluster, two: Cluster) -> None:
    with (
        etcd_lock.held(one) as lock,
        pytest.raises(LockHeldError, match=f"process {os.getpid()} on host one, ") as refused,
        etcd_lock.held(two),
    ):
        raise AssertionError("both hold the lock")
    assert refused.value.holder.key == lock.who.key
    with etcd_lock.held(two) as second:
        second.check()


def test_the_lock_of_a_killed_command_is_free_at_once_on_its_host(one: Cluster) -> None:
    command = command_on(one)
    command.kill()
    command.communicate()
    with etcd_lock.held(one) as lock:
        lock.check()


def test_the_lock_of_a_killed_command_is_free_on_other_hosts_after_its_time(
    one: Cluster, two: Cluster
) -> None:
    command = command_on(one)
    command.kill()
    command.communicate()
    with etcd_lock.held(two) as lock:
        lock.check()


def test_the_automation_preempts_a_command_which_stops_before_its_next_step(
    one: Cluster, two: Cluster
) -> None:
    with etcd_lock.held(one) as lock, etcd_lock.held(two, preempting=True) as automation:
        automation.check()
        with pytest.raises(LockLostError, match="the automation took over"):
            etcd_lock.refuse_ended(two, lock.who.key)
        etcd_lock.refuse_ended(two, automation.who.key)
        wait_until(lambda: is_lost(lock), "the command has lost its lock", PATIENCE)
        with pytest.raises(LockLostError, match="the automation took over"):
            lock.check()
    with etcd_lock.held(one) as lock:
        lock.check()


def test_calls_keep_the_key_of_the_operation_that_has_replaced_another_one_of_the_same_program(
    one: Cluster,
) -> None:
    """Without one, agents do not check whether the operation was replaced as well."""
    path = Layout(one).operation_lock
    with contextlib.ExitStack() as replaced:
        replaced.enter_context(etcd_lock.held(one))
        with etcd_lock.held(one, preempting=True) as automation:
            replaced.close()
            assert automation.who.key == client.LOCK_KEYS[path]
        assert path not in client.LOCK_KEYS


def is_lost(lock: etcd_lock.EtcdLock) -> bool:
    try:
        lock.check()
    except LockLostError:
        return True
    return False


def test_a_command_that_was_frozen_has_lost_its_lock_and_its_steps_are_refused(
    one: Cluster, two: Cluster
) -> None:
    command = command_on(one)
    store = store_of(two)
    stored = store.read(store.keys.operation)
    assert stored is not None
    command.send_signal(signal.SIGSTOP)
    with etcd_lock.held(two) as lock:
        with pytest.raises(LockLostError):
            etcd_lock.refuse_ended(two, stored.record.identifier)
        command.send_signal(signal.SIGCONT)
        lock.check()
    _, errors = command.communicate("\n", timeout=30)
    assert "LockLostError" in errors
    assert command.returncode != 0


def test_a_command_that_has_lost_its_lock_changes_nothing_on_its_own_host_either(
    one: Cluster, two: Cluster
) -> None:
    host = several_hosts(one, None)
    wanted = NodeState(one.name, "a", Role.PRIMARY, None, epoch=1)
    one.node("a").data_directory.mkdir()
    with etcd_lock.held(one):
        host.write_state(wanted)
        with etcd_lock.held(two, preempting=True), pytest.raises(LockLostError):
            host.write_state(dataclasses.replace(wanted, epoch=2))
    assert host.state("a") == wanted


def test_a_command_goes_on_after_etcd_was_away_for_a_moment(
    one: Cluster, members: EtcdMembers
) -> None:
    with etcd_lock.held(one) as lock:
        members.all[0].freeze()
        try:
            time.sleep(1.0)
        finally:
            members.all[0].thaw()
        lock.check()


def test_without_etcd_nothing_begins(one: Cluster, members: EtcdMembers) -> None:
    members.all[0].freeze()
    try:
        with pytest.raises(OperatorError, match="etcd does not answer"), etcd_lock.held(one):
            raise AssertionError("it holds the lock")
    finally:
        members.all[0].thaw()


def test_of_an_operator_and_the_automation_one_begins_an_epoch(one: Cluster, two: Cluster) -> None:
    assert leadership.epoch(one) == 0
    leadership.claim(one, "a", 3, "first")
    leadership.claim(one, "a", 3, "repeated")
    found = leadership.read(two)
    assert found is not None
    assert ("a", "one", 3, 1) == (found.node, found.host, found.epoch, found.counter)
    with pytest.raises(OperatorError, match="epoch 3 can't begin: the automation took over"):
        leadership.claim(two, "b", 3, "the second")
    claimed = leadership.claim(two, "b", 4, "switchover")
    assert claimed.former == found
    leadership.refuse_other(one, "b", 4)
    with pytest.raises(OperatorError, match="node b leads in epoch 4"):
        leadership.refuse_other(one, "a", 3)


def test_a_claim_succeeds_while_the_old_leader_renews_the_key(one: Cluster) -> None:
    store = store_of(one)
    assert store.create(store.keys.leader, Leader("a", "one", 1, 1)).done
    stale = store.read(store.keys.leader)
    assert stale is not None
    assert store.swap(stale, dataclasses.replace(stale.record, counter=2)).done
    wanted = Leader("b", "two", 2, 2)
    assert leadership._swapped(one, stale, wanted).done


def context_of(cluster: Cluster, said: list[str], *done: tuple[str, str]) -> Context:
    plan = Plan("failover", "b", "a", "it is lost", 2, (), None, ())
    results = {key: {"last_tid": "01"} for key in done}
    installation = Installation(home_from_environment())
    return Context(cluster, installation, plan, results, said.append, time.time())


def test_a_promotion_waits_until_the_lease_of_a_leader_that_was_not_stopped_has_ended(
    one: Cluster,
) -> None:
    leadership.claim(one, "a", 1, "first")
    said: list[str] = []
    began = leadership.boottime()
    roles.lead(context_of(one, said), "b", 2)
    assert leadership.boottime() - began >= one.lease
    assert "a may commit until its lease ends: waiting for that" in said
    roles.lead(context_of(one, said), "b", 2)  # as after a kill of the command


def test_a_promotion_after_a_pause_does_not_wait(one: Cluster) -> None:
    leadership.claim(one, "a", 1, "first")
    said: list[str] = []
    roles.lead(context_of(one, said, ("hold", "a")), "b", 2)
    assert said == ["b leads in epoch 2 by its key in etcd"]


def test_a_restart_tells_the_automation_whose_server_stops_on_purpose(one: Cluster) -> None:
    store = store_of(one)
    with etcd_lock.held(one) as lock:
        lock.announce_stop("a")
        stored = store.read(store.keys.operation)
        assert stored is not None
        assert ("a", lock.who.key) == (stored.record.stops, stored.record.identifier)


def test_the_automation_is_paused_and_resumed_with_an_entry_in_the_journal(one: Cluster) -> None:
    installation = Installation(home_from_environment())
    leadership.claim(one, "a", 1, "first")
    pause = maintenance.PauseAutomation.named(one.name)
    here = dataclasses.replace(one, here=None, hosts=())  # the journal of one host
    done, notes = single.take(here, installation, pause, "new disks", say=print)
    assert "the automation is paused: node a leads in epoch 1" in done
    assert not notes
    found = maintenance.paused(one)
    assert found is not None
    assert "new disks" == found.reason
    _, notes = single.take(here, installation, pause, "again", say=print)
    assert notes == (f"the automation was already {maintenance.describe(found)}",)
    assert not single.plan(here, installation, pause, "")[0].steps
    resumed = maintenance.ResumeAutomation.named(one.name)
    done, _ = single.take(here, installation, resumed, "", say=print)
    assert "the automation acts again: node a leads in epoch 1" == done
    assert maintenance.paused(one) is None
    assert ["pause", "pause", "resume-automation"] == [
        entry.plan.operation for entry in journal.read(here)[0]
    ]


def test_without_automation_there_is_nothing_to_pause(one: Cluster) -> None:
    with pytest.raises(OperatorError, match="the cluster has no automation"):
        maintenance.paused(dataclasses.replace(one, automatic=False))


def test_a_failover_by_hand_sees_what_the_automation_does(one: Cluster, two: Cluster) -> None:
    leadership.claim(one, "a", 1, "first")
    short = dataclasses.replace(one, lease=0.2)
    watched: list[automatic.Automation | None] = []

    def watch() -> None:
        watched.append(automatic.observe(short))

    thread = threading.Thread(target=watch)
    thread.start()
    time.sleep(0.3)
    leadership.claim(two, "b", 2, "the lease ended")
    thread.join()
    (found,) = watched
    assert found is not None
    assert found.taken_over
    assert found.leader is not None
    assert "b" == found.leader.node
