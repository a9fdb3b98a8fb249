"""A leased server lets commits begin and end only while its lease lasts."""
import threading

import pytest
from ZEO.Exceptions import ClientDisconnected
from ZODB.Connection import TransactionMetaData
from ZODB.POSException import ReadOnlyError
from ZODB.utils import z64

from indico_zodbrepl.dataplane.programs.clock import boottime

from changed_clock import ChangedClock
from nodes import Node, commit, pickle_of
from processes import wait_for
from slow_disks import start_slow

LONG = 50.0  # seconds


def leased(processes, tmpdir, **options):
    return Node(processes, tmpdir, 'a', listens=True, options=['--leased'], **options)


@pytest.fixture
def node(processes, tmpdir):
    node = leased(processes, tmpdir)
    node.start()
    return node


@pytest.fixture
def clients():
    opened = []
    yield opened
    for client in opened:
        client.close()


def open_client(node, clients, **options):
    client = node.client(blob_dir=None, **options)
    clients.append(client)
    return client


def lease(node, seconds=LONG, epoch=3):
    return node.control(do='lease', epoch=epoch, until=boottime() + seconds)


def wait_for_the_end(node):
    wait_for(lambda: node.status()['held'] == 'lease', 'the end of the lease')


def vote(client):
    """Takes a commit up to its vote; returns its transaction."""
    transaction = TransactionMetaData()
    client.tpc_begin(transaction)
    client.store(client.new_oid(), z64, pickle_of('x'), '', transaction)
    client.tpc_vote(transaction)
    return transaction


class Call(threading.Thread):
    """One call in a thread of its own; `outcome` is its value or its error."""

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

    def wait(self):
        wait_for(lambda: not self.is_alive(), 'the end of a call')
        return self.outcome


def test_a_server_without_a_lease_needs_none(processes, tmpdir, clients):
    node = Node(processes, tmpdir, 'a', listens=True)
    node.start()
    assert (None, None) == (node.status()['lease'], node.status()['held'])
    commit(open_client(node, clients), pickle_of('x'))


def test_it_starts_without_a_lease_and_the_first_one_opens_it(node, clients):
    assert 'lease' == node.status()['held']
    with pytest.raises(ReadOnlyError):
        commit(open_client(node, clients, read_only_fallback=True), pickle_of('x'))

    answer = lease(node)

    assert (True, None) == (answer['ok'], answer['held'])
    assert 0 < answer['lease']['left'] <= LONG
    commit(open_client(node, clients), pickle_of('x'))


def test_its_writers_are_disconnected_at_the_end_and_its_readers_read_on(node, clients):
    lease(node)
    writer = open_client(node, clients, read_only_fallback=True)
    oid, tid = commit(writer, pickle_of('x'))
    reader = open_client(node, clients, read_only=True)
    reader_connection = reader._connection_generation

    lease(node, 0)

    wait_for(writer.is_read_only, 'the writer as a reader')
    for client in (writer, reader):
        assert (pickle_of('x'), tid) == client.load(oid)
    assert reader_connection == reader._connection_generation
    assert node.status()['lease']['left'] < 0

    lease(node)
    wait_for(lambda: not writer.is_read_only(), 'the writer again')
    commit(writer, pickle_of('x'))


def test_a_lease_in_time_after_a_short_gap_disconnects_nobody(node, clients):
    lease(node)
    client = open_client(node, clients)
    commit(client, pickle_of('x'))
    lease(node, 0)
    with pytest.raises(ReadOnlyError):
        commit(client, pickle_of('x'))
    lease(node)
    commit(client, pickle_of('x'))
    assert 1 == client._connection_generation


def test_waiting_votes_are_refused_at_the_end(node, clients):
    lease(node)
    first, second = [open_client(node, clients) for _ in range(2)]
    vote(first)
    waiting = Call(vote, second)
    wait_for(lambda: node.ruok()['waiting'] == 1, 'a waiting vote')
    lease(node, 0.1)
    assert isinstance(waiting.wait(), (ReadOnlyError, ClientDisconnected))


def test_a_commit_that_has_voted_is_aborted_when_it_finishes_too_late(node, clients):
    lease(node)
    client = open_client(node, clients)
    _, before = commit(client, pickle_of('x'))
    transaction = vote(client)
    lease(node, 0)
    with pytest.raises(ReadOnlyError):
        client.tpc_finish(transaction)
    lease(node)
    assert before == node.last_tid()
    commit(open_client(node, clients), pickle_of('x'))


