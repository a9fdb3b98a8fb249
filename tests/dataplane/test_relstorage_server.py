"""RelStorage on a server that freezes, is read-only, or goes: what Indico and its health see."""
import contextlib
import threading

import pytest
import transaction
import ZODB.blob
import ZODB.config
from persistent.mapping import PersistentMapping
from ZEO.Exceptions import ClientDisconnected
from ZODB.DB import DB
from ZODB.POSException import ReadOnlyError

from indico_zodbrepl.dataplane.client.liveness import Liveness
from indico_zodbrepl.dataplane.client.status import storage_status
from indico_zodbrepl.dataplane.client.translation import OutcomeUnknown

import mariadb_server
import postgresql_server
from processes import PATIENCE, Processes, wait_for

CONFIGURATION = '''\
%%import indico_zodbrepl.dataplane
%%import indico_zodbrepl.dataplane.mariadb
%%import relstorage
<indicostorage>
  <relstorage>
    commit-lock-timeout 5
    %s
  </relstorage>
</indicostorage>
'''

def needing(module):
    return pytest.param(module, id=module.PACKAGE, marks=pytest.mark.skipif(
        module.missing_program() is not None, reason='needs %s' % module.PACKAGE))


@pytest.fixture(
    scope='module', params=[needing(mariadb_server), needing(postgresql_server)])
def server(request, tmpdir_factory):
    folder = tmpdir_factory.mktemp('server')
    started = Processes(folder)
    try:
        server = (mariadb_server.MariaDBServer(folder, started)
                  if request.param is mariadb_server else
                  postgresql_server.PostgreSQLServer(started))
        with contextlib.closing(server):
            server.make_database('zodb')
            yield server
    finally:
        started.close()


@pytest.fixture
def db(server, monkeypatch):
    monkeypatch.setattr(Liveness, 'limit', 3.0)
    db = DB(ZODB.config.storageFromString(CONFIGURATION % server.section('zodb')))
    put(db, 1)
    yield db
    db.close()


def put(db, value):
    with db.transaction(u'a value') as connection:
        connection.root()['a'] = value


def get(db):
    with db.transaction() as connection:
        return connection.root()['a']


def outcome(function, *args):
    """Returns the error of a call, or None."""
    try:
        function(*args)
    except Exception as error:
        return error


def test_health_names_the_server_and_never_the_password(db, server):
    status = wait_for(
        lambda: storage_status(db)['server'] and storage_status(db), 'a look')
    assert '127.0.0.1:%d' % server.port == status['server']
    assert status['storage'] in ('RelStorage(mysql)', 'RelStorage(postgresql)')
    assert (True, False) == (status['connected'], status['read_only'])
    assert 'passw' not in repr(status)
    assert 'secret' not in repr(status)


def test_what_waits_for_a_frozen_server_ends_and_health_tells(db, server):
    connection = db.open(transaction.TransactionManager())
    errors = []

    def read():
        errors.append(outcome(connection.transaction_manager.begin))

    def write():
        errors.append(outcome(put, db, 2))
    wait_for(lambda: storage_status(db)['server'], 'a look')
    threads = [threading.Thread(target=each) for each in (read, write)]
    server.pause()
    try:
        for thread in threads:
            thread.start()
        wait_for(lambda: not storage_status(db)['connected'], 'the loss')
        for thread in threads:
            thread.join(PATIENCE)
        assert 2 == len(errors)
        assert [ClientDisconnected] * 2 == [
            ClientDisconnected if isinstance(each, ClientDisconnected) else each
            for each in errors]
    finally:
        server.resume()
        connection.transaction_manager.abort()
        connection.close()
    wait_for(lambda: storage_status(db)['connected'], 'the server')
    put(db, 3)
    assert 3 == get(db)


def test_a_server_that_freezes_while_it_saves_leaves_the_outcome_unknown(db, server):
    connection = db.open(transaction.TransactionManager())
    connection.root()['a'] = 4
    server.at_the_end_of_a_commit(
        connection._storage.base._adapter.driver, server.pause)
    try:
        error = outcome(connection.transaction_manager.commit)
    finally:
        server.resume()
    assert isinstance(error, OutcomeUnknown), error
    connection.transaction_manager.abort()
    connection.close()


def test_a_commit_that_succeeded_does_not_fail_as_the_server_is_lost_after_it(db, server):
    """Whoever is told of a failure does the same again."""
    connection = db.open(transaction.TransactionManager())
    connection.root()['a'] = 5
    finish = connection._storage.base.tpc_finish

    def finish_and_lose(*args):
        result = finish(*args)
        server.kill()
        return result
    connection._storage.tpc_finish = finish_and_lose
    try:
        connection.transaction_manager.commit()
        connection.transaction_manager.abort()
        with pytest.raises(ClientDisconnected):
            connection.transaction_manager.begin()
    finally:
        server.restart()
    connection.transaction_manager.begin()
    assert 5 == connection.root()['a']
    connection.close()


