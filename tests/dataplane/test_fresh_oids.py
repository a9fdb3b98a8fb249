"""New object ids after a server was killed and started again."""
import contextlib
import time

import pytest
import transaction
from persistent.mapping import PersistentMapping
from ZEO.Exceptions import ClientDisconnected
from ZODB.Connection import TransactionMetaData
from ZODB.config import storageFromString
from ZODB.DB import DB
from ZODB.POSException import ReadOnlyError

import mariadb_server
from processes import Processes, wait_for
from zeo_servers import ZEOServer, make_database, open_client


@pytest.fixture
def server(processes, tmpdir):
    make_database(tmpdir.join('made.fs'))
    server = ZEOServer(processes, tmpdir.join('server'), tmpdir.join('made.fs'))
    server.start()
    return server


def commit_over_a_restart(server, storage):
    """Commits one new object, kills and restarts the server, commits 250 more."""
    db = DB(storage)
    try:
        root = db.open().root()
        root['first'] = PersistentMapping()
        transaction.commit()
        server.kill()
        server.start()
        wait_for_reconnection(storage)
        for number in range(250):
            root[number] = PersistentMapping(number=number)
        transaction.commit()
        return [root[number]['number'] for number in range(250)]
    finally:
        transaction.abort()
        db.close()


def wait_for_reconnection(storage):
    deadline = time.time() + 60
    while storage._connection_generation < 2 or not storage.is_connected():
        assert time.time() < deadline, 'no reconnection'
        time.sleep(0.05)


def test_a_plain_client_stores_two_objects_under_one_id(server):
    with pytest.raises(ValueError, match='same oid'):
        commit_over_a_restart(server, open_client([server], wrapped=False))


def test_ours_takes_no_id_that_the_server_may_give_out_again(server):
    assert list(range(250)) == commit_over_a_restart(server, open_client([server]))


def test_a_transaction_over_a_reconnection_ends_as_one_that_lost_its_server(server):
    """Half of its ids are of the killed server; the other one gives the same out again."""
    storage = open_client([server])
    db = DB(storage)
    try:
        connection = db.open()
        root = connection.root()
        for number in range(250):
            root[number] = PersistentMapping(number=number)
        for number in range(50):
            connection.add(root[number])
        server.kill()
        server.start()
        wait_for_reconnection(storage)
        with pytest.raises(ClientDisconnected):
            transaction.commit()
        transaction.abort()
        for number in range(250):
            root[number] = PersistentMapping(number=number)
        transaction.commit()
        assert list(range(250)) == [root[number]['number'] for number in range(250)]
    finally:
        transaction.abort()
        db.close()


def test_a_read_only_server_gives_no_ids(processes, tmpdir):
    make_database(tmpdir.join('made.fs'))
    server = ZEOServer(processes, tmpdir.join('server'), tmpdir.join('made.fs'))
    server.start(read_only=True)
    storage = open_client([server])
    try:
        with pytest.raises(ReadOnlyError):
            storage.new_oid()
    finally:
        storage.close()


@pytest.fixture(scope='module')
def mariadb(tmpdir_factory):
    if mariadb_server.missing_program() is not None:
        pytest.skip('needs %s' % mariadb_server.PACKAGE)
    folder = tmpdir_factory.mktemp('mariadb')
    started = Processes(folder)
    try:
        with contextlib.closing(mariadb_server.MariaDBServer(folder, started)) as server:
            yield server
    finally:
        started.close()


MARIADB = """\
%%import indico_zodbrepl.dataplane.mariadb
%%import relstorage
%s
<relstorage>
%s
</relstorage>
%s
"""
OURS = ('%import indico_zodbrepl.dataplane\n<indicostorage>', '</indicostorage>')
PLAIN = ('', '')
ATTEMPTS = 8


def in_a_commit_of_its_own(mariadb, instance, database, monkeypatch):
    allocator = type(instance._oids.oidallocator)
    take = allocator.new_oids

    def take_and_lose_the_server(self, cursor):
        taken = take(self, cursor)
        mariadb.kill()
        return taken

    with monkeypatch.context() as patched:
        patched.setattr(allocator, 'new_oids', take_and_lose_the_server)
        with pytest.raises(Exception):
            instance.new_oid()


def while_it_saves(mariadb, instance, *_):
    saving = TransactionMetaData()
    instance.tpc_begin(saving)
    instance.new_oid()
    mariadb.kill()
    instance.tpc_abort(saving)


def with_one_that_took_over_without_them(mariadb, instance, database, _):
    """The one that was lost had committed them, and not sent them yet."""
    assert polled(instance)
    instance.new_oid()
    mariadb.kill()
    mariadb.restart()
    mariadb.execute('TRUNCATE %s.new_oid' % database)
    mariadb.kill()


@pytest.fixture(params=[in_a_commit_of_its_own, while_it_saves,
                        with_one_that_took_over_without_them])
def lose(request, mariadb, monkeypatch):
    """A function of a storage and its database that loses the server while ids of it are not committed there."""
    return lambda *storage: request.param(mariadb, *(storage + (monkeypatch,)))


def ids_of_two(mariadb, database, frame, lose):
    """Takes ids from a server before and after it is lost, and then by another client."""
    mariadb.make_database(database)
    with contextlib.closing(storageFromString(
            MARIADB % (frame[0], mariadb.section(database), frame[1]))) as storage:
        with contextlib.closing(storage.new_instance()) as one, \
                contextlib.closing(storage.new_instance()) as two:
            lose(one, database)
            mariadb.restart()
            wait_for(lambda: polled(one), 'another connection')
            return ids_of(one, 20) + ids_of(two, 44)


def polled(storage):
    try:
        storage.poll_invalidations()
        return True
    except Exception:
        return False


def ids_of(storage, count):
    ids = []

    def took_them():
        try:
            while len(ids) < count:
                ids.append(storage.new_oid())
        except Exception:
            return False
        return True
    wait_for(took_them, 'ids')
    return ids


def test_a_plain_relstorage_gives_ids_twice_after_a_server_was_lost(mariadb, request, lose):
    # MariaDB may have written its count down by chance before it is killed.
    assert any(len(ids) > len(set(ids)) for ids in (
        ids_of_two(mariadb, name_of(request, 'plain%d' % attempt), PLAIN, lose)
        for attempt in range(ATTEMPTS)))


def test_ours_gives_no_id_that_was_not_committed(mariadb, request, lose):
    ids = ids_of_two(mariadb, name_of(request, 'ours'), OURS, lose)
    assert len(ids) == len(set(ids))


def name_of(request, name):
    """A name of a database of the test's own."""
    return '%s_%s' % (name, request.node.name.partition('[')[2].rstrip(']'))
