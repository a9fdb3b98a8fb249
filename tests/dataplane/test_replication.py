"""What the primary has, its followers have: on real servers."""
import sys
import threading

import pytest
from ZEO.scripts import zeopack
from ZODB.Connection import TransactionMetaData
from ZODB.FileStorage import FileStorage
from ZODB.POSException import ReadOnlyError
from ZODB.utils import z64

from nodes import Node, commit, pickle_of, write_everything
from processes import wait_for


@pytest.fixture
def chain(processes, tmpdir):
    """A primary, a relay that follows it, a tertiary that follows the relay."""
    primary = Node(processes, tmpdir, 'a', listens=True)
    relay = Node(processes, tmpdir, 'b', upstream=primary, listens=True)
    return primary, relay, Node(processes, tmpdir, 'c', upstream=relay)


def start(nodes):
    for node in nodes:
        node.start()


def end(nodes):
    """Ends all, upstream first, so that each drains."""
    assert [0] * len(nodes) == [node.process.terminate() for node in nodes]


def assert_same(nodes):
    """Same files byte for byte, same blobs, same object states."""
    first = nodes[0]
    for node in nodes[1:]:
        assert first.objects() == node.objects()
        assert first.blob_files() == node.blob_files()
        assert first.bytes() == node.bytes()


def test_commits_extension_data_blobs_and_undo_arrive(chain):
    start(chain)
    tid = write_everything(chain[0])
    chain[2].wait_for_tid(tid)
    end(chain)

    assert_same(chain)
    assert 5 == len(chain[0].blob_files())


@pytest.mark.parametrize('count', [400, pytest.param(10000, marks=pytest.mark.exhaustive)])
def test_many_transactions_arrive(chain, monkeypatch, count):
    """Nine in ten by the first synchronisation, the others from two writers meanwhile."""
    monkeypatch.setattr(
        sys.modules['ZODB.FileStorage.FileStorage'], 'fsync', None)
    primary, relay, tertiary = chain
    storage = FileStorage(primary.data, blob_dir=primary.blobs)
    told = [commit(storage, pickle_of(str(number)))[1]
            for number in range(count * 9 // 10)]
    storage.close()
    primary.start()

    def write(client):
        oid = None
        for number in range(count // 20):
            oid, tid = commit(client, pickle_of(str(number)), oid=oid)
            told.append(tid)
        client.close()

    # One after the other: they share a folder of blobs, which the first one prepares.
    clients = [primary.client() for _ in range(2)]
    writers = [threading.Thread(target=write, args=(client,)) for client in clients]
    for writer in writers:
        writer.start()
    start([relay, tertiary])
    for writer in writers:
        writer.join()
    tertiary.wait_for_tid(max(told))
    since = primary.since(z64)
    assert (count, True, min(told).encode('hex')) == (
        since['transactions'], since['exact'], since['first'])
    end(chain)

    assert sorted(told) == tertiary.tids()
    assert count == len(told)
    assert_same(chain)


def test_a_first_synchronisation_brings_all_that_was_before(chain):
    chain[0].start()
    tid = write_everything(chain[0])
    start(chain[1:])
    chain[2].wait_for_tid(tid)
    end(chain)

    assert_same(chain)


def test_each_node_can_be_restarted(chain):
    """The tertiary first, then the relay, then the primary."""
    start(chain)
    chain[2].wait_for_tid(write_everything(chain[0]))
    for node in chain[::-1]:
        end([node])
        if node is not chain[0]:
            write_everything(chain[0], u'without ' + node.name)
        node.start()
        tid = write_everything(chain[0], u'after ' + node.name)
        chain[2].wait_for_tid(tid)
    end(chain)

    assert_same(chain)


def test_a_secondary_may_start_before_its_primary(chain):
    """It warns once that its upstream is away, and connects when it comes."""
    start(reversed(chain))
    tid = write_everything(chain[0])
    chain[2].wait_for_tid(tid)
    relay = chain[1].process
    wait_for(lambda: 'following upstream' in relay.output(), 'the good news')
    end(chain)

    assert_same(chain)
    assert 1 == relay.output().count('WARNING zodbrepl.replication: cannot')


def test_a_secondary_refuses_writes(chain):
    start(chain[:2])
    secondary = chain[1]
    with pytest.raises(ReadOnlyError):
        client = secondary.client(read_only_fallback=True)
        assert client.is_read_only()
        commit(client, pickle_of('x'))
    # The client library refuses by itself; the server has to as well.
    transaction = TransactionMetaData()
    with pytest.raises(ReadOnlyError):
        client._call('tpc_begin', id(transaction), '', '', '', None, ' ')
    client.close()

    assert z64 == secondary.last_tid()


def test_after_a_pack_of_each_node_the_objects_are_equal(chain):
    """Pack is not replicated; zeopack works on read-only nodes as well."""
    start(chain)
    chain[2].wait_for_tid(write_everything(chain[0]))
    sizes = [node.status()['size'] for node in chain]
    zeopack._main(['127.0.0.1:%d' % chain[0].port], 'zeopack')
    assert sizes[1:] == [node.status()['size'] for node in chain[1:]]
    for node in chain[1:]:
        zeopack._main(['127.0.0.1:%d' % node.port], 'zeopack')
    packed = [node.status()['size'] for node in chain]
    tid = write_everything(chain[0], u'after the pack')
    chain[2].wait_for_tid(tid)
    end(chain)

    assert all(after < before for after, before in zip(packed, sizes))
    assert chain[0].objects() == chain[1].objects() == chain[2].objects()
    assert (chain[0].blob_files() == chain[1].blob_files()
            == chain[2].blob_files())


def test_a_follower_that_was_away_during_a_pack_catches_up(chain):
    start(chain)
    primary, relay, tertiary = chain
    tertiary.wait_for_tid(write_everything(primary))
    end([relay])
    write_everything(primary, u'while away')
    zeopack._main(['127.0.0.1:%d' % primary.port], 'zeopack')
    relay.start()
    tid = write_everything(primary, u'after the pack')
    tertiary.wait_for_tid(tid)
    end(chain)

    kept = primary.objects()
    for node in (relay, tertiary):
        states = node.objects()
        assert kept == dict((oid, states[oid]) for oid in kept)


def test_a_relay_may_become_the_primary_of_its_tertiary(chain):
    start(chain)
    primary, relay, tertiary = chain
    tertiary.wait_for_tid(write_everything(primary))
    end([primary, relay])
    relay.configure(listens=True)
    relay.start()
    tid = write_everything(relay, u'promoted')
    tertiary.wait_for_tid(tid)
    assert 'primary' == relay.status()['role']
    end([relay, tertiary])

    assert_same([relay, tertiary])