def test_a_read_only_server_is_away_for_a_moment_and_then_read_only(db, server):
    if isinstance(server, postgresql_server.PostgreSQLServer):
        pytest.skip('a standby is needed for that')
    server.execute('SET GLOBAL read_only = 1')
    try:
        # the user of the test is no administrator, so it counts for him
        assert isinstance(outcome(put, db, 5), ClientDisconnected)
        wait_for(lambda: storage_status(db)['read_only'], 'a look')
        wait_for(lambda: isinstance(outcome(put, db, 5), ReadOnlyError),
                 'the end of patience')
        assert (True, False) == (
            storage_status(db)['connected'], storage_status(db)['writable'])
        assert 1 == get(db)
    finally:
        server.execute('SET GLOBAL read_only = 0')
    wait_for(lambda: storage_status(db)['writable'], 'a look')
    put(db, 6)
    assert 6 == get(db)


def test_a_server_that_cuts_its_connections_is_found_again(db, server):
    connection = db.open(transaction.TransactionManager())
    server.disconnect('zodb')
    connection.cacheMinimize()
    error = outcome(lambda: connection.root()['a'])
    assert error is None or isinstance(error, ClientDisconnected)
    connection.transaction_manager.abort()
    connection.close()
    put(db, 7)
    assert 7 == get(db)


def test_content_that_a_loss_of_power_has_emptied_is_fetched_again(server, tmpdir):
    cached = CONFIGURATION.replace(
        'commit-lock-timeout 5',
        'blob-dir %s\n    shared-blob-dir false' % tmpdir.join('blobs')) % server.section('zodb')
    for number in range(2):
        with contextlib.closing(DB(ZODB.config.storageFromString(cached))) as db:
            with db.transaction() as connection:
                if not number:
                    connection.root()['file'] = ZODB.blob.Blob('content')
            with db.transaction() as connection:
                with connection.root()['file'].open() as content:
                    assert 'content' == content.read()
        for path in tmpdir.join('blobs').visit('*.blob'):
            path.chmod(0o600)
            path.write('')


@pytest.mark.parametrize('keep_history', ['true', 'false'])
def test_what_a_failover_has_lost_is_forgotten_also_when_others_have_committed_since(
        server, keep_history):
    name = 'history_%s' % keep_history
    server.make_database(name)
    configuration = (CONFIGURATION % server.section(name)).replace(
        'commit-lock-timeout', 'keep-history %s\n    commit-lock-timeout' % keep_history)
    first, second = [DB(ZODB.config.storageFromString(configuration)) for _ in '12']
    with contextlib.closing(first), contextlib.closing(second):
        with first.transaction() as connection:
            connection.root()['other'] = PersistentMapping()
        put(first, 'kept')
        kept = root_record(first)
        put(first, 'lost')
        assert 'lost' == get(second)
        lose_what_follows(first, kept, keep_history == 'true')
        server.disconnect(name)
        third = DB(ZODB.config.storageFromString(configuration))
        with contextlib.closing(third):
            with third.transaction() as connection:
                connection.root()['other']['is'] = 'changed since'
        for db in (first, second):
            wait_for(lambda: outcome(get, db) is None, 'a connection')
            assert 'kept' == get(db)
        put(first, 'again')
        assert 'again' == get(second)


def root_record(db):
    """Returns (tid, state) of the root."""
    return rows(db, 'SELECT tid, state FROM object_state WHERE zoid = 0 ORDER BY tid DESC')[0]


def lose_what_follows(db, record, keeps_history):
    """Makes the root what it was, with nothing left of the transactions after that."""
    tid, state = record
    if keeps_history:
        rows(db, 'UPDATE current_object SET tid = %s WHERE zoid = 0', tid)
        rows(db, 'DELETE FROM object_state WHERE tid > %s', tid)
        rows(db, 'DELETE FROM transaction WHERE tid > %s', tid)
    else:
        rows(db, 'UPDATE object_state SET tid = %s, state = %s, state_size = %s WHERE zoid = 0',
             tid, state, len(state))


def rows(db, statement, *arguments):
    connection, cursor = db.storage.base._adapter.connmanager.open_for_store()
    with contextlib.closing(connection):
        cursor.execute(statement, arguments)
        found = cursor.fetchall() if statement.startswith('SELECT') else None
        connection.commit()
        return found
