"""Whose history holds which transaction: asked, refused, dropped from caches."""
import os
import shutil
import time

import pytest
import transaction
from ZODB.DB import DB
from ZODB.POSException import ReadOnlyError
from ZODB.TimeStamp import TimeStamp
from ZODB.utils import p64, u64, z64

from nodes import Node, commit, pickle_of
from processes import free_ports, wait_for
from zeo_servers import open_client


@pytest.fixture
def node(processes, tmpdir):
    node = Node(processes, tmpdir, 'a', listens=True)
    node.start()
    return node


def commit_some(node, count, **options):
    client = node.client()
    try:
        return [commit(client, pickle_of(str(each)), **options)[1]
                for each in range(count)]
    finally:
        client.close()


def known(node, tid):
    return node.history(tid)['known']


def after(tid):
    return p64(u64(tid) + 1)


def test_a_server_tells_what_its_history_holds(processes, tmpdir, node):
    assert (False, True) == (known(node, p64(1)), known(node, z64))
    tids = commit_some(node, 5)
    follower = Node(processes, tmpdir, 'b', upstream=node)
    follower.start()
    follower.wait_for_tid(tids[-1])

    assert 5 * [True] == [known(node, tid) for tid in tids]
    assert 5 * [False] == [known(node, after(tid)) for tid in tids]
    assert [False, False] == [known(node, p64(1)), known(node, 8 * '\x7f')]
    for tid in tids:
        assert 64 == len(node.history(tid)['digest'])
        assert node.history(tid) == follower.history(tid)
    assert 5 == len(set(node.history(tid)['digest'] for tid in tids))
    assert node.history(after(tids[0]))['digest'] is None


def test_what_a_pack_may_have_removed_is_neither_known_nor_unknown(node):
    before = commit_some(node, 3, oid=z64)
    time.sleep(0.01)
    client = node.client()
    client.pack(time.time(), wait=True)
    client.close()
    later = commit_some(node, 2)

    assert [None, None] == [known(node, tid) for tid in before[:2]]
    assert {'known': True, 'digest': None} == node.history(before[2])
    assert [True, True] == [known(node, tid) for tid in later]
    assert [False, False] == [known(node, after(tid)) for tid in later]


def test_what_is_newer_than_a_pack_was_not_removed_by_it(node):
    tids = commit_some(node, 2, oid=z64)
    time.sleep(0.01)
    client = node.client()
    client.pack(time.time(), wait=True)
    client.close()
    time.sleep(0.01)
    newer = TimeStamp(*time.gmtime()[:5] + (time.time() % 60,)).raw()
    commit_some(node, 1)

    assert [None, True, None] == [known(node, tid) for tid in tids + [after(tids[-1])]]
    assert known(node, newer) is False


def test_a_follower_with_a_transaction_of_its_own_is_refused_until_it_has_none(
        processes, tmpdir, node):
    """zc.zrs takes it as soon as the primary has anything newer."""
    follower = Node(processes, tmpdir, 'b', upstream=node)
    commit_some(node, 1)
    shutil.copy(node.data, follower.data)
    follower.configure()
    follower.start()
    private, = commit_some(follower, 1)
    follower.process.terminate()
    newer = commit_some(node, 3)
    follower.configure(upstream=node)
    follower.start()
    wait_for(lambda: node.status()['refused'], 'the refusal')
    status = node.status()

    assert [private.encode('hex')] == [
        each['tid'] for each in status['refused']]
    assert abs(time.time() - status['refused'][0]['at']) < 100
    assert status['refused'][0]['peer'].startswith('127.0.0.1:')
    # It comes again five times a second.
    wait_for(lambda: follower.process.output().count('Disconnected') > 2
             or 'ended the connection at once' in follower.process.output(),
             'the end of the connection')
    assert [] == node.status()['followers']
    assert private == follower.last_tid()
    assert 1 == node.process.output().count('REFUSED follower')
    follower.process.terminate()
    os.remove(follower.data)
    follower.start()
    follower.wait_for_tid(newer[-1])
    assert [] == node.status()['refused']
    assert 1 == len(node.status()['followers'])


