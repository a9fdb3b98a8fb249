"""The section <indicostorage>: transparent but for errors."""
import os
import resource
import sys
import traceback
from concurrent.futures import CancelledError

import pytest
import transaction
import ZODB.config
import ZODB.interfaces
from persistent.mapping import PersistentMapping
from ZEO.Exceptions import ClientDisconnected
from ZODB.blob import Blob
from ZODB.DB import DB
from ZODB.POSException import ReadOnlyError
from zope.interface import providedBy

from indico_zodbrepl.dataplane.client.storage import IndicoStorage
from indico_zodbrepl.dataplane.client.translation import OutcomeUnknown

from processes import PATIENCE, wait_for
from zeo_servers import (
    ZEOServer, client_config, make_database, open_client)

WRAPPED = '''\
%%import indico_zodbrepl.dataplane
%%import relstorage
<indicostorage>
%s
</indicostorage>
'''


def open_wrapped(section):
    return ZODB.config.storageFromString(WRAPPED % section)


@pytest.fixture
def filestorage(tmpdir):
    storage = open_wrapped(
        '<filestorage>\n path %s\n blob-dir %s\n</filestorage>'
        % (tmpdir.join('Data.fs'), tmpdir.join('blobs')))
    yield storage
    storage.close()


def test_the_section_opens_the_storage_inside(filestorage, tmpdir):
    assert isinstance(filestorage, IndicoStorage)
    assert str(tmpdir.join('Data.fs')) == filestorage.getName()
    assert len(filestorage.base) == len(filestorage)


def test_the_wrapper_provides_the_interfaces_of_the_storage_inside(filestorage):
    assert list(providedBy(filestorage.base)) == list(providedBy(filestorage))
    assert ZODB.interfaces.IBlobStorage.providedBy(filestorage)
    assert ZODB.interfaces.IStorageUndoable.providedBy(filestorage)
    assert not ZODB.interfaces.IMVCCStorage.providedBy(filestorage)


def test_a_blob_in_a_file_of_this_process_is_on_disk_before_its_transaction(
        filestorage, tmpdir, monkeypatch):
    synced = []

    def fsync(descriptor):
        synced.append(os.fstat(descriptor).st_ino)

    monkeypatch.setattr(os, 'fsync', fsync)
    # The package's attribute of this name is the class.
    monkeypatch.setattr(sys.modules['ZODB.FileStorage.FileStorage'], 'fsync', fsync)
    db = DB(filestorage)
    connection = db.open()
    connection.root()['slides'] = blob = Blob('slides')
    del synced[:]
    transaction.commit()
    content, data = os.stat(blob.committed()), os.stat(str(tmpdir.join('Data.fs')))
    assert synced.index(content.st_ino) < synced.index(data.st_ino)


def test_a_database_on_the_wrapper_commits_undoes_and_packs(filestorage):
    db = DB(filestorage)
    connection = db.open()
    root = connection.root()
    root['counter'] = 1
    transaction.commit()
    root['counter'] = 2
    transaction.get().note(u'two')
    transaction.commit()
    db.undo(db.undoInfo(0, 1)[0]['id'])
    transaction.commit()
    assert 1 == root['counter']
    before = db.getSize()
    db.pack()
    assert db.getSize() < before
    assert 1 == root['counter']


def test_blobs_pass_through(filestorage):
    db = DB(filestorage)
    connection = db.open()
    connection.root()['blob'] = Blob(b'content')
    transaction.commit()
    connection.close()
    with db.open().root()['blob'].open('r') as blob:
        assert b'content' == blob.read()


def test_connections_see_each_others_commits(filestorage):
    """So invalidations reach the database through the wrapper."""
    db = DB(filestorage)
    managers = [transaction.TransactionManager() for _ in range(2)]
    one, two = [db.open(manager) for manager in managers]
    one.root()['thing'] = PersistentMapping()
    managers[0].commit()
    managers[1].begin()
    two.root()['thing']['seen'] = True
    managers[1].commit()
    managers[0].begin()
    assert one.root()['thing']['seen']


