"""Roles change in place: nothing lost, nothing twice, reads go on."""
import socket
import threading
import time

import pytest
from ZEO.Exceptions import ClientDisconnected
from ZODB.POSException import ConflictError, POSKeyError, ReadOnlyError
from ZODB.utils import u64, z64

from nodes import Node, commit, pickle_of
from processes import FORKED, PATIENCE, wait_for
from zeo_servers import open_client


PAUSE = 0.01  # seconds between two calls, in which other processes run


class Worker(threading.Thread):
    """Repeats one call until told to stop; keeps when it succeeded.

    Attributes:
        results: what the calls returned.
        gap: the longest time between two successes, in seconds.
    """

    def __init__(self, call, pause=PAUSE):
        threading.Thread.__init__(self)
        self.daemon = True
        self.results = []
        self.errors = []
        self.gap = 0.0
        self._call = call
        self._pause = pause
        self._stopped = threading.Event()
        self.start()

    def run(self):
        last = time.time()
        while not self._stopped.is_set():
            try:
                self.results.append(self._call())
            except (ClientDisconnected, ReadOnlyError) as error:
                self.errors.append(error)
            else:
                now = time.time()
                self.gap, last = max(self.gap, now - last), now
            time.sleep(self._pause)

    def goes_on(self):
        """Waits for ten more successes."""
        count = len(self.results) + 10
        wait_for(lambda: len(self.results) >= count or not self.is_alive(),
                 'ten more results')
        assert self.is_alive()

    def stop(self):
        self._stopped.set()
        self.join(PATIENCE)
        assert not self.is_alive()


@pytest.fixture
def work():
    """Starts Workers on one client of several nodes; stops and closes all."""
    storages, workers = [], []

    def start(nodes, call, pause=PAUSE):
        storage = open_client(nodes)
        storages.append(storage)
        workers.append(Worker(lambda: call(storage), pause))
        return workers[-1]
    yield start
    for worker in workers:
        worker._stopped.set()
    for storage in storages:
        storage.close()


def write(storage):
    return commit(storage, pickle_of(1000 * 'x'))[1]


def read(storage):
    """Reads past the client's cache."""
    return storage._call('loadBefore', z64, 8 * '\x7f')


def replication(node):
    return '127.0.0.1:%d' % node.replication_port


def promote(node, epoch=4):
    answer = node.control(
        do='promote', epoch=epoch, replicate_to=replication(node))
    assert answer['ok'], answer
    return answer


def wait_for_unread(primary, count):
    """Waits until so many bytes lie unread with one of its followers."""
    peer = ':%04X' % primary.replication_port

    def unread():
        with open('/proc/net/tcp') as table:
            rows = [line.split() for line in table]
        return max([int(row[4].split(':')[1], 16) for row in rows
                    if row[2].endswith(peer)] or [0])
    wait_for(lambda: unread() >= count, '%d unread bytes' % count)


@pytest.fixture
def trio(processes, tmpdir):
    """A primary and two followers of it, all running; the root exists."""
    primary = Node(processes, tmpdir, 'a', listens=True)
    nodes = [primary] + [Node(processes, tmpdir, name, upstream=primary)
                         for name in 'bc']
    for node in nodes:
        node.start(wait=False)
    for node in nodes:
        node.process.wait_for_port(node.port)
    primary.wait_for_followers(2)
    client = primary.client()
    _, tid = commit(client, pickle_of('root'), oid=z64)
    client.close()
    for node in nodes:
        node.wait_for_tid(tid)
    return nodes


def hand_over(old, new, epoch=4):
    """The control plane's part of a switchover."""
    last = old.control(do='hold', seconds=100)['last_tid'].decode('hex')
    new.wait_for_tid(last)
    assert old.control(do='epoch', epoch=epoch)['ok']
    promote(new, epoch)
    answer = old.control(do='follow', epoch=epoch, upstream=replication(new))
    assert answer['ok'], answer


def end(nodes):
    for node in nodes:
        assert 0 == node.process.terminate(), node.process.output()


