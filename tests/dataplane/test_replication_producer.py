"""Followers get all that is committed, at once or as fast as they take it."""
import os
import random
import socket
import struct
import threading
import time
from hashlib import md5

import pytest
from ZODB.FileStorage import FileStorage
from ZODB.serialize import referencesf
from ZODB.utils import z64

from indico_zodbrepl.dataplane.zrs import links, sending, stream
from indico_zodbrepl.dataplane.server import role_change
from indico_zodbrepl.dataplane.server.shutdown import drain
from indico_zodbrepl.dataplane.server.status import followers
from nodes import commit
from processes import PATIENCE, free_ports, wait_for
from streams import Writer, stream_of_ours

ANNOUNCEMENT = stream.NOTICE + stream.BLOBS


@pytest.fixture
def primary(tmpdir, monkeypatch):
    """A primary in this process, with the links under test."""
    monkeypatch.setattr(
        'zc.zrs.primary.PrimaryProducer', links.Producer)
    storage = FileStorage(
        str(tmpdir.join('Data.fs')), blob_dir=str(tmpdir.join('blobs')))
    opened = links.Primary(
        storage, ('127.0.0.1', free_ports(1)[0]))
    links.require_listening(opened)
    yield opened
    for protocol in list(opened._factory.instances):
        opened._reactor.callFromThread(protocol.transport.abortConnection)
    opened.close()


class Follower(object):
    """The follower's end of a link; it takes data only when it is told to.

    Args:
        primary: whom to follow.
        start: the last transaction that it has.
    """

    def __init__(self, primary, start=z64):
        self._storage = primary._storage
        self._tid = start
        self._md5 = md5(start)
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self._socket.settimeout(PATIENCE)
        self._socket.connect(primary._addr)
        for message in ('zrs2.1', start):
            self._socket.sendall(struct.pack('>I', len(message)) + message)
        self._announced = False

    def take(self):
        """Takes what was committed since the last time, and checks it."""
        if not self._announced:
            self._announced = True
            announcement = self._socket.recv(4 + len(ANNOUNCEMENT) + 8, socket.MSG_WAITALL)
            assert announcement[4:].startswith(ANNOUNCEMENT)
            self._md5.update(announcement[4:])
        expected = stream_of_ours(self._storage, self._tid, self._md5)
        self._tid = self._storage.lastTransaction()
        received = []
        missing = len(expected)
        while missing:
            received.append(self._socket.recv(min(missing, 1 << 16)))
            assert received[-1], 'the connection has ended'
            missing -= len(received[-1])
        assert expected == b''.join(received)

    def take_end(self):
        """Checks that the primary sends no more."""
        assert b'' == self._socket.recv(1)
        self._socket.close()


class ClosedEarly(links.FollowerProtocol):
    """Closed by another thread just before the message that makes its producer."""

    def messageReceived(self, data):
        if len(data) == 8:
            self.close()
        links.FollowerProtocol.messageReceived(self, data)


def producers(primary):
    return [each._PrimaryProtocol__producer for each in primary._factory.instances]


def wait_until_fed(primary, count):
    wait_for(lambda: len(primary._feed._followers) == count,
             '%d followers have no thread of their own' % count)


def follow(primary, *starts):
    """Returns followers that have everything."""
    found = [Follower(primary, start) for start in starts]
    for each in found:
        each.take()
    wait_until_fed(primary, len(found))
    return found


def test_what_is_acknowledged_has_been_sent(primary):
    """No other thread has to run first: the death of the server loses nothing."""
    _, tid = commit(primary, b'first')
    found = follow(primary, z64, tid)
    release = threading.Event()
    primary._reactor.callFromThread(release.wait)
    try:
        for _ in range(3):
            commit(primary, b'x' * 200)
            for each in found:
                each.take()
    finally:
        release.set()


def test_all_kinds_of_transactions_arrive_before_and_after_packs(primary, tmpdir):
    _, tid = commit(primary, b'before')
    found = follow(primary, z64, tid)
    for seed in range(3):
        writer = Writer(primary, random.Random(seed), tmpdir)
        for _ in range(20):
            writer.commit()
        for each in found:
            each.take()
        primary.pack(time.time(), referencesf, gc=False)
    Follower(primary).take()


def test_a_follower_that_takes_nothing_costs_bounded_memory(primary, monkeypatch):
    """It gets everything as soon as it goes on; others have had it at once."""
    monkeypatch.setattr(sending, 'BACKLOG', 100000)
    frozen, other = follow(primary, z64, z64)
    for _ in range(200):
        commit(primary, os.urandom(50000))
        other.take()
        for each in producers(primary):
            assert each._backlog_size < 200000
    assert 1 == len([each for each in threading.enumerate()
                     if each.name.startswith('Producer(')])
    frozen.take()
    wait_until_fed(primary, 2)
    commit(primary, b'last')
    frozen.take()
    other.take()


def test_a_large_record_is_kept_for_no_follower(primary, monkeypatch):
    """Not even in part: it is read again when they can take it."""
    monkeypatch.setattr(sending, 'BACKLOG', 10000000)
    frozen, other = follow(primary, z64, z64)
    for _ in range(100):
        commit(primary, os.urandom(50000))
        other.take()
    commit(primary, os.urandom(9000000))
    for each in producers(primary):
        assert each._backlog_size < 9000000
    other.take()
    frozen.take()