def test_a_follower_with_a_later_transaction_is_refused(
        processes, tmpdir, node):
    follower = Node(processes, tmpdir, 'b')
    commit_some(node, 1)
    follower.start()
    commit_some(follower, 1)
    follower.process.terminate()
    follower.configure(upstream=node)
    follower.start()

    wait_for(lambda: node.status()['refused'], 'the refusal')


def test_a_follower_is_taken_whose_last_transaction_was_packed_away(
        processes, tmpdir, node):
    follower = Node(processes, tmpdir, 'b', upstream=node)
    follower.start()
    last = commit_some(node, 2, oid=z64)[-1]
    follower.wait_for_tid(last)
    follower.process.terminate()
    commit_some(node, 2, oid=z64)
    time.sleep(0.01)
    client = node.client()
    client.pack(time.time(), wait=True)
    client.close()
    assert known(node, last) is None
    newest, = commit_some(node, 1)
    follower.start()

    follower.wait_for_tid(newest)
    assert [] == node.status()['refused']


def write(db, value):
    manager = transaction.TransactionManager()
    connection = db.open(manager)
    try:
        connection.root()['value'] = value
        manager.commit()
        return db.lastTransaction()
    finally:
        manager.abort()
        connection.close()


def read(db):
    manager = transaction.TransactionManager()
    connection = db.open(manager)
    try:
        return connection.root()['value']
    finally:
        manager.abort()
        connection.close()


def test_a_client_reads_nothing_that_the_new_primary_never_had(
        processes, tmpdir, node):
    """By quick verification alone it would keep what it has cached."""
    follower = Node(processes, tmpdir, 'b', upstream=node)
    follower.start()
    db = DB(open_client([node, follower]))
    follower.wait_for_tid(write(db, 'kept'))
    follower.process.terminate()
    write(db, 'lost')
    assert 'lost' == read(db)
    node.process.kill()
    # The client meets it when it has newer transactions, not before.
    port = follower.port
    follower.port, = free_ports(1)
    follower.configure(listens=True)
    follower.start()
    commit_some(follower, 1)
    follower.process.terminate()
    follower.port = port
    follower.configure(listens=True)
    follower.start()
    wait_for(lambda: is_writable(db.storage), 'the new primary')

    assert 'kept' == read(db)
    write(db, 'new')
    assert 'new' == read(db)
    db.close()


def is_writable(storage):
    return storage.is_connected() and not storage.is_read_only()


def test_a_client_keeps_its_cache_over_a_restart_of_the_server(node):
    storage = open_client([node])
    db = DB(storage)
    write(db, 'kept')
    assert 'kept' == read(db)
    generation = storage._connection_generation
    node.process.terminate()
    node.start()
    commit_some(node, 1)
    wait_for(lambda: is_writable(storage) and
             storage._connection_generation > generation + 1, 'reconnection')

    assert 0 < len(storage._cache)
    db.close()


def test_without_enough_followers_a_primary_refuses_commits_for_a_time(
        processes, tmpdir):
    primary = Node(processes, tmpdir, 'a', listens=True)
    follower = Node(processes, tmpdir, 'b', upstream=primary)
    primary.process = processes.start(
        primary.command('--min-followers', '1'), 'a', primary.port)
    follower.start()
    primary.wait_for_followers()
    client = primary.client()
    commit(client, pickle_of('one'))
    assert (1, None) == state(primary)
    follower.process.kill()
    wait_for(lambda: state(primary) == (1, 'followers'), 'the refusal')
    with pytest.raises(ReadOnlyError):
        commit(client, pickle_of('three'))
    follower.start()
    wait_for(lambda: state(primary) == (1, None), 'the end of it')
    _, tid = commit(client, pickle_of('four'))
    follower.wait_for_tid(tid)
    client.close()
    for node in (primary, follower):
        assert 0 == node.process.terminate()

    assert 2 == len(primary.tids())
    assert primary.bytes() == follower.bytes()


def state(node):
    status = node.status()
    return status['min_followers'], status['held']