def test_a_handover_under_load_loses_no_commit_and_makes_none_twice(
        trio, work):
    old, new, third = trio
    writers = [work(trio, write) for _ in range(3)]
    reader = work(trio, read)
    for each in writers + [reader]:
        each.goes_on()
    hand_over(old, new)
    assert third.control(do='follow', epoch=4,
                         upstream=replication(new))['ok']
    for each in writers + [reader]:
        each.goes_on()
    hand_over(new, old, epoch=5)
    assert third.control(do='follow', epoch=5,
                         upstream=replication(old))['ok']
    for each in writers + [reader]:
        each.goes_on()
        each.stop()
    old.wait_for_followers(2)
    told = [tid for each in writers for tid in each.results]
    for node in (new, third):
        node.wait_for_tid(max(told))
    status = [node.status() for node in trio]
    end([old, new, third])

    assert ['primary', 'secondary', 'secondary'] == [
        each['role'] for each in status]
    assert [5, 5, 5] == [each['epoch'] for each in status]
    assert len(told) == len(set(told))
    assert 1 + len(told) == len(old.tids())
    assert set(told) < set(old.tids())
    assert old.bytes() == new.bytes() == third.bytes()


def test_after_a_primary_was_killed_a_promoted_secondary_takes_writes(
        trio, work):
    old, new, third = trio
    writer = work(trio, write)
    writer.goes_on()
    old.process.kill()
    wait_for(lambda: new.status()['connected'] is False, 'the loss is seen')
    promote(new)
    assert third.control(do='follow', epoch=4,
                         upstream=replication(new))['ok']
    writer.goes_on()
    writer.stop()
    third.wait_for_tid(writer.results[-1])

    assert ('primary', 4, None, False) == tuple(
        new.status()[key] for key in ('role', 'epoch', 'upstream', 'read_only'))
    end([new, third])
    assert new.bytes() == third.bytes()


def new_id(node):
    client = node.client()
    try:
        return u64(client.new_oid())
    finally:
        client.close()


def test_a_new_primary_gives_no_ids_that_the_last_one_may_have_given(
        processes, tmpdir):
    """Objects that were lost with that one are still in the memory of clients."""
    old = Node(processes, tmpdir, 'a', listens=True)
    new = Node(processes, tmpdir, 'b', upstream=old)
    old.start()
    new.start()
    old.wait_for_followers()
    client = old.client()
    new.wait_for_tid(commit(client, pickle_of('known to both'))[1])
    client.close()
    given = new_id(old)
    promote(new)
    following = new_id(new)
    assert given + 10 ** 7 < following
    new.process.terminate()
    new.configure(listens=True)
    new.start()
    assert given + 10 ** 7 < new_id(new)


def test_a_promoted_relay_keeps_its_followers(processes, tmpdir):
    primary = Node(processes, tmpdir, 'a', listens=True)
    relay = Node(processes, tmpdir, 'b', upstream=primary, listens=True)
    tertiary = Node(processes, tmpdir, 'c', upstream=relay)
    for node in (primary, relay, tertiary):
        node.start()
    relay.wait_for_followers()
    followers = relay.status()['followers']
    answer = relay.control(do='promote', epoch=4, replicate_to='127.0.0.1:1')
    assert (False, 'the role was not changed') == (
        answer['ok'], answer['error'])
    assert ('relay', True) == (relay.status()['role'],
                               relay.status()['connected'])
    promote(relay)

    assert ('primary', followers) == (relay.status()['role'],
                                      relay.status()['followers'])
    client = relay.client()
    tertiary.wait_for_tid(commit(client, pickle_of('x'))[1])
    client.close()
    end([relay, tertiary, primary])


def test_a_promotion_may_be_repeated_but_not_for_an_earlier_epoch(trio):
    promote(trio[1])
    promote(trio[1])
    client = trio[1].client()
    commit(client, pickle_of('x'))
    promote(trio[1], epoch=6)
    assert 6 == trio[1].status()['epoch']
    answer = trio[1].control(do='promote', epoch=5,
                             replicate_to=replication(trio[1]))
    assert (False, 'epoch 5 is over') == (answer['ok'], answer['error'])
    commit(client, pickle_of('x'))
    client.close()


def test_without_its_replication_port_a_secondary_goes_on_following(trio):
    primary, secondary = trio[:2]
    taken = socket.socket()
    taken.bind(('127.0.0.1', secondary.replication_port))
    taken.listen(1)
    answer = secondary.control(do='promote', epoch=4,
                               replicate_to=replication(secondary))
    taken.close()

    assert (False, 'the role was not changed') == (
        answer['ok'], answer['error'])
    assert 'cannot listen for followers' in answer['detail']
    status = secondary.status()
    assert ('secondary', True, 3) == (
        status['role'], status['connected'], status['epoch'])
    client = primary.client()
    secondary.wait_for_tid(commit(client, pickle_of('x'))[1])
    client.close()
    promote(secondary)


