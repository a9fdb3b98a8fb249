"""RelStorage on MariaDB: what goes wrong with it as it is, and that it doesn't with our section."""
import contextlib
import threading

import pytest
import transaction
import ZODB.config
from persistent.mapping import PersistentMapping
from pymysql.err import Error
from ZODB.DB import DB

from mariadb_server import PACKAGE, MariaDBServer, missing_program
from processes import Processes

pytestmark = pytest.mark.skipif(
    missing_program() is not None,
    reason='no program %s; package %s brings it' % (missing_program(), PACKAGE))

STORAGE = """\
%%import relstorage
%%import indico_zodbrepl.dataplane.mariadb
<relstorage>
  keep-history %s
  create-schema %s
%s
</relstorage>
"""
# Without the cure about each open breaks a commit.
OPENS = 8
MOST_OPENS = 80


@pytest.fixture(scope='module')
def server(tmpdir_factory):
    folder = tmpdir_factory.mktemp('mariadb')
    processes = Processes(folder)
    try:
        yield MariaDBServer(folder, processes)
    finally:
        processes.close()


@pytest.fixture
def database(server, request):
    """The name of an empty database of the test's own."""
    name = request.function.__name__[5:37].strip('_')
    server.make_database(name)
    return name


def open_storage(section, keep_history=True, create_schema=True):
    return ZODB.config.storageFromString(STORAGE % (
        str(keep_history).lower(), str(create_schema).lower(), section))


class Writer(object):
    """Commits again and again in a thread of its own, until the block is left.

    Attributes:
        commits: how many were made.
        failures: the errors of those that were not.
    """

    def __init__(self, storage):
        self._db = DB(storage)
        self._thread = threading.Thread(target=self._run)
        self._over = threading.Event()
        self.failures = []
        self.commits = 0

    def _run(self):
        while not self._over.is_set():
            manager = transaction.TransactionManager()
            connection = self._db.open(manager)
            try:
                connection.root()['x'] = self.commits
                manager.commit()
                self.commits += 1
            except Exception as error:
                self.failures.append(error)
                manager.abort()
            finally:
                connection.close()

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._over.set()
        self._thread.join()
        self._db.close()


def test_relstorage_as_it_is_cannot_make_its_tables(server, database):
    with pytest.raises(Error) as failure:
        open_storage(server.section(database, 'mysql'))
    assert 'errno: 150' in str(failure.value)


@pytest.mark.parametrize('keep_history', [True, False])
def test_our_section_makes_them_and_the_database_works(server, keep_history):
    name = 'works_%d' % keep_history
    server.make_database(name)
    db = DB(open_storage(server.section(name), keep_history))
    with db.transaction() as connection:
        connection.root()['state'] = u'na\xefve' + u'\x00' * 2 ** 20
    db.close()
    db = DB(open_storage(server.section(name), keep_history, create_schema=False))
    with db.transaction() as connection:
        assert u'na\xefve' + u'\x00' * 2 ** 20 == connection.root()['state']
        connection.root()['state'] = u'later'
    if keep_history:
        db.undo(db.undoInfo()[0]['id'])
        transaction.commit()
    db.pack()
    with db.transaction() as connection:
        assert keep_history == (connection.root()['state'] != u'later')
    db.close()


def test_relstorage_as_it_is_breaks_commits_of_others_whenever_it_is_opened(server, database):
    with Writer(open_storage(server.section(database))) as writer:
        for _ in range(MOST_OPENS):
            open_storage(server.section(database, 'mysql')).close()
            if writer.failures:
                break
    assert 'PROCEDURE' in str(writer.failures[0])


def test_our_section_leaves_the_procedures_alone(server, database):
    with Writer(open_storage(server.section(database))) as writer:
        for _ in range(OPENS):
            open_storage(server.section(database)).close()
    assert [] == writer.failures
    assert writer.commits > 0


def test_a_frozen_server_holds_nobody_longer_than_the_time_limit(server, database):
    DB(open_storage(server.section(database))).close()  # making tables may take longer
    section = server.section(database, more='read_timeout 2\n write_timeout 2\n')
    db = DB(open_storage(section, create_schema=False))
    connection = db.open()
    assert [] == list(connection.root())
    server.process.pause()
    try:
        with pytest.raises(Error) as failure:
            connection.sync()
        assert 'timed out' in str(failure.value)
    finally:
        server.process.resume()
    db.close()


BYTES = 3 * 2 ** 20  # in objects of a size that is kept in pages of its own


@pytest.fixture
def filled(server, database):
    """The name of a database that was just filled, on a server that has no statistics of it."""
    server.execute('SET GLOBAL innodb_stats_auto_recalc = 0')
    db = DB(open_storage(server.section(database)))
    with db.transaction() as connection:
        for number in range(30):
            connection.root()[number] = PersistentMapping(state='x' * (BYTES // 30))
    db.close()
    try:
        yield database
    finally:
        server.execute('SET GLOBAL innodb_stats_auto_recalc = 1')


def size(section):
    with contextlib.closing(open_storage(section, create_schema=False)) as storage:
        return storage.getSize()


def test_relstorage_as_it_is_tells_the_size_of_an_emptier_database(server, filled):
    assert 0 < size(server.section(filled, 'mysql')) < BYTES / 4


def test_our_section_tells_the_size_of_the_databases_files_also_on_a_follower(server, filled):
    server.execute("GRANT PROCESS ON *.* TO '%s'@'%%'" % filled)
    files = sum(each.size() for each in server.folder.join('data', filled).visit('*.ibd'))
    assert BYTES < size(server.section(filled)) <= files
    server.execute('SET GLOBAL read_only = 1')
    try:
        assert BYTES < size(server.section(filled)) <= files
    finally:
        server.execute('SET GLOBAL read_only = 0')


def test_who_may_not_know_the_size_is_told_that_it_is_unknown(server, filled, caplog):
    assert 0 == size(server.section(filled))
    assert 'without the privilege PROCESS' in caplog.text
