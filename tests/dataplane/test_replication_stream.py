"""What a follower receives is, byte for byte, what zc.zrs 3.1.0 would send."""
import os
import random
import threading
import time

import pytest
import transaction
import zc.zrs.primary
import ZODB
import ZODB.blob
from persistent.mapping import PersistentMapping
from zc.zrs.primary import FileStorageIterator
from ZODB.Connection import TransactionMetaData
from ZODB.FileStorage import FileStorage
from ZODB.serialize import referencesf
from ZODB.utils import z64

from indico_zodbrepl.dataplane.zrs import stream
from indico_zodbrepl.dataplane.datafs.failures import Damaged
from indico_zodbrepl.dataplane.zrs.stream import Stopped, Tail
from nodes import commit, undo
from streams import Writer, stream_of_ours


class Unpickled(object):
    """zc.zrs reads extension data, and cannot; here the bytes pass unread."""

    Pickler = zc.zrs.primary.cPickle.Pickler

    @staticmethod
    def loads(data):
        return data


@pytest.fixture(autouse=True)
def repaired(monkeypatch):
    monkeypatch.setattr('zc.zrs.primary.cPickle', Unpickled)
    monkeypatch.setattr('zc.zrs.primary.is_blob_record', ZODB.blob.is_blob_record)
    monkeypatch.setattr('zc.zrs.primary.FileStorageIterator', EndingIterator)


class Transport(object):
    """Keeps what is written to it."""

    def __init__(self):
        self.reactor = self
        self.written = []

    def registerProducer(self, producer, streaming):
        pass

    def unregisterProducer(self):
        pass

    loseConnection = unregisterProducer

    def callFromThread(self, function, *args):
        function(*args)

    def writeSequence(self, data):
        self.written.extend(data)


class EndingIterator(FileStorageIterator):

    def __init__(self, *args):
        FileStorageIterator.__init__(self, *args)
        self.catch_up_then_stop()


def stream_of_zrs(storage, start=z64):
    """What zc.zrs's own producer sends of what is committed."""
    transport = Transport()
    zc.zrs.primary.PrimaryProducer(
        (storage, threading.Condition(), start), transport, 'follower'
        ).thread.join()
    return b''.join(transport.written)


def assert_same_streams(storage):
    for start in [z64] + [each.tid for each in storage.iterator()]:
        assert stream_of_zrs(storage, start) == stream_of_ours(storage, start)


@pytest.fixture
def storage(tmpdir):
    opened = FileStorage(
        str(tmpdir.join('Data.fs')), blob_dir=str(tmpdir.join('blobs')))
    yield opened
    opened.close()


@pytest.mark.parametrize('seed', range(8))
def test_random_transactions_give_the_same_stream(storage, tmpdir, seed, monkeypatch):
    chance = random.Random(seed)
    size = [1, 1000, 100000, 1 << 18][seed % 4]
    monkeypatch.setattr(stream, 'PIECE', size)
    monkeypatch.setattr(stream, 'WHOLE', 2 * size)
    writer = Writer(storage, chance, tmpdir)
    for _ in range(25):
        writer.commit()
    assert_same_streams(storage)


@pytest.mark.parametrize('records, is_one', [(2, True), (200, True), (400, False)])
def test_a_transaction_up_to_half_a_megabyte_is_one_piece(storage, records, is_one):
    """What has several pieces takes a thread for each follower."""
    meta = TransactionMetaData()
    storage.tpc_begin(meta)
    for _ in range(records):
        storage.store(storage.new_oid(), z64, os.urandom(2500), '', meta)
    storage.tpc_vote(meta)
    storage.tpc_finish(meta)
    tail = Tail(storage, z64, bool)
    assert is_one is (1 == len(list(tail.next())))
    tail.close()


