"""Clients that come again hear of the last transactions; the start of a server reads only so much."""
import random

import pytest
from ZEO.StorageServer import StorageServer
from ZODB.Connection import TransactionMetaData
from ZODB.FileStorage import FileStorage
from ZODB.utils import z64

from indico_zodbrepl.dataplane.server import last_invalidations
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


def invalidations(storage, tid, count=1000):
    """Return what a server that has just started answers a client that has this transaction."""
    server = StorageServer.__new__(StorageServer)
    server.invq = {'1': last_invalidations.last_invalidations(storage, count)}
    server.invalidation_age = None
    return server.get_invalidations('1', tid)


@pytest.mark.parametrize('seed', range(3))
def test_they_are_those_that_zodb_would_read(storage, tmpdir, seed):
    writer = Writer(storage, random.Random(seed), tmpdir)
    for _ in range(20):
        writer.commit()
    for count in (1, 7, 1000):
        expected = [(tid, sorted(oids)) for tid, oids in storage.lastInvalidations(count)]
        found = last_invalidations.last_invalidations(storage, count)
        assert expected[::-1] == [(tid, sorted(oids)) for tid, oids in found]


def test_a_large_transaction_is_not_read(storage, monkeypatch):
    monkeypatch.setattr(last_invalidations, 'MOST', 1000)
    before, _ = commit(storage, 1)
    large, _ = commit(storage, 300, 300, 300)
    _, first = commit(storage, 1)
    last, second = commit(storage, 1, 1)
    assert (None, []) == invalidations(storage, before)
    assert (last, sorted(first + second)) == sorted_answer(storage, large)
    assert (last, []) == sorted_answer(storage, last)


def test_a_client_that_has_a_large_last_transaction_needs_nothing(storage, monkeypatch):
    monkeypatch.setattr(last_invalidations, 'MOST', 1000)
    before, _ = commit(storage, 1)
    large, _ = commit(storage, 2000)
    assert (large, []) == sorted_answer(storage, large)
    assert (None, []) == invalidations(storage, before)


def sorted_answer(storage, tid):
    latest, oids = invalidations(storage, tid)
    return latest, sorted(oids)


def test_an_empty_storage_has_none(storage):
    assert [] == last_invalidations.last_invalidations(storage, 10)
