"""Clients that reconnect get what the last transactions changed; a starting server reads few of them."""
import random

import pytest
from ZEO.StorageServer import StorageServer
from ZODB.Connection import TransactionMetaData
from ZODB.FileStorage import FileStorage
from ZODB.utils import z64

from indico_zodbrepl.dataplane.server import invalidations
from indico_zodbrepl.dataplane.server.invalidations import Invalidations
from streams import Writer


@pytest.fixture
def storage(tmpdir):
    opened = FileStorage(str(tmpdir.join('Data.fs')), blob_dir=str(tmpdir.join('blobs')))
    yield opened
    opened.close()


def commit(storage, *sizes):
    """Commit new objects of these sizes; return the transaction's id and the oids."""
    meta = TransactionMetaData()
    storage.tpc_begin(meta)
    oids = [storage.new_oid() for _ in sizes]
    for oid, size in zip(oids, sizes):
        storage.store(oid, z64, size * 'x', '', meta)
    storage.tpc_vote(meta)
    return storage.tpc_finish(meta), oids


def answer(storage, tid, count=1000):
    """Return what a server that has just started answers a client that has this transaction."""
    server = StorageServer.__new__(StorageServer)
    server.invq = {'1': Invalidations(invalidations.read(storage, count), count)}
    server.invalidation_age = None
    return server.get_invalidations('1', tid)


@pytest.mark.parametrize('seed', range(3))
def test_they_are_those_that_zodb_would_read(storage, tmpdir, seed):
    writer = Writer(storage, random.Random(seed), tmpdir)
    for _ in range(20):
        writer.commit()
    for count in (1, 7, 1000):
        expected = [(tid, sorted(oids)) for tid, oids in storage.lastInvalidations(count)]
        found = invalidations.read(storage, count)
        assert expected[::-1] == [(tid, sorted(oids)) for tid, oids in found]


def test_a_large_transaction_is_not_read(storage, monkeypatch):
    monkeypatch.setattr(invalidations, 'MOST_BYTES', 1000)
    before, _ = commit(storage, 1)
    large, _ = commit(storage, 300, 300, 300)
    _, first = commit(storage, 1)
    last, second = commit(storage, 1, 1)
    assert (None, []) == answer(storage, before)
    assert (last, sorted(first + second)) == sorted_answer(storage, large)
    assert (last, []) == sorted_answer(storage, last)


def test_a_client_that_has_a_large_last_transaction_needs_nothing(storage, monkeypatch):
    monkeypatch.setattr(invalidations, 'MOST_BYTES', 1000)
    before, _ = commit(storage, 1)
    large, _ = commit(storage, 2000)
    assert (large, []) == sorted_answer(storage, large)
    assert (None, []) == answer(storage, before)


def sorted_answer(storage, tid):
    latest, oids = answer(storage, tid)
    return latest, sorted(oids)


def test_an_empty_storage_has_none(storage):
    assert [] == invalidations.read(storage, 10)


def test_a_queue_has_a_limited_number_of_transactions():
    queue = Invalidations([('1', ['a']), ('0', ['a'])], 3)
    for tid in '234':
        queue.add(tid, {'b': 1})
    assert [('4', ['b']), ('3', ['b']), ('2', ['b']), ('1', None)] == queue


def test_a_queue_has_a_limited_number_of_objects(monkeypatch):
    monkeypatch.setattr(invalidations, 'MOST_OBJECTS', 5)
    queue = Invalidations([], 10)
    for tid, count in [('1', 2), ('2', 3), ('3', 1)]:
        queue.add(tid, count * ['a'])
    assert [('3', ['a']), ('2', 3 * ['a']), ('1', None)] == queue
    queue.add('4', 5 * ['b'])
    assert [('4', 5 * ['b']), ('3', None)] == queue
    queue.add('5', 6 * ['c'])
    assert [('5', None)] == queue
    queue.add('6', ['d'])
    assert [('6', ['d']), ('5', None)] == queue


def test_what_is_forgotten_makes_room(monkeypatch):
    monkeypatch.setattr(invalidations, 'MOST_OBJECTS', 5)
    queue = Invalidations([('1', ['a'])], 10)
    queue.add('2', 4 * ['b'])
    queue.forget_after('1')
    queue.add('3', 4 * ['c'])
    assert [('3', 4 * ['c']), ('1', ['a'])] == queue
