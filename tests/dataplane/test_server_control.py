"""A running server is told what to do by its control socket."""
import os
import socket
import stat
import threading
import time

import pytest
from ZEO.Exceptions import ClientDisconnected
from ZODB.Connection import TransactionMetaData
from ZODB.POSException import ReadOnlyError
from ZODB.utils import z64

from nodes import Node, commit, pickle_of
from processes import PATIENCE, wait_for


@pytest.fixture
def node(processes, tmpdir):
    node = Node(processes, tmpdir, 'a', listens=True)
    node.start()
    return node


@pytest.fixture
def clients():
    """Closes the clients that a test appends."""
    opened = []
    yield opened
    for client in opened:
        client.close()


def open_client(node, clients, **options):
    client = node.client(blob_dir=None, **options)
    clients.append(client)
    return client


class Commit(threading.Thread):
    """One commit in a thread of its own; `outcome` is its tid or its error."""

    outcome = None

    def __init__(self, client, text='x'):
        threading.Thread.__init__(self)
        self.daemon = True
        self._client = client
        self._text = text
        self.start()

    def run(self):
        try:
            self.outcome = commit(self._client, pickle_of(self._text))[1]
        except Exception as error:
            self.outcome = error

    def wait(self):
        self.join(PATIENCE)
        assert not self.is_alive()
        return self.outcome


def vote(client):
    """Takes a commit up to its vote; returns its transaction."""
    transaction = TransactionMetaData()
    client.tpc_begin(transaction)
    client.store(client.new_oid(), z64, pickle_of('x'), '', transaction)
    client.tpc_vote(transaction)
    return transaction


def wait_for_waiting(node, count):
    wait_for(lambda: node.ruok()['waiting'] == count, '%d waiting' % count)


def test_status_tells_role_epoch_and_last_transaction(node, clients):
    _, tid = commit(open_client(node, clients), pickle_of('x'))
    status = node.control(do='status')

    assert status['ok']
    assert ('primary', 3, 3, None) == (
        status['role'], status['epoch'], status['known_epoch'], status['held'])
    assert tid.encode('hex') == status['last_tid']


def test_the_socket_is_its_users_own_and_goes_with_the_server(node):
    path = str(node.folder.join('control.sock'))
    assert 0o600 == stat.S_IMODE(os.stat(path).st_mode)
    node.process.terminate()
    assert not os.path.exists(path)


def test_a_server_whose_socket_was_removed_ends_in_order(node):
    node.folder.join('control.sock').remove()
    assert 0 == node.process.terminate()


def test_the_socket_of_a_killed_server_is_replaced(node):
    node.process.kill()
    with pytest.raises(socket.error):
        node.control(do='status')
    node.start()
    assert node.process.pid == node.control(do='status')['pid']


def test_a_data_folder_with_a_long_path_has_a_socket_too(processes, tmpdir):
    node = Node(processes, tmpdir.ensure(60 * 'x', 60 * 'y', dir=True), 'a',
                listens=True)
    node.start()
    assert node.control(do='status')['ok']


@pytest.mark.parametrize('request_, error', [
    ({'do': 'nonsense'}, 'no such control request'),
    ({}, 'no such control request'),
    ({'do': 'hold'}, 'seconds has to be a number'),
    ({'do': 'hold', 'seconds': 0}, 'cannot hold commits for 0 s'),
    ({'do': 'hold', 'seconds': 1e9}, 'cannot hold commits for 1e+09 s'),
    ({'do': 'epoch', 'epoch': 'four'}, 'epoch has to be a number'),
    ({'do': 'epoch', 'epoch': 2}, 'epoch 2 is over'),
])
def test_what_it_does_not_understand_is_refused_and_changes_nothing(
        node, clients, request_, error):
    answer = node.control(**request_)

    assert (False, error) == (answer['ok'], answer['error'])
    commit(open_client(node, clients), pickle_of('x'))


def test_who_says_nothing_or_no_json_blocks_nobody(node):
    silent, wrong = [node.control_connection() for _ in range(2)]
    wrong.sendall('what?\n')
    assert 'the request is no JSON' in wrong.makefile().readline()
    assert node.control(do='status')['ok']
    silent.close()
    wrong.close()


def test_a_pause_lets_a_running_commit_end_and_new_ones_wait(node, clients):
    running, late = [open_client(node, clients) for _ in range(2)]
    transaction = vote(running)
    held = []
    holding = threading.Thread(
        target=lambda: held.append(node.control(do='hold', seconds=60)))
    holding.start()
    wait_for(lambda: node.status()['held'] == 'operator', 'the hold')
    waiting = Commit(late)
    wait_for_waiting(node, 1)
    assert [] == held
    tid = running.tpc_finish(transaction)
    holding.join(PATIENCE)

    assert held[0]['ok']
    assert tid.encode('hex') == held[0]['last_tid']
    assert 0 < held[0]['held_for'] <= 60
    assert waiting.outcome is None
    assert tid == node.last_tid()
    assert node.control(do='release')['was_held']
    assert tid < waiting.wait() == node.last_tid()


