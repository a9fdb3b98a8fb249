"""The storage on a NEO cluster: it ends every wait, and refuses what destroys data."""
import subprocess
import sys
import threading
import time

import pytest
import transaction
import ZODB.interfaces
from BTrees.OOBTree import OOBTree
from ZEO.Exceptions import ClientDisconnected
from ZODB.DB import DB
from ZODB.POSException import POSKeyError, UndoError
from ZODB.utils import tid_repr

from indico_zodbrepl.dataplane.neo.client import NEOUndoRefused
from indico_zodbrepl.dataplane.neo.errors import PackRefused
from indico_zodbrepl.dataplane.neo.library import import_neo
from indico_zodbrepl.dataplane.client.status import is_connected, storage_status

from neo_clusters import NEOCluster
from processes import wait_for

SHORT = 3.0  # seconds; a limit of the client that is to pass in a test
# Above the limits that are to pass, below forever.
AN_END = 120.0


@pytest.fixture(scope='module')
def cluster(tmpdir_factory):
    cluster = NEOCluster(tmpdir_factory.mktemp('neo'))
    try:
        cluster.found()
        yield cluster
    finally:
        cluster.close()


@pytest.fixture
def whole(cluster):
    cluster.wait_until_whole()
    return cluster


@pytest.fixture
def db(whole):
    db = DB(whole.open(limit=SHORT, wait=SHORT))
    yield db
    db.close()


def save(db, key, value):
    """Saves one entry of a shared BTree in a transaction of its own."""
    manager = transaction.TransactionManager()
    connection = db.open(manager)
    try:
        with manager:
            tree = connection.root().setdefault('tree', OOBTree())
            tree[key] = value
    finally:
        connection.close()


def saved(db, key):
    connection = db.open(transaction.TransactionManager())
    try:
        return connection.root()['tree'].get(key)
    finally:
        connection.close()


class Call(threading.Thread):
    """Calls a function in a thread; `end` waits for it and returns or raises what it did."""

    def __init__(self, function):
        threading.Thread.__init__(self)
        self.setDaemon(True)
        self._function = function
        self._error = self._result = None
        self.start()

    def run(self):
        try:
            self._result = self._function()
        except Exception as error:
            self._error = error

    def end(self, seconds=AN_END):
        self.join(seconds)
        assert not self.isAlive(), 'it waits and waits'
        if self._error is not None:
            raise self._error
        return self._result


def stock_storage(cluster):
    neo = import_neo()
    return neo.client.Storage.Storage(
        ' '.join(cluster.written(each) for each in cluster.masters), 'tested')


def test_what_one_client_saves_another_reads(db, whole):
    save(db, 'shared', 1)
    other = DB(whole.open())
    assert 1 == saved(other, 'shared')
    save(other, 'shared', 2)
    wait_for(lambda: 2 == saved(db, 'shared'), 'the news of the other client')
    other.close()


def test_health_tells_the_primary_and_the_last_transaction(db, whole):
    save(db, 'health', 1)
    wait_for(lambda: storage_status(db)['last_tid'] == tid_repr(
        db.storage.lastTransaction()), 'the last transaction')
    status = storage_status(db)
    assert whole.written('m0') == status['server']
    assert (True, False, True) == (
        status['connected'], status['read_only'], status['writable'])
    assert 'NEOClient(tested at %s)' % whole.written('m0') == status['storage']


def test_undo_is_refused_before_the_cluster_hears_of_it(db):
    save(db, 'undo', 1)
    assert not db.supportsUndo()
    assert [] == list(db.undoInfo()) == db.storage.undoLog()
    assert not ZODB.interfaces.IStorageUndoable.providedBy(db.storage)
    last = db.storage.lastTransaction()
    with pytest.raises(NotImplementedError):  # by ZODB itself, whatever the storage is
        db.undo(last)
    with pytest.raises(UndoError) as raised:
        db.storage.undo(last, None)
    assert isinstance(raised.value, NEOUndoRefused)
    assert 'NEO 1.12 can not undo safely' in str(raised.value)
    assert last == db.storage.lastTransaction()
    assert 1 == saved(db, 'undo')


def test_an_object_that_is_not_there_is_not_taken_for_a_lost_connection(db):
    with pytest.raises(POSKeyError):
        db.storage.load(b'\x7f' * 8, '')


def test_a_pack_is_done_while_every_copy_is_there(db):
    for value in range(3):
        save(db, 'packed', value)
    db.pack()
    assert 2 == saved(db, 'packed')


