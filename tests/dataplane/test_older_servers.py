"""What a transaction has read of a server is not committed to one that lacks it."""
import shutil
import time

import pytest
import transaction
from persistent.mapping import PersistentMapping
from ZEO.Exceptions import ClientDisconnected
from ZODB.DB import DB

from zeo_servers import ZEOServer, make_database, open_client


@pytest.fixture
def server(processes, tmpdir):
    make_database(tmpdir.join('made.fs'))
    server = ZEOServer(processes, tmpdir.join('server'), tmpdir.join('made.fs'))
    server.start()
    return server


@pytest.fixture
def lose(server, tmpdir):
    """Replaces the server by one that lacks all but what was there at the beginning."""
    def call(storage):
        generation = storage._connection_generation
        server.kill()
        for left in server.folder.listdir('Data.fs*'):
            left.remove()
        shutil.copy(str(tmpdir.join('made.fs')), server.data)
        server.start()
        deadline = time.time() + 60
        while (storage._connection_generation < generation + 2
               or not storage.is_connected()):
            assert time.time() < deadline, 'no reconnection'
            time.sleep(0.05)
    return call


def make_objects(root):
    for number in range(250):
        root[number] = PersistentMapping(number=number)


def test_a_transaction_that_began_before_a_loss_ends_as_one_that_lost_its_server(
        server, lose):
    """A new object would get the id of a lost one, which its connection still holds."""
    db = DB(open_client([server]))
    root = db.open().root()
    try:
        root['lost'] = PersistentMapping(answer=41)
        transaction.commit()
        lost = root['lost']
        make_objects(root)
        lose(db.storage)
        with pytest.raises(ClientDisconnected, match='before transactions were lost'):
            transaction.commit()
        transaction.abort()
        del lost
        assert ['thing'] == list(root)
        make_objects(root)
        transaction.commit()
        assert 251 == len(root)
    finally:
        transaction.abort()
        db.close()


def test_one_that_begins_after_a_reconnection_that_lost_nothing_is_committed(server):
    db = DB(open_client([server]))
    root = db.open().root()
    try:
        server.kill()
        server.start()
        deadline = time.time() + 60
        while not db.storage.is_connected():
            assert time.time() < deadline, 'no reconnection'
            time.sleep(0.05)
        root['kept'] = PersistentMapping(answer=43)
        transaction.commit()
        assert 43 == root['kept']['answer']
    finally:
        transaction.abort()
        db.close()
