"""The connections between nodes: peers that die without a word."""
import socket
import struct
import threading
import time

import pytest
from twisted.internet.threads import blockingCallFromThread
from ZODB.FileStorage import FileStorage
from ZODB.utils import z64

from indico_zodbrepl.dataplane.zrs import links, repairs
from indico_zodbrepl.dataplane.programs.addresses import format_address
from indico_zodbrepl.dataplane.server.status import followers, replication_status
from indico_zodbrepl.dataplane.zrs.confirming import Identity
from nodes import commit, pickle_of
from processes import free_ports, wait_for


@pytest.fixture
def primary(tmpdir, monkeypatch):
    """A primary in this process, with the links under test."""
    repairs.apply()
    monkeypatch.setattr(
        'zc.zrs.primary.PrimaryProducer', links.Producer)
    storage = FileStorage(str(tmpdir.join('Data.fs')))
    opened = links.Primary(
        storage, ('127.0.0.1', free_ports(1)[0]))
    links.require_listening(opened)
    yield opened
    opened.close()


def follow(primary):
    """Connects as a secondary that has nothing yet; returns the socket."""
    follower = socket.socket()
    follower.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    follower.connect(primary._addr)
    for message in ('zrs2.1', z64):
        follower.sendall(struct.pack('>I', len(message)) + message)
    wait_for(lambda: followers(primary), 'the follower')
    return follower


def test_a_follower_that_takes_no_data_vanishes(primary, monkeypatch):
    """The kernel gives its connection up, frozen though the peer may be."""
    monkeypatch.setattr(links, 'DEAD_AFTER', 1)
    follower = follow(primary)
    assert [format_address(follower.getsockname())] == followers(primary)
    for _ in range(100):
        commit(primary, pickle_of(100000 * 'x'))
    wait_for(lambda: followers(primary) == [], 'the follower is given up')
    follower.close()


def test_an_idle_link_is_probed_on_both_sides(primary, tmpdir):
    keepalive = [
        (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
        (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 10),
        (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 5),
        (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3),
        (socket.IPPROTO_TCP, 18, 30000)]
    links.install(0.2, Identity("test", lambda: 1))
    secondary = links.zc.zrs.secondary.Secondary(
        FileStorage(str(tmpdir.join('Secondary.fs'))), primary._addr)
    try:
        wait_for(lambda: followers(primary), 'the follower')
        ends = [primary._factory.instances[0], secondary._factory.instance]
        for end in ends:
            handle = end.transport.getHandle()
            assert keepalive == [
                (level, option, handle.getsockopt(level, option))
                for level, option, _ in keepalive]
    finally:
        secondary.close()


class Mute(object):
    """An upstream that accepts connections, says nothing, and closes them after some seconds.

    So does a tunnel to a lost host.
    """

    def __init__(self, seconds):
        self.accepted = 0
        self._seconds = seconds
        self._listener = socket.socket()
        self._listener.bind(('127.0.0.1', 0))
        self._listener.listen(5)
        self.address = self._listener.getsockname()
        thread = threading.Thread(target=self._accept)
        thread.daemon = True
        thread.start()

    def _accept(self):
        while True:
            connection, _ = self._listener.accept()
            self.accepted += 1
            time.sleep(self._seconds)
            connection.close()


@pytest.fixture
def following(tmpdir):
    """Returns a function that opens a secondary of an address."""
    links.install(0.1, Identity('test', lambda: 1))
    opened = []

    def follow_address(address):
        storage = FileStorage(str(tmpdir.join('Secondary.fs')))
        opened.append(links.zc.zrs.secondary.Secondary(storage, address))
        return opened[-1]

    yield follow_address
    for each in opened:
        each.close()


def is_connected(secondary):
    return replication_status(secondary)['connected']


def test_an_upstream_that_ends_each_connection_without_a_word_is_not_connected(following):
    upstream = Mute(0.5)
    secondary = following(upstream.address)
    while upstream.accepted < 4:
        assert not is_connected(secondary)
        time.sleep(0.01)


def test_an_upstream_with_nothing_to_say_counts_after_some_seconds(following, monkeypatch):
    monkeypatch.setattr(links, '_SETTLED_AFTER', 0.5)
    secondary = following(Mute(3600).address)
    wait_for(lambda: is_connected(secondary), 'the connection counts')


def test_an_upstream_counts_as_soon_as_it_says_something(primary, following, monkeypatch):
    monkeypatch.setattr(links, '_SETTLED_AFTER', 3600)
    secondary = following(primary._addr)
    wait_for(lambda: followers(primary), 'the follower')
    assert not is_connected(secondary)
    commit(primary, pickle_of('x'))
    wait_for(lambda: is_connected(secondary), 'the connection counts')
    primary.close()
    wait_for(lambda: not is_connected(secondary), 'the loss')


def test_addresses_are_written_as_users_write_them():
    assert ['127.0.0.1:80', '[::1]:80', '/run/zrs', None] == [
        format_address(each) for each in (
            ('127.0.0.1', 80), ('::1', 80, 0, 0), '/run/zrs', None)]


def test_a_stock_link_is_never_probed_while_it_is_idle(tmpdir):
    address = '127.0.0.1', free_ports(1)[0]
    stock = links._Primary(FileStorage(str(tmpdir.join('Data.fs'))), address)
    blockingCallFromThread(stock._reactor, getattr, stock, '_listener')
    follower = socket.create_connection(address)
    wait_for(lambda: stock._factory.instances, 'the link')
    handle = stock._factory.instances[0].transport.getHandle()
    assert 0 == handle.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
    follower.close()
    stock.close()


def test_a_stock_primary_whose_port_is_taken_saves_without_followers(primary, tmpdir):
    stock = links._Primary(
        FileStorage(str(tmpdir.join('Other.fs'))), primary._addr)
    assert blockingCallFromThread(
        stock._reactor, getattr, stock, '_listener') is None
    saved = commit(stock, pickle_of('x'))[1]
    assert saved == stock.lastTransaction()
    stock.close()


def test_a_primary_whose_port_is_taken_keeps_the_error(primary, tmpdir):
    storage = FileStorage(str(tmpdir.join('Other.fs')))
    other = links.Primary(storage, primary._addr)
    with pytest.raises(links.CannotListenError):
        links.require_listening(other)
    assert 'primary' == replication_status(other)['role']
    other.close()