def test_large_transactions_and_blobs_arrive_between_small_ones(primary, tmpdir):
    found = follow(primary, z64)
    blob = tmpdir.join('blob')
    for _ in range(3):
        blob.write(300000 * 'b')
        commit(primary, blob=str(blob))
        commit(primary, b'small')
        commit(primary, os.urandom(1000000))
        commit(primary, b'small')
    for each in found:
        each.take()
    wait_until_fed(primary, 1)


def test_a_follower_joins_while_others_commit(primary):
    """Nothing is lost or sent twice between its own thread and the feed."""
    stop = threading.Event()

    def write():
        while not stop.is_set():
            commit(primary, os.urandom(100))
    writers = [threading.Thread(target=write) for _ in range(2)]
    for each in writers:
        each.start()
    try:
        found = []
        for _ in range(20):
            found.append(Follower(primary, primary.lastTransaction()))
            wait_for(lambda: len(followers(primary)) == len(found), 'it is accepted')
    finally:
        stop.set()
        for each in writers:
            each.join()
    for each in found:
        each.take()
    wait_until_fed(primary, len(found))


def test_a_follower_that_lags_is_drained(primary):
    """From its own thread, from what waits for it, or from the kernel."""
    found = follow(primary, z64, z64)
    for _ in range(100):
        commit(primary, os.urandom(50000))
        found[0].take()
    draining = threading.Thread(
        target=drain, args=(primary, time.time() + PATIENCE))
    draining.start()
    for each in found:
        each.take()
        each.take_end()
    draining.join()
    assert [] == followers(primary)


def test_a_follower_that_comes_while_its_link_is_closed_does_not_keep_it(primary):
    """A server's end would wait for it until its time is up."""
    primary._factory.protocol = ClosedEarly
    follower = Follower(primary)
    follower.take()
    follower.take_end()


def test_a_follower_that_is_late_is_cut_from_who_is_no_primary_any_more(primary, monkeypatch):
    monkeypatch.setattr(role_change, 'DRAIN_LIMIT', 0.2)
    frozen, = follow(primary, z64)
    for _ in range(100):
        commit(primary, os.urandom(50000))
    role_change.secondary_from(primary)
    # sooner than the kernel does it
    wait_for(lambda: [] == primary._factory.instances, 'it is cut off', 10)
    frozen._socket.close()


def test_what_was_committed_past_the_primary_is_sent_on_request(primary):
    found = follow(primary, z64)
    for _ in range(3):
        commit(primary._storage, b'past it')
    primary.feed_followers()
    for each in found:
        each.take()


def test_a_commit_succeeds_when_its_followers_can_not_be_fed(primary, monkeypatch, caplog):
    follower, = follow(primary, z64)

    def fail(*_):
        raise IOError('the disk is gone')
    monkeypatch.setattr(stream.Tail, 'next', fail)
    _, tid = commit(primary, b'x')
    assert tid == primary.lastTransaction()
    assert 'the disk is gone' in caplog.text
    follower.take_end()
    wait_for(lambda: [] == followers(primary), 'it is cut off')


def test_others_are_fed_on_when_the_first_has_gone(primary):
    """Also when a pack keeps the storage busy that puts another file in place."""
    storage = primary._storage
    gone, other = follow(primary, z64, z64)
    gone._socket.close()
    wait_until_fed(primary, 1)
    oid, _ = commit(primary, b'x')
    commit(primary, b'xx', oid)
    other.take()
    primary.pack(time.time(), referencesf, gc=False)
    feeding = threading.Thread(target=primary.feed_followers)
    with storage._lock:
        feeding.start()
        feeding.join(.1)
        assert feeding.is_alive()
    feeding.join()
    commit(primary, b'y', oid)
    other.take()
    assert 1 == len(primary._feed._followers)


def test_a_link_sends_small_transactions_at_once(primary):
    follow(primary, z64)
    handle = primary._factory.instances[0].transport.getHandle()
    assert 0 != handle.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_a_follower_that_no_thread_can_be_started_for_comes_again(primary, monkeypatch, caplog):
    """Connected, but sent nothing any more, it would not know that it is behind."""
    cut, = follow(primary, z64)

    def fail(*_):
        raise threading.ThreadError("can't start new thread")
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, 'start', fail)
        commit(primary, os.urandom(1000000))
    cut.take_end()
    assert "can't start new thread" in caplog.text
    Follower(primary).take()


def test_a_follower_is_let_go_while_it_waits_for_a_storage_that_ends(primary):
    """At a server's end the storage's lock is taken for good, perhaps after a pack."""
    storage = primary._storage
    oid, _ = commit(primary, b'x')
    commit(primary, b'xx', oid)
    waiting, = follow(primary, z64)
    producer, = producers(primary)
    tail = stream.Tail(storage, storage.lastTransaction(), lambda: producer._stopped)
    with primary._feed.lock:
        primary._feed.leave(producer)
    primary.pack(time.time(), referencesf, gc=False)
    stopped = []

    def join():
        try:
            primary._feed.join(producer, tail)
        except stream.Stopped:
            stopped.append(True)
    joining = threading.Thread(target=join)
    joining.daemon = True
    with storage._lock:
        joining.start()
        wait_for(primary._feed.lock.locked, 'it waits for the storage')
        primary._reactor.callFromThread(producer.stopProducing)
        joining.join(10)
        assert [True] == stopped
    tail.close()
