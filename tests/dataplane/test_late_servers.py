"""Readers whose primary is lost, and whose next server has not yet what they saw."""
import time

import pytest
import transaction
import ZODB.config
from persistent.mapping import PersistentMapping
from ZEO.Exceptions import ClientDisconnected
from ZODB.DB import DB

from indico_zodbrepl.dataplane.client import storage

import mariadb_server
import postgresql_server
from processes import Processes, wait_for

LONG = 60  # seconds
CONFIGURATION = '''\
%%import indico_zodbrepl.dataplane
%%import indico_zodbrepl.dataplane.mariadb
%%import relstorage
<indicostorage>
  <relstorage>
    replica-conf %s
    revert_when_stale true
    %s
  </relstorage>
</indicostorage>
'''


def needing(module):
    return pytest.param(module, id=module.PACKAGE, marks=pytest.mark.skipif(
        module.missing_program() is not None, reason='needs %s' % module.PACKAGE))


class Cluster(object):
    """A primary, and followers that are as it was when they were made, until they are replaced.

    Args:
        module: the kind of server.
        folder: a py.path.local for data.
    """

    def __init__(self, module, folder):
        self._module = module
        self._folder = folder
        self.processes = Processes(folder)
        self.servers = []
        self._file = folder.join('servers.txt')
        self._dbs = []

    def start(self, original=None):
        """Start the primary, or a read-only copy of a server that does not run; return it."""
        if self._module is mariadb_server:
            folder = self._folder.mkdir('server%d' % len(self.servers))
            server = mariadb_server.MariaDBServer(folder, self.processes, original)
        else:
            server = postgresql_server.PostgreSQLServer(self.processes, original)
        self.servers.append(server)
        return server

    def list(self, *servers):
        """Let clients use these servers, the primary first."""
        self._file.write(''.join('127.0.0.1:%d\n' % each.port for each in servers))

    def db(self):
        """Return a database whose clients use the servers of the list."""
        db = DB(ZODB.config.storageFromString(
            CONFIGURATION % (self._file, self.servers[0].section('zodb'))))
        self._dbs.append(db)
        return db

    def close(self):
        for each in self._dbs:
            each.close()
        for each in self.servers:
            each.close()
        self.processes.close()


@pytest.fixture(params=[needing(mariadb_server), needing(postgresql_server)])
def cluster(request, tmpdir):
    cluster = Cluster(request.param, tmpdir)
    yield cluster
    cluster.close()


@pytest.fixture
def patience(monkeypatch):
    """Return a function that sets the patience of the databases that are opened later."""
    return lambda seconds: monkeypatch.setattr(storage, 'PATIENCE', seconds)


@pytest.fixture
def late(cluster):
    """A cluster with value 1 on a follower that will stay late, and 2 on the primary, which runs."""
    primary = cluster.start()
    primary.make_database('zodb')
    cluster.list(primary)
    put(cluster.db(), 1)
    primary.kill()
    follower = cluster.start(primary)
    primary.restart()
    cluster.list(primary, follower)
    return cluster


def put(db, value):
    with db.transaction(u'a value') as connection:
        connection.root()['a'] = value


def get(db):
    with db.transaction() as connection:
        return connection.root()['a']


def get_soon(db):
    """Return the value as soon as a server can be read from."""
    def found():
        try:
            return [get(db)]
        except ClientDisconnected:
            return None
    return wait_for(found, 'a server')[0]


def test_a_reader_turns_to_a_follower_that_has_what_it_saw(late, patience):
    patience(LONG)
    primary, follower = late.servers
    db = late.db()
    put(db, 2)
    assert 2 == get(db)
    primary.kill()
    other = late.start(primary)
    late.list(primary, follower, other)
    assert 2 == get_soon(db)
    assert 2 == get_soon(db)


def test_a_writer_that_reads_nothing_in_between_sees_its_own_commit(late, patience):
    patience(LONG)
    primary, follower = late.servers
    db = late.db()
    connection = db.open(transaction.TransactionManager())
    connection.root()['a'] = 2
    finish = connection._storage.tpc_finish

    def finish_and_lose(*args):
        tid = finish(*args)
        primary.kill()
        return tid
    connection._storage.tpc_finish = finish_and_lose
    connection.transaction_manager.commit()
    other = late.start(primary)
    late.list(primary, follower, other)

    def seen():
        try:
            connection.transaction_manager.begin()
            return connection.root()['a']
        except ClientDisconnected:
            return None
    assert 2 == wait_for(seen, 'a server')
    connection.transaction_manager.abort()
    connection.close()


def test_a_writer_that_reads_from_a_late_follower_reads_nothing_older_than_its_own_commit(
        cluster, patience):
    patience(LONG)
    primary = cluster.start()
    primary.make_database('zodb')
    cluster.list(primary)
    with cluster.db().transaction() as connection:
        connection.root().update(own=PersistentMapping(n=0), other=PersistentMapping(n=0))
    primary.kill()
    follower = cluster.start(primary)
    primary.restart()
    cluster.list(primary, follower)
    db = cluster.db()
    root = db.open().root()
    assert (0, 0) == (root['own']['n'], root['other']['n'])
    with cluster.db().transaction() as connection:
        connection.root()['other']['n'] = 1
    reading = db.storage.liveness._view._reading
    reading.prefer('127.0.0.1:%d' % follower.port)
    prefer, reading.prefer = reading.prefer, lambda server: None  # as if the primary were silent
    transaction.begin()
    assert 0 == root['other']['n']
    root['own']['n'] = 1
    transaction.commit()
    reading.prefer = prefer
    transaction.begin()
    assert (1, 1) == (root['own']['n'], root['other']['n'])


def test_a_reader_whose_caches_were_emptied_does_not_go_back(late, patience):
    patience(LONG)
    primary, follower = late.servers
    db = late.db()
    put(db, 2)
    root = db.open().root()
    assert 2 == root['a']
    db.storage._cache.clear(load_persistent=False)
    db.storage.liveness._view._reading.prefer('127.0.0.1:%d' % follower.port)
    transaction.begin()
    assert 2 == root['a']


def test_a_reader_sees_the_older_state_if_no_other_is_left(late, patience):
    patience(0.5)
    db = late.db()
    put(db, 2)
    assert 2 == get(db)
    late.servers[0].kill()
    assert 1 == get_soon(db)


def test_a_reader_does_not_wait_at_a_server_that_accepts_writes(late, patience):
    patience(LONG)
    primary, follower = late.servers
    db = late.db()
    put(db, 2)
    assert 2 == get(db)
    primary.kill()
    promote(follower)
    began = time.time()
    assert 1 == get_soon(db)
    assert time.time() - began < LONG / 2
    put(db, 3)
    assert 3 == get(db)


def promote(server):
    if isinstance(server, mariadb_server.MariaDBServer):
        server.execute('SET GLOBAL read_only = 0')
    else:
        server.execute('BEGIN READ WRITE; '
                       'ALTER ROLE zodb SET default_transaction_read_only = off; COMMIT')