def test_a_database_of_unknown_size_has_none(db):
    """NEO's own figure is the last object's number times 300."""
    assert 0 == db.getSize()


def test_neo_can_be_imported_in_a_thread_that_is_not_the_main_one():
    """Indico opens its database in one; the import alone fails there."""
    program = (
        'import threading\n'
        'def run():\n'
        '    %s\n'
        '    print "done"\n'
        'thread = threading.Thread(target=run)\n'
        'thread.start()\n'
        'thread.join()\n')

    def output(statement):
        return subprocess.Popen(
            [sys.executable, '-c', program % statement], stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT).communicate()[0]
    assert 'signal only works in main thread' in output('import neo.client.Storage')
    assert 'done\n' == output('import indico_zodbrepl.dataplane.neo.client')


def test_stock_neo_waits_for_a_frozen_storage_as_long_as_it_is_frozen(whole):
    """The trap; the next test is the same with our client."""
    db = DB(stock_storage(whole))
    save(db, 'stock', 1)
    whole.running['s0'].pause()
    try:
        commit = Call(lambda: save(db, 'stock', 2))
        commit.join(2 * SHORT)
        assert commit.isAlive()
    finally:
        whole.running['s0'].resume()
    commit.end()
    db.close()


def test_a_frozen_storage_is_left_out_of_a_write_and_the_write_is_saved(db, whole):
    save(db, 'frozen', 1)
    whole.running['s0'].pause()
    try:
        Call(lambda: save(db, 'frozen', 2)).end()
        assert 2 == saved(db, 'frozen')
        assert is_connected(db)
    finally:
        whole.running['s0'].resume()


def test_a_frozen_primary_ends_each_wait_in_an_error_that_indico_answers_honestly(db, whole):
    save(db, 'master', 1)
    whole.running['m0'].pause()
    try:
        with pytest.raises(ClientDisconnected):
            Call(lambda: save(db, 'master', 2)).end()
        wait_for(lambda: not is_connected(db), 'health to tell')
        status = storage_status(db)
        assert (False, False, None) == (
            status['connected'], status['writable'], status['server'])
    finally:
        whole.running['m0'].resume()
    wait_for(lambda: is_connected(db), 'the primary that goes on')
    save(db, 'master', 3)
    assert 3 == saved(db, 'master')


def test_a_client_finds_a_primary_that_was_restarted_without_being_asked(db, whole):
    """Requests are turned away while health says that it is not connected."""
    whole.running['m0'].kill()
    wait_for(lambda: not is_connected(db), 'the end of the primary')
    whole.start('m0')
    wait_for(lambda: is_connected(db), 'the new primary')
    save(db, 'restarted', 1)
    assert 1 == saved(db, 'restarted')


def test_storages_that_are_silent_with_all_copies_count_as_not_connected(db, whole):
    save(db, 'both', 1)
    db.storage.base._cache.clear()
    for name in whole.storages:
        whole.running[name].pause()
    try:
        with pytest.raises(ClientDisconnected):
            Call(lambda: save(db, 'both', 2)).end()
        wait_for(lambda: not is_connected(db), 'health to tell')
    finally:
        for name in whole.storages:
            whole.running[name].resume()
    wait_for(lambda: is_connected(db), 'the storages that go on')


def test_a_pack_is_refused_while_a_storage_is_down(db, whole):
    whole.running['s1'].kill()
    wait_for(lambda: whole.state_of('s1') == 'DOWN', 'the end of the storage')
    try:
        with pytest.raises(PackRefused) as raised:
            db.pack()
        assert 'partition 0 lacks an up-to-date copy' in str(raised.value)
    finally:
        whole.start('s1')


def test_stock_neo_never_ends_to_look_for_a_master(tmpdir, processes):
    """The trap; the next test is the same with our client."""
    program = (
        'import neo.client.Storage, ZODB\n'
        'storage = neo.client.Storage.Storage(%r, "tested")\n'
        'print "looking"\n'
        'ZODB.DB(storage)\n' % NEOCluster(tmpdir).written('m0'))
    opening = processes.start(['python', '-u', '-c', program])
    wait_for(lambda: 'looking' in opening.output(), 'the import')
    time.sleep(2 * SHORT)
    assert opening.is_running()


def test_opening_without_a_master_ends_in_a_disconnect(tmpdir):
    nobody = NEOCluster(tmpdir)
    began = time.time()
    with pytest.raises(ClientDisconnected):
        Call(lambda: nobody.open(wait=SHORT)).end()
    assert time.time() - began >= SHORT