def write_through_zodb(storage):
    """Undo, the undo of an undo, of a creation and of a blob; garbage."""
    db = ZODB.DB(storage)
    manager = transaction.TransactionManager()
    root = db.open(manager).root()
    root[u'a'] = PersistentMapping(text=u'one')
    root[u'b'] = ZODB.blob.Blob(b'first')
    manager.commit()
    root[u'b'].open('w').write(b'second')
    manager.commit()
    undo(db, manager, undo(db, manager, db.lastTransaction()))
    root[u'a'][u'text'] = u'two'
    manager.commit()
    undo(db, manager, db.lastTransaction())
    root[u'c'] = PersistentMapping()
    root[u'c'][u'd'] = PersistentMapping()
    manager.commit()
    undo(db, manager, db.lastTransaction())
    root[u'garbage'] = PersistentMapping()
    manager.commit()
    del root[u'garbage'], root[u'b']
    manager.commit()


def test_undone_packed_and_removed_objects_give_the_same_stream(storage):
    write_through_zodb(storage)
    assert_same_streams(storage)
    storage.pack(time.time(), referencesf)
    assert_same_streams(storage)
    write_through_zodb(storage)
    assert_same_streams(storage)


def test_a_blob_without_its_file_is_an_ordinary_record(storage, tmpdir):
    oid, tid = commit(storage, blob=str(tmpdir.ensure('blob')))
    os.remove(storage.loadBlob(oid, tid))
    assert_same_streams(storage)


def test_transactions_undone_by_ancient_servers_are_left_out(storage):
    """zc.zrs's own producer would read the same one for ever."""
    told = [commit(storage, b'x')[1] for _ in range(3)]
    with open(storage.getName(), 'r+b') as data:
        content = data.read()
        data.seek(content.index(told[1]) + 16)
        data.write(b'u')
    assert [True, False, True] == [
        tid in stream_of_ours(storage) for tid in told]


def test_an_unfinished_transaction_is_not_sent(storage):
    commit(storage, b'x')
    before = stream_of_ours(storage)
    meta = TransactionMetaData()
    storage.tpc_begin(meta)
    storage.store(storage.new_oid(), z64, b'y', '', meta)
    storage.tpc_vote(meta)
    assert before == stream_of_ours(storage)
    storage.tpc_abort(meta)
    assert before == stream_of_ours(storage)


def test_what_a_pack_removes_is_not_missed(storage):
    """A pack puts another file under the reader, once before the end and once at it."""
    told = [commit(storage, b'x' * 100)[1] for _ in range(3)]
    oid, last = commit(storage, b'new')
    tail = Tail(storage, z64, bool)
    assert 1 == len(list(tail.next()))
    assert told[0] == tail.tid
    storage.pack(time.time(), referencesf, gc=False)
    later = [commit(storage, b'newer', oid)[1]]
    given = []
    while tail.next() is not None:
        given.append(tail.tid)
    assert told[0] < given[0] and later[-1:] == given[-1:]
    storage.pack(time.time(), referencesf, gc=False)
    assert tail.next() is None
    assert commit(storage, b'newest', oid)[1] > tail.tid
    assert tail.next() is not None
    tail.close()


def test_a_file_that_a_pack_removes_while_its_transaction_is_read_is_not_missed(storage, tmpdir):
    def blob():
        path = tmpdir.join('upload')
        path.write('content')
        return str(path)
    oid, _ = commit(storage, blob=blob())
    commit(storage, blob=blob(), oid=oid)
    missed = []
    tail = Tail(storage, z64, bool, missed.append)
    transaction = tail.next()
    storage.pack(time.time(), referencesf, gc=False)
    assert 1 == len(list(transaction))
    assert [] == missed
    tail.close()


def test_damage_is_raised(storage):
    commit(storage, b'x')
    with open(storage.getName(), 'r+b') as data:
        data.seek(-8 - 1 - 42 + 24, 2)
        data.write(b'\1')
    with pytest.raises(Damaged):
        stream_of_ours(storage)


def test_a_reader_that_is_stopped_does_not_wait_for_the_storage(storage):
    held = threading.Event()
    release = threading.Event()

    def hold():
        with storage._lock:
            held.set()
            release.wait()
    holder = threading.Thread(target=hold)
    holder.start()
    held.wait()
    with pytest.raises(Stopped):
        Tail(storage, z64, lambda: True)
    release.set()
    holder.join()
