"""RelStorage on SQLite inside <indicostorage>."""
import functools
import os
import sqlite3
import time

import pytest
import transaction
import ZODB.config
from persistent.mapping import PersistentMapping
from ZEO.Exceptions import ClientDisconnected
from ZODB.blob import Blob
from ZODB.DB import DB
from ZODB.utils import tid_repr, u64

from indico_zodbrepl.dataplane.client.sqlite_blobs import remove_unused_files
from indico_zodbrepl.dataplane.client.status import storage_status
from indico_zodbrepl.dataplane.client.translation import OutcomeUnknown

from processes import wait_for

SECTION = '''\
%%import indico_zodbrepl.dataplane
%%import relstorage
<indicostorage>
  <relstorage>
    keep-history %(keep_history)s
    commit-lock-timeout %(lock_timeout)d
    blob-dir %(folder)s/blobs
    shared-blob-dir true
    <sqlite3>
      data-dir %(folder)s
      <pragmas>
        synchronous 2
        %(pragmas)s
      </pragmas>
    </sqlite3>
  </relstorage>
</indicostorage>
'''


def open_db(folder, keep_history=True, pragmas='', lock_timeout=1):
    return DB(ZODB.config.storageFromString(SECTION % {
        'folder': folder, 'pragmas': pragmas, 'lock_timeout': lock_timeout,
        'keep_history': str(keep_history).lower()}))


@pytest.fixture
def opened(tmpdir):
    """Opens databases in the test's folder that are closed with the test."""
    dbs = []

    def open_another(*args, **kwargs):
        dbs.append(open_db(tmpdir, *args, **kwargs))
        return dbs[-1]
    yield open_another
    transaction.abort()
    for db in dbs:
        db.close()


def put(db, key, value):
    with db.transaction() as connection:
        connection.root()[key] = value


def get(db, key):
    with db.transaction() as connection:
        value = connection.root()[key]
        return dict(value) if isinstance(value, PersistentMapping) else value


def test_its_status_needs_no_question_to_the_database(opened, tmpdir):
    db = opened()
    put(db, 'a', 1)
    last_tid = tid_repr(db.lastTransaction())
    wait_for(lambda: storage_status(db)['last_tid'] == last_tid, 'a look')
    status = storage_status(db)
    assert 'RelStorage(%s)' % tmpdir.join('main.sqlite3') == status['storage']
    assert (None, True, False, True) == (
        status['server'], status['connected'], status['read_only'],
        status['writable'])

    def question(*args, **kwargs):
        raise AssertionError('asks the database')
    db.storage.base._adapter.txncontrol.get_tid = question
    db.storage.base.lastTransaction = question
    assert last_tid == storage_status(db)['last_tid']


def test_a_database_whose_file_is_gone_is_not_connected(opened, tmpdir):
    db = opened()
    assert storage_status(db)['connected']
    tmpdir.join('main.sqlite3').rename(tmpdir.join('elsewhere'))
    wait_for(lambda: not storage_status(db)['connected'], 'the loss')
    assert not storage_status(db)['writable']
    tmpdir.join('elsewhere').rename(tmpdir.join('main.sqlite3'))
    wait_for(lambda: storage_status(db)['connected'], 'the file')


def test_another_file_in_its_place_is_not_the_database(opened, tmpdir):
    """SQLite would go on with the old one, whose name nobody knows any more."""
    db = opened()
    path = tmpdir.join('main.sqlite3')
    copy = tmpdir.join('copy')
    path.copy(copy)
    copy.rename(path)
    wait_for(lambda: not storage_status(db)['connected'], 'the loss')


def test_an_instance_of_a_connection_is_wrapped_and_looks_at_nothing_itself(opened):
    db = opened()
    connection = db.open()
    assert connection._storage.liveness is db.storage.liveness
    connection.close()
    assert storage_status(db)['connected']


def test_two_processes_that_make_the_table_of_oids_together_do_not_fail(opened, monkeypatch):
    """One has looked for the table in vain; the other has made it before the first goes on."""
    first, second = opened(), opened()
    driver = first.storage.base._adapter.oidallocator.driver
    connect_to_file = driver.connect_to_file
    handed_out = []

    def connect(*args, **kwargs):
        connection = connect_to_file(*args, **kwargs)
        make, closed = connection.executescript, connection.close

        def after_the_other(method, *args):
            if not handed_out:
                handed_out.append(second.storage.new_oid())
            return method(*args)
        connection.executescript = functools.partial(after_the_other, make)
        connection.close = functools.partial(after_the_other, closed)
        return connection
    monkeypatch.setattr(driver, 'connect_to_file', connect)
    put(first, 'a', PersistentMapping(count=0))
    put(second, 'b', PersistentMapping(count=1))
    assert handed_out
    assert {'count': 0} == get(first, 'a')
    assert {'count': 1} == get(first, 'b')