def start_changed(processes, node, change):
    """Starts a node's server in a process that executes `change` first."""
    script = """%s
import os
from indico_zodbrepl.dataplane.server import main as server
os._exit(server.main(%r))
""" % (change, node.command()[3:])
    node.process = processes.start(
        [FORKED, '-c', script], node.name, node.port)


def test_promotion_takes_what_a_frozen_primary_has_sent(processes, tmpdir):
    """It is in the follower's socket buffer, and nowhere else if the host dies."""
    primary = Node(processes, tmpdir, 'a', listens=True)
    secondary = Node(processes, tmpdir, 'b', upstream=primary)
    primary.start()
    start_changed(processes, secondary, """
import time
from twisted.internet.tcp import Connection
from zc.zrs.secondary import SecondaryProtocol
Connection.bufferSize = 8192
receive = SecondaryProtocol.dataReceived
def slowly(self, data):
    receive(self, data)
    time.sleep(0.03)
SecondaryProtocol.dataReceived = slowly
""")
    primary.wait_for_followers()
    secondary.process.pause()
    client = primary.client()
    tids = [commit(client, pickle_of(2000 * 'x'))[1] for _ in range(30)]
    wait_for_unread(primary, 30 * 2000)
    primary.process.pause()
    secondary.process.resume()
    promote(secondary)

    assert tids[-1] == secondary.last_tid()
    primary.process.resume()
    client.close()


def test_half_a_transaction_from_the_upstream_is_dropped(trio):
    primary, secondary = trio[:2]
    before = secondary.last_tid()
    secondary.process.pause()
    client = primary.client()
    # more than the socket buffers hold, so that it cannot arrive whole
    commit(client, pickle_of(30000000 * 'x'))
    wait_for_unread(primary, 100000)
    primary.process.pause()
    secondary.process.resume()
    promote(secondary)
    assert before == secondary.last_tid()
    other = secondary.client()
    _, tid = commit(other, pickle_of('x'))
    other.close()
    primary.process.resume()
    client.close()
    end([secondary])

    assert [before, tid] == secondary.tids()


def test_a_primary_that_takes_commits_does_not_follow(trio):
    old, new, _ = trio
    answer = old.control(do='follow', epoch=4, upstream=replication(new))
    assert (False, 'it is a primary, and takes commits') == (
        answer['ok'], answer['error'])
    old.control(do='hold', seconds=60)
    answer = old.control(do='follow', epoch=3, upstream=replication(new))
    assert (False, 'it is the primary of epoch 3') == (
        answer['ok'], answer['error'])
    assert ('primary', 'operator') == (old.status()['role'],
                                       old.status()['held'])


def test_a_secondary_that_is_repointed_keeps_its_clients(trio):
    """Also when its new upstream is not there yet."""
    old, new, third = trio
    client = third.client(read_only=True)
    generation = client._connection_generation
    third.control(do='follow', epoch=3, upstream=replication(new))
    assert address_of(third) == replication(new)
    hand_over(old, new)
    writer = new.client()
    oid, tid = commit(writer, pickle_of('news'))
    writer.close()
    third.wait_for_tid(tid)

    wait_for(lambda: client.lastTransaction() == tid, 'the invalidation')
    assert pickle_of('news') == client.load(oid)[0]
    assert generation == client._connection_generation
    client.close()


def address_of(node):
    return node.status()['upstream']


def test_a_server_may_be_promoted_during_a_pack(processes, tmpdir):
    primary = Node(processes, tmpdir, 'a', listens=True)
    secondary = Node(processes, tmpdir, 'b', upstream=primary)
    primary.start()
    start_changed(processes, secondary, """
import os, time
from ZODB.FileStorage import FileStorage
packer = FileStorage.packer
def slow_packer(storage, *args):
    packed = packer(storage, *args)  # has the commit lock from now on
    os.write(2, 'packed')
    time.sleep(3)
    return packed
FileStorage.packer = staticmethod(slow_packer)
""")
    primary.wait_for_followers()
    client = primary.client()
    commit(client, pickle_of('one'), oid=z64)
    _, tid = commit(client, pickle_of('two'), oid=z64)
    secondary.wait_for_tid(tid)
    reader = secondary.client(read_only=True)
    reader.pack(time.time(), wait=False)
    wait_for(lambda: 'packed' in secondary.process.output(), 'the pack')
    commit(client, pickle_of('three'), oid=z64)
    reader.close()
    promote(secondary)
    new = secondary.client()
    _, tid = commit(new, pickle_of('four'), oid=z64)
    new.close()
    client.close()
    end([secondary])

    assert tid == secondary.tids()[-1]
    assert 2 <= len(secondary.tids()) <= 3
