"""Clients change their server at once when another node becomes the leader, or theirs is silent."""
import json
import threading
import time

import pytest
from ZEO.Exceptions import ClientDisconnected
from ZODB.Connection import TransactionMetaData
from ZODB.POSException import ReadOnlyError
from ZODB.utils import z64

from indico_zodbrepl.dataplane.client import leader, transactions
from indico_zodbrepl.dataplane.client.leader import LeaderFile

from nodes import Node, commit, pickle_of
from processes import wait_for
from zeo_servers import open_client


@pytest.fixture
def cluster(processes, tmpdir, monkeypatch):
    """A primary `a` and its follower `b`; this process's clients look at the leader's file."""
    monkeypatch.setenv(leader.VARIABLE, str(tmpdir.join('leader.json')))
    a = Node(processes, tmpdir, 'a', listens=True)
    b = Node(processes, tmpdir, 'b', upstream=a)
    for node in (a, b):
        node.start()
    a.wait_for_followers()
    return a, b


@pytest.fixture
def announce(tmpdir):
    """Writes the file, as the host's automation does."""
    def write(node, epoch):
        new = tmpdir.join('leader.json.new')
        new.write(json.dumps({
            'format': 1, 'cluster': 'test', 'epoch': epoch, 'node': node.name,
            'address': '127.0.0.1:%d' % node.port}))
        new.rename(tmpdir.join('leader.json'))
    return write


@pytest.fixture
def clients():
    opened = []
    yield opened
    for client in opened:
        client.close()


def connect(nodes, clients, **options):
    client = open_client(nodes, **options)
    clients.append(client)
    return client


def server_of(client):
    return client.base._server.client.protocol.addr[1]


def promote(node, epoch=4):
    answer = node.control(
        do='promote', epoch=epoch, replicate_to='127.0.0.1:%d' % node.replication_port)
    assert answer['ok'], answer


def is_writable(client):
    return client.is_connected() and not client.is_read_only()


class Background(threading.Thread):

    outcome = None

    def __init__(self, function, *args):
        threading.Thread.__init__(self)
        self.daemon = True
        self._call = function, args
        self.start()

    def run(self):
        function, args = self._call
        try:
            self.outcome = function(*args)
        except Exception as error:
            self.outcome = error


def read(client, oid):
    """Reads from the server, not from the client's cache; as Indico does, once more if it was lost."""
    while True:
        try:
            return client.base._call('loadBefore', oid, b'\x7f' + 7 * b'\xff')[0]
        except ClientDisconnected:
            time.sleep(0.01)


def test_a_new_leader_gets_the_next_commit_of_a_stopped_ones_client(
        cluster, announce, clients):
    a, b = cluster
    announce(a, 3)
    client = connect(cluster, clients)
    _, tid = commit(client, pickle_of('x'))
    b.wait_for_tid(tid)
    a.process.pause()
    announce(b, 4)
    promote(b)
    wait_for(lambda: is_writable(client) and server_of(client) == b.port, 'the new leader')
    commit(client, pickle_of('y'))


def test_a_leader_that_is_announced_before_its_promotion_is_found(cluster, announce, clients):
    a, b = cluster
    announce(a, 3)
    client = connect(cluster, clients)
    a.process.pause()
    announce(b, 4)
    wait_for(client.is_read_only, 'the other server')
    promote(b)
    wait_for(lambda: is_writable(client), 'the new leader')
    assert b.port == server_of(client)


def test_writers_wait_longer_where_a_new_leader_will_come(
        cluster, announce, clients, monkeypatch):
    monkeypatch.setattr(transactions, 'PATIENCE', 0)
    a, b = cluster
    announce(a, 3)
    client = connect(cluster, clients)
    a.process.kill()
    wait_for(client.is_read_only, 'the other server')
    writing = Background(commit, client, pickle_of('x'))
    announce(b, 4)
    promote(b)
    wait_for(lambda: not writing.is_alive(), 'the end of the commit')
    assert writing.outcome[1] == b.last_tid()


def test_a_former_primary_that_answers_is_left_too(cluster, announce, clients):
    """It may not know yet that its commits do not count any more."""
    a, b = cluster
    announce(a, 3)
    client = connect(cluster, clients)
    promote(b)
    announce(b, 4)
    wait_for(lambda: client.is_connected() and server_of(client) == b.port, 'the new leader')