def test_a_pause_ends_automatically_and_every_waiting_commit_happens_once(
        node, clients):
    commit(open_client(node, clients), pickle_of('x'))
    writers = [open_client(node, clients) for _ in range(4)]
    assert node.control(do='hold', seconds=1)['ok']
    waiting = [Commit(each) for each in writers]
    tids = set(each.wait() for each in waiting)

    assert 4 == len(tids)
    assert node.status()['held'] is None
    assert 'nobody ended the hold' in node.process.output()
    node.process.terminate()
    assert 5 == len(node.tids())


def test_a_second_pause_takes_the_place_of_the_first(node, clients):
    client = open_client(node, clients)
    node.control(do='hold', seconds=0.5)
    assert 99 < node.control(do='hold', seconds=100)['held_for']
    time.sleep(1)
    assert 'operator' == node.status()['held']
    node.control(do='hold', seconds=0.1)
    assert Commit(client).wait()


def test_a_pause_is_given_up_when_a_client_does_not_end_its_commit(
        node, clients):
    stuck, other = [open_client(node, clients) for _ in range(2)]
    transaction = vote(stuck)
    answer = node.control(do='hold', seconds=1)

    assert (False, 'commits could not be held') == (
        answer['ok'], answer['error'])
    assert node.status()['held'] is None
    waiting = Commit(other)
    tid = stuck.tpc_finish(transaction)
    assert tid < waiting.wait()


def test_a_client_that_waits_and_goes_away_leaves_nothing(node, clients):
    client = open_client(node, clients)
    node.control(do='hold', seconds=60)
    waiting = Commit(client)
    wait_for_waiting(node, 1)
    client.close()
    assert isinstance(waiting.wait(), ClientDisconnected)
    wait_for_waiting(node, 0)
    node.control(do='release')
    commit(open_client(node, clients), pickle_of('x'))
    node.process.terminate()
    assert 1 == len(node.tids())


def test_a_server_that_ends_during_a_pause_commits_nothing_that_waits(
        node, clients):
    client = open_client(node, clients, patience=1)
    node.control(do='hold', seconds=60)
    waiting = Commit(client)
    wait_for_waiting(node, 1)
    assert 0 == node.process.terminate()
    assert isinstance(waiting.wait(), ClientDisconnected)
    assert [] == node.tids()


def test_a_paused_server_takes_no_new_writing_clients(node, clients):
    node.control(do='hold', seconds=60)
    client = open_client(node, clients, read_only_fallback=True)
    assert client.is_read_only()


def test_a_primary_told_of_a_higher_epoch_answers_when_its_last_commit_ended(
        node, clients):
    running = open_client(node, clients)
    transaction = vote(running)
    told = []
    telling = threading.Thread(
        target=lambda: told.append(node.control(do='epoch', epoch=4)))
    telling.start()
    wait_for(lambda: node.status()['held'] == 'epoch', 'the epoch')
    tid = running.tpc_finish(transaction)
    telling.join(PATIENCE)
    assert (True, tid.encode('hex')) == (told[0]['ok'], told[0]['last_tid'])


def test_a_primary_told_of_a_higher_epoch_commits_no_more(node, clients):
    client = open_client(node, clients, read_only_fallback=True)
    node.control(do='hold', seconds=100)
    waiting = Commit(client)
    wait_for_waiting(node, 1)
    status = node.control(do='epoch', epoch=4)

    assert (3, 4, 'epoch') == (
        status['epoch'], status['known_epoch'], status['held'])
    assert isinstance(waiting.wait(), (ReadOnlyError, ClientDisconnected))
    assert 'epoch' == node.status()['held']
    assert isinstance(Commit(client).wait(), (ReadOnlyError, ClientDisconnected))
    assert node.control(do='release')['was_held']
    assert 'epoch' == node.status()['held']
    assert isinstance(Commit(client).wait(), (ReadOnlyError, ClientDisconnected))
    node.process.terminate()
    assert [] == node.tids()


def test_clients_leave_a_primary_of_an_earlier_epoch(node, clients):
    client = open_client(node, clients, read_only_fallback=True)
    commit(client, pickle_of('x'))
    assert not client.is_read_only()
    node.control(do='epoch', epoch=4)
    # It has no other server, and goes on to read here.
    wait_for(lambda: client.is_connected() and client.is_read_only(), 'it reads only')


def test_a_secondary_goes_along_with_a_higher_epoch_and_holds_nothing(
        processes, tmpdir, node):
    secondary = Node(processes, tmpdir, 'b', upstream=node)
    secondary.start()

    assert 4 == secondary.control(do='epoch', epoch=4)['epoch']
    assert 4 == secondary.status()['epoch']
    assert 'not a primary' == secondary.control(do='hold', seconds=1)['error']