def test_each_instance_of_an_mvcc_storage_is_wrapped_as_well(tmpdir):
    storage = open_wrapped(
        '<relstorage>\n <sqlite3>\n data-dir %s\n </sqlite3>\n</relstorage>'
        % tmpdir)
    assert ZODB.interfaces.IMVCCStorage.providedBy(storage)
    db = DB(storage)
    connection = db.open()
    assert isinstance(connection._storage, IndicoStorage)
    connection.root()['thing'] = PersistentMapping()
    transaction.commit()
    connection.close()
    assert 'thing' in db.open().root()
    db.close()


def test_an_error_of_a_method_is_translated_with_its_traceback(filestorage):
    def history(oid, size=1):
        raise CancelledError('on the way')
    filestorage.base.history = history
    with pytest.raises(ClientDisconnected) as raised:
        filestorage.history(b'\0' * 8)
    assert 'history' in [
        each[2] for each in traceback.extract_tb(raised.tb)]


def test_a_missing_attribute_is_missing_in_the_wrapper(filestorage):
    assert not hasattr(filestorage, 'is_connected')


def test_a_client_of_a_read_only_server_raises_read_only_error(
        processes, tmpdir):
    make_database(tmpdir.join('made.fs'))
    server = ZEOServer(processes, tmpdir.join('a'), tmpdir.join('made.fs'))
    server.start(read_only=True)
    db = DB(open_client([server]))
    connection = db.open()
    assert 42 == connection.root()['thing']['answer']
    connection.root()['thing']['answer'] = 43
    with pytest.raises(ReadOnlyError):
        transaction.commit()
    transaction.abort()
    db.close()


def test_a_full_disk_under_a_file_storage_is_reported_as_away_and_nothing_is_saved(
        filestorage, tmpdir):
    """Files that may not grow stand for a disk that is full."""
    db = DB(filestorage)
    with db.transaction() as connection:
        connection.root()['a'] = 1
    size = tmpdir.join('Data.fs').size()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 10000, hard))
    try:
        with pytest.raises(ClientDisconnected) as raised:
            with db.transaction() as connection:
                connection.root()['a'] = 'x' * 1000000
        assert not isinstance(raised.value, OutcomeUnknown)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    for value in (1, 2):
        with db.transaction() as connection:
            assert value == connection.root()['a']
            connection.root()['a'] = value + 1
    db.close()


def test_opening_without_a_server_raises_client_disconnected(processes, tmpdir):
    server = ZEOServer(processes, tmpdir.join('a'))
    with pytest.raises(ClientDisconnected):
        ZODB.config.storageFromString(client_config([server], wait=1))


def test_a_commit_whose_server_dies_before_it_answers_has_an_unknown_outcome(
        processes, tmpdir):
    """Here it has been saved, so that whoever tried again would save twice."""
    server = ZEOServer(processes, tmpdir.join('a'))
    server.start()
    storage = open_client([server])
    db = DB(storage)
    manager = transaction.TransactionManager()
    connection = db.open(manager)
    connection.root()['thing'] = 1
    protocol = storage.base._server.client.protocol
    server_call = protocol.server_call

    def kill_when_finished(method, *args):
        answer = server_call(method, *args)
        if method == 'tpc_finish':
            storage.base._server.timeout = 1  # for what is asked while no server is there
            protocol.sm_protocol.set_receive(lambda answer: server.kill())
        return answer
    protocol.server_call = kill_when_finished
    try:
        with pytest.raises(OutcomeUnknown):
            manager.commit()
        manager.abort()
        storage.base._server.timeout = PATIENCE
        server.start()
        wait_for(storage.is_connected, 'the server that is back')
        connection.sync()
        assert 1 == connection.root()['thing']
    finally:
        connection.close()
        db.close()