def test_writers_wait_for_each_other(processes, tmpdir):
    """Four processes that open, write and close all the time lose nothing."""
    open_db(tmpdir).close()
    script = tmpdir.join('write.py')
    script.write(WRITER)
    writers = [
        processes.start(['python', str(script), str(tmpdir), str(number)])
        for number in range(4)]
    assert [0] * 4 == [each.wait() for each in writers], (
        [each.output() for each in writers])
    assert not [each for each in writers if 'locked' in each.output()]
    db = open_db(tmpdir)
    counts = [get(db, 'writer %d' % number)['count'] for number in range(4)]
    db.close()
    assert [60] * 4 == counts


WRITER = '''\
import sys
import time
sys.path.insert(0, %r)
from persistent.mapping import PersistentMapping
from test_relstorage_sqlite import open_db
from ZEO.Exceptions import ClientDisconnected
from ZODB.POSException import ConflictError


def again(change):
    while True:
        try:
            with db.transaction() as connection:
                return change(connection.root())
        except ConflictError:
            time.sleep(0.01)


def make(root):
    root.setdefault(key, PersistentMapping(count=0))


def count(root):
    root[key]['count'] += 1
    root[key]['data'] = PersistentMapping(text='x' * 1000)


folder, key = sys.argv[1], 'writer ' + sys.argv[2]
for turn in range(6):
    db = open_db(folder, lock_timeout=60)
    again(make)
    for each in range(10):
        again(count)
    db.close()
''' % os.path.dirname(__file__)


def test_a_write_that_another_process_keeps_from_being_saved_is_away(
        opened, tmpdir):
    """Say an Indico that is frozen while it saves."""
    db = opened()
    put(db, 'a', 1)
    other = sqlite3.connect(str(tmpdir.join('main.sqlite3')), isolation_level=None)
    other.execute('BEGIN IMMEDIATE')
    with pytest.raises(ClientDisconnected) as raised:
        put(db, 'a', 2)
    assert not isinstance(raised.value, OutcomeUnknown)
    assert storage_status(db)['connected']
    assert 1 == get(db, 'a')
    other.execute('ROLLBACK')
    other.close()
    put(db, 'a', 3)
    assert 3 == get(db, 'a')


def test_a_full_disk_is_reported_and_nothing_is_saved(opened):
    db = opened(pragmas='max_page_count 60')
    put(db, 'a', 1)
    with pytest.raises(ClientDisconnected) as raised:
        put(db, 'large', 'x' * 1000000)
    assert 'full' in str(raised.value)
    assert not isinstance(raised.value, OutcomeUnknown)
    with db.transaction() as connection:
        assert 'large' not in connection.root()
    put(db, 'a', 2)
    assert 2 == get(db, 'a')


def test_a_commit_whose_end_fails_has_an_unknown_outcome(opened):
    db = opened()
    put(db, 'a', 1)
    connection = db.open(transaction.manager)
    connection.root()['a'] = 2
    base = connection._storage.base
    commit = base._adapter.txncontrol.commit_phase2

    def commit_and_fail(*args, **kwargs):
        commit(*args, **kwargs)
        raise sqlite3.OperationalError('disk I/O error')
    base._adapter.txncontrol.commit_phase2 = commit_and_fail
    with pytest.raises(OutcomeUnknown):
        transaction.commit()
    transaction.abort()
    connection.close()
    assert 2 == get(db, 'a')


def test_a_broken_file_is_reported_as_away(opened, tmpdir):
    opened().close()
    tmpdir.join('main.sqlite3').write('x' * 8192)
    for suffix in ('-wal', '-shm'):
        if tmpdir.join('main.sqlite3' + suffix).check():
            tmpdir.join('main.sqlite3' + suffix).remove()
    with pytest.raises(ClientDisconnected):
        open_db(tmpdir)


def test_what_keeps_history_packs_and_undoes(opened):
    db = opened()
    for value in (1, 2):
        put(db, 'a', PersistentMapping(value=value))
    assert db.supportsUndo()
    db.undo(db.undoInfo(0, 1)[0]['id'])
    transaction.commit()
    assert 1 == get(db, 'a')['value']
    before = len(list(db.storage.iterator()))
    db.pack()
    assert len(list(db.storage.iterator())) < before
    assert 1 == get(db, 'a')['value']


