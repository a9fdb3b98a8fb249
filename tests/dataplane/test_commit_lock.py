"""Clients that wait for a server's commit lock get it in turn."""
import threading

from ZODB.Connection import TransactionMetaData
from ZODB.utils import z64

from nodes import Node, commit, pickle_of
from processes import wait_for

CLIENTS = 8


class Voter(threading.Thread):
    """Votes on an object of its own in a thread, and ends the transaction.

    Args:
        client: a ClientStorage.
        done: a list to which its number is appended when it has the lock.
        fails: True to close the connection then, without an end of the transaction.
    """

    def __init__(self, client, number, done):
        super(Voter, self).__init__()
        self.daemon = True
        self.client, self.number, self.done = client, number, done
        self.transaction = TransactionMetaData()

    def begin(self):
        self.client.tpc_begin(self.transaction)
        self.client.store(self.client.new_oid(), z64, pickle_of('new'), '', self.transaction)

    def run(self):
        self.client.tpc_vote(self.transaction)
        self.done.append(self.number)
        self.client.tpc_finish(self.transaction)


def waiting(client):
    return client.server_status()['waiting']


def start(node, voters):
    """Let voters wait in turn, behind one that has the lock; return that one's transaction."""
    first = node.client()
    holding = TransactionMetaData()
    first.tpc_begin(holding)
    first.store(first.new_oid(), z64, pickle_of('held'), '', holding)
    first.tpc_vote(holding)
    for number, each in enumerate(voters, 1):
        each.begin()
        each.start()
        wait_for(lambda number=number: waiting(first) == number, 'the next one waits')
    return first, holding


def test_the_commit_lock_is_given_in_the_order_of_the_votes(processes, tmpdir):
    node = Node(processes, tmpdir, 'a')
    node.start()
    done = []
    voters = [Voter(node.client(), number, done) for number in range(CLIENTS)]
    first, holding = start(node, voters)
    first.tpc_finish(holding)
    for each in voters:
        each.join(60)
    assert list(range(CLIENTS)) == done


def test_one_that_goes_away_while_it_waits_does_not_keep_the_others_from_the_lock(
        processes, tmpdir):
    node = Node(processes, tmpdir, 'a')
    node.start()
    done = []
    voters = [Voter(node.client(), number, done) for number in range(3)]
    first, holding = start(node, voters)
    voters[0].client.close()
    wait_for(lambda: waiting(first) == 2, 'it is gone')
    first.tpc_finish(holding)
    for each in voters[1:]:
        each.join(60)
    assert [1, 2] == done


def test_one_that_goes_away_with_the_lock_leaves_it_to_the_next(processes, tmpdir):
    node = Node(processes, tmpdir, 'a')
    node.start()
    done = []
    voters = [Voter(node.client(), number, done) for number in range(3)]
    first, _holding = start(node, voters)
    first.close()
    for each in voters:
        each.join(60)
    assert [0, 1, 2] == done
    client = node.client()
    commit(client, pickle_of('last'))
    client.close()


def test_clients_that_wait_are_not_written_to_the_log_for_each_commit(processes, tmpdir):
    node = Node(processes, tmpdir, 'a')
    node.start()
    voters = [Voter(node.client(), number, []) for number in range(12)]
    first, holding = start(node, voters)
    first.tpc_finish(holding)
    for each in voters:
        each.join(60)
    log = node.process.output()
    assert 1 == log.count('10 clients wait to commit to storage 1')
    assert 'transactions waiting' not in log