def test_a_connection_that_is_left_before_it_can_be_used_is_closed(cluster, announce, clients):
    """Invalidations from two connections would be out of order, and a saved commit look failed."""
    a, _ = cluster
    announce(a, 3)
    client = connect(cluster, clients)
    server = client.base._server

    def turn_to_the_leader_during_the_verification():
        server.client.ready = server.client.operational = False
        client._watchdog.switching._changed = True
        client._watchdog.switching.look()

    server.io_call(server.apply_co(turn_to_the_leader_during_the_verification))
    wait_for(lambda: is_writable(client), 'the server is used again')
    wait_for(lambda: a.control(do='status')['clients'] == 1, 'the other connection is closed')


def test_a_stale_file_prevents_nothing(cluster, announce, clients):
    a, b = cluster
    announce(b, 7)
    client = connect(cluster, clients)
    commit(client, pickle_of('x'))
    announce(b, 8)
    wait_for(lambda: client._watchdog.switching._leader.current.epoch == 8, 'the file is read')
    wait_for(lambda: is_writable(client), 'the server that accepts writes')
    assert a.port == server_of(client)
    commit(client, pickle_of('x'))


def test_reads_go_on_from_the_other_server_while_one_is_silent(cluster, announce, clients):
    a, b = cluster
    announce(a, 3)
    client = connect(cluster, clients)
    oid, tid = commit(client, pickle_of('x'))
    b.wait_for_tid(tid)
    a.process.pause()
    reading = Background(read, client, oid)
    wait_for(lambda: not reading.is_alive(), 'the read')
    assert pickle_of('x') == reading.outcome
    assert client.is_read_only()

    a.process.resume()
    wait_for(lambda: is_writable(client), 'the server that answers again')
    commit(client, pickle_of('y'))


def test_without_the_file_a_silent_server_is_waited_for(cluster, clients):
    a, _ = cluster
    client = connect(cluster, clients)
    oid, _ = commit(client, pickle_of('x'))
    connection = client.base._connection_generation
    a.process.pause()
    reading = Background(read, client, oid)
    reading.join(2)
    assert reading.is_alive()
    a.process.resume()
    wait_for(lambda: not reading.is_alive(), 'the read')
    assert connection == client.base._connection_generation


def test_a_silent_server_without_another_is_waited_for(cluster, announce, clients):
    a, b = cluster
    announce(a, 3)
    client = connect(cluster, clients)
    oid, _ = commit(client, pickle_of('x'))
    b.process.kill()
    a.process.pause()
    reading = Background(read, client, oid)
    reading.join(2)
    assert reading.is_alive()
    a.process.resume()
    wait_for(lambda: not reading.is_alive(), 'the read')
    assert not client.is_read_only()


def test_a_commit_that_waits_for_its_last_answer_is_waited_for(cluster, announce, clients):
    a, b = cluster
    announce(a, 3)
    client = connect(cluster, clients)
    transaction = TransactionMetaData()
    client.tpc_begin(transaction)
    client.store(client.new_oid(), z64, pickle_of('x'), '', transaction)
    client.tpc_vote(transaction)
    a.process.pause()
    finishing = Background(client.tpc_finish, transaction)
    finishing.join(2)
    assert finishing.is_alive()
    a.process.resume()
    wait_for(lambda: not finishing.is_alive(), 'the end of the commit')
    assert isinstance(finishing.outcome, bytes)


def test_a_vote_at_a_silent_server_is_repeated_elsewhere(cluster, announce, clients):
    a, b = cluster
    announce(a, 3)
    client = connect(cluster, clients)
    oid, tid = commit(client, pickle_of('x'))
    b.wait_for_tid(tid)
    a.process.pause()
    voting = Background(commit, client, pickle_of('y'), oid)
    wait_for(lambda: not voting.is_alive(), 'the end of the commit')
    assert isinstance(voting.outcome, (ClientDisconnected, ReadOnlyError))


@pytest.mark.parametrize('text', ['', '{', '[]', '{"epoch": 1}', '{"epoch": 1, "node": "b", '
                                  '"address": "nowhere"}', '{"epoch": "x"}'])
def test_a_damaged_file_counts_as_none(tmpdir, text):
    path = tmpdir.join('leader.json')
    path.write(text)
    assert None is LeaderFile(str(path)).current


def test_only_a_later_epoch_is_a_change(cluster, announce, tmpdir):
    a, b = cluster
    read = LeaderFile(str(tmpdir.join('leader.json')))
    assert (False, None) == (read.has_changed(), read.current)
    for node, epoch, changed in ((a, 3, True), (a, 3, False), (b, 2, False), (b, 4, True)):
        announce(node, epoch)
        assert changed == read.has_changed()
    assert (4, 'b', ('127.0.0.1', b.port)) == read.current