def test_what_keeps_no_history_packs_and_refuses_to_undo(opened):
    db = opened(keep_history=False)
    for value in (1, 2):
        put(db, 'a', PersistentMapping(value=value))
    before = len(db.storage)
    db.pack()
    assert len(db.storage) < before
    assert not db.supportsUndo()
    assert not db.undoInfo(0, 1)
    with pytest.raises(NotImplementedError):
        db.undo(b'any')
    assert 2 == get(db, 'a')['value']


def test_its_size_is_that_of_its_files(opened, tmpdir):
    """What is saved goes to the log first, and from there into the file."""
    db = opened()
    before = db.getSize()
    put(db, 'large', 'x' * 1000000)
    assert before + 1000000 <= db.getSize()
    assert db.getSize() == sum(
        tmpdir.join(name).size() for name in ('main.sqlite3', 'main.sqlite3-wal'))


def put_blob(db, key, content):
    with db.transaction() as connection:
        blob = connection.root().setdefault(key, Blob())
        with blob.open('w') as opened:
            opened.write(content)


def get_blob(db, key):
    with db.transaction() as connection:
        with connection.root()[key].open() as opened:
            return opened.read()


def blob_files(tmpdir):
    return sorted(path.read() for path in tmpdir.join('blobs').visit('*.blob'))


@pytest.fixture
def synced(monkeypatch):
    """The paths of files and folders that were forced to disk, in order."""
    paths = []
    fsync = os.fsync

    def noted(descriptor):
        paths.append(os.readlink('/proc/self/fd/%d' % descriptor))
        fsync(descriptor)
    monkeypatch.setattr(os, 'fsync', noted)
    return paths


def test_the_file_of_a_blob_is_on_disk_before_its_transaction(opened, tmpdir, synced):
    db = opened()
    connection = db.open()
    blob = connection.root()['a'] = Blob('content')
    manager = transaction.get()
    adapter = db.storage.base._adapter
    commit, at_commit = adapter.txncontrol.commit_phase2, []

    def noted(*args, **kwargs):
        at_commit.extend(synced)
        return commit(*args, **kwargs)
    connection._storage.base._adapter.txncontrol.commit_phase2 = noted
    manager.commit()
    path = blob.committed()
    connection.close()
    assert any(each.endswith('.tmp-') for each in at_commit)  # before it got its last name
    folder = os.path.dirname(path)
    while folder != str(tmpdir):
        assert folder in at_commit
        folder = os.path.dirname(folder)
    assert 'content' == get_blob(db, 'a')


def test_the_file_of_an_undone_change_is_on_disk(opened, synced):
    db = opened()
    put_blob(db, 'a', 'first')
    put_blob(db, 'a', 'second')
    del synced[:]
    db.undo(db.undoInfo()[0]['id'])
    transaction.commit()
    assert 'first' == get_blob(db, 'a')
    assert any(each.endswith('.blob') for each in synced)


def test_an_aborted_blob_leaves_no_file(opened, tmpdir):
    db = opened()
    connection = db.open()
    connection.root()['a'] = Blob('content')
    transaction.savepoint()
    transaction.abort()
    connection.close()
    assert [] == blob_files(tmpdir)


@pytest.mark.parametrize('keep_history', [True, False])
def test_a_pack_removes_files_that_no_row_refers_to(opened, tmpdir, keep_history):
    db = opened(keep_history=keep_history)
    put_blob(db, 'kept', 'first')
    put_blob(db, 'kept', 'second')
    put_blob(db, 'gone', 'third')
    with db.transaction() as connection:
        kept = connection.root()['kept']
        killed = db.storage.base.blobhelper.fshelper.getBlobFilename(
            kept._p_oid, ('%016x' % (u64(kept._p_serial) + 1)).decode('hex'))
        del connection.root()['gone']
    with open(killed, 'wb') as left:
        left.write('by a commit that was killed')
    put_blob(db, 'later', 'fourth')
    db.pack(time.time() + 1)
    assert ['fourth', 'second'] == blob_files(tmpdir)
    assert 'second' == get_blob(db, 'kept')


def test_a_pack_keeps_files_that_are_newer_than_its_moment(opened, tmpdir):
    db = opened(keep_history=False)
    moment = time.time()
    put_blob(db, 'kept', 'first')
    put_blob(db, 'kept', 'second')
    db.pack(moment)
    assert ['first', 'second'] == blob_files(tmpdir)


def test_a_pack_keeps_files_of_commits_that_its_connection_has_not_seen(opened, tmpdir):
    db, other = opened(), opened()
    put_blob(db, 'first', 'first')
    db.storage.base._load_connection.cursor.execute('SELECT COUNT(*) FROM object_state')
    put_blob(other, 'second', 'second')
    remove_unused_files(db.storage.base, time.time() + 1)
    assert ['first', 'second'] == blob_files(tmpdir)