def test_a_server_that_was_stopped_over_the_end_acknowledges_no_vote_of_before(node, clients):
    lease(node)
    client = open_client(node, clients)
    _, before = commit(client, pickle_of('x'))
    transaction = vote(client)
    lease(node, 0.5)
    node.process.pause()
    end = boottime() + 0.5
    finishing = Call(client.tpc_finish, transaction)
    wait_for(lambda: boottime() > end, 'the end of the lease')
    node.process.resume()
    assert isinstance(finishing.wait(), ReadOnlyError)
    assert before == node.last_tid()


def test_a_commit_that_was_written_until_after_the_end_gets_no_answer(
        processes, tmpdir, clients):
    """It is on disk, and perhaps on other nodes, but perhaps not on the next primary."""
    node, brake = leased(processes, tmpdir), tmpdir.join('brake')
    start_slow(processes, node, brake, 'Data.fs')
    lease(node)
    client = open_client(node, clients)
    _, before = commit(client, pickle_of('x'))
    transaction = vote(client)
    lease(node, 0.5)
    end = boottime() + 0.5
    brake.write('')
    finishing = Call(client.tpc_finish, transaction)
    wait_for(lambda: boottime() > end, 'the end of the lease')
    brake.remove()
    assert isinstance(finishing.wait(), ClientDisconnected)
    assert before < node.last_tid()

    # Nothing of it is left that would keep others from committing.
    lease(node)
    commit(open_client(node, clients), pickle_of('x'))


def test_a_lease_that_comes_while_a_commit_is_written_counts(processes, tmpdir, clients):
    node, brake = leased(processes, tmpdir), tmpdir.join('brake')
    start_slow(processes, node, brake, 'Data.fs')
    lease(node)
    client = open_client(node, clients)
    _, before = commit(client, pickle_of('x'))
    transaction = vote(client)
    lease(node, 1)
    end = boottime() + 1
    brake.write('')
    finishing = Call(client.tpc_finish, transaction)
    wait_for(lambda: boottime() > end - 0.5, 'half of the lease')
    renewing = Call(lease, node)
    wait_for(lambda: boottime() > end, 'the end of the lease')
    brake.remove()
    assert before < finishing.wait()
    assert renewing.wait()['ok']


def test_a_lease_of_an_epoch_that_is_over_is_refused(node, clients):
    lease(node)
    node.control(do='epoch', epoch=5)
    assert 'epoch 4 is over' == lease(node, epoch=4)['error']
    assert lease(node, epoch=5)['ok']
    assert 'epoch' == node.status()['held']  # it has not been promoted in that epoch


def test_a_lease_of_an_earlier_epoch_does_not_count_after_a_promotion(node):
    lease(node)
    promotion = dict(do='promote', epoch=4, replicate_to='127.0.0.1:%d' % node.replication_port)
    assert 'lease' == node.control(**promotion)['held']
    assert None is lease(node, epoch=4)['held']


@pytest.mark.parametrize('request_, error', [
    (dict(epoch=3), 'until has to be a number'),
    (dict(epoch=3, until='soon'), 'until has to be a number'),
    (dict(epoch=3, until=1e12), 'the lease would last more than 60 s'),
    (dict(until=1.0), 'epoch has to be a number'),
])
def test_what_is_no_lease_is_refused(node, request_, error):
    assert error == node.control(do='lease', **request_)['error']
    assert 'lease' == node.status()['held']


def test_a_follower_gets_a_lease_with_its_promotion_only(processes, tmpdir, clients):
    primary = Node(processes, tmpdir, 'a', listens=True)
    follower = Node(processes, tmpdir, 'b', upstream=primary, options=['--leased'])
    for node in (primary, follower):
        node.start()
    primary.wait_for_followers()
    assert 'not a primary' == lease(follower)['error']
    assert None is follower.status()['held']

    answer = follower.control(
        do='promote', epoch=4, replicate_to='127.0.0.1:%d' % follower.replication_port,
        until=boottime() + LONG)

    assert ('primary', None) == (answer['role'], answer['held'])
    commit(open_client(follower, clients), pickle_of('x'))


def test_a_hold_delays_no_lease(node, clients):
    lease(node)
    voted = open_client(node, clients)
    transaction = vote(voted)
    holding = Call(lambda: node.control(do='hold', seconds=60))
    wait_for(lambda: node.status()['held'] == 'operator', 'the hold')
    assert lease(node)['ok']
    assert holding.is_alive()
    voted.tpc_finish(transaction)
    assert holding.wait()['ok']


def test_the_date_does_not_matter(processes, tmpdir, clients):
    clock = ChangedClock(tmpdir.join('clock'))
    node = leased(processes, tmpdir, environment=clock.environment)
    node.start()
    lease(node)
    client = open_client(node, clients)
    for hours in (-1, 1):
        clock.put(3600 * hours)
        commit(client, pickle_of('x'))
    lease(node, 0.2)
    clock.put(-3600)
    wait_for_the_end(node)
