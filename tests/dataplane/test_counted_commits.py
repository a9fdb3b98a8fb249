"""Commits are counted by their duration, and conflicts too, whatever the storage."""
import contextlib

import pytest
from transaction import TransactionManager
from ZODB.DB import DB
from ZODB.POSException import ConflictError

from indico_zodbrepl.dataplane.client.commits import BOUNDS
from indico_zodbrepl.dataplane.client.status import storage_status

from sqlite_storages import open_sqlite
from zeo_servers import ZEOServer, make_database, open_client


@pytest.fixture(params=['zeo', 'sqlite'])
def db(request, processes, tmpdir):
    if request.param == 'zeo':
        make_database(tmpdir.join('made.fs'))
        server = ZEOServer(processes, tmpdir.join('a'), tmpdir.join('made.fs'))
        server.start()
        storage = open_client([server])
    else:
        storage = open_sqlite(tmpdir.join('data'))
    with contextlib.closing(DB(storage)) as db:
        yield db


def figures(db):
    """Return the number of commits, and of conflicts."""
    found = storage_status(db)['commits']
    return sum(count for _bound, count in found['latencies']), found['conflicts']


def test_each_commit_is_counted_once_with_its_duration(db):
    before = figures(db)[0]
    for number in range(5):
        with db.transaction() as connection:
            connection.root()['number'] = number
    assert before + 5 == figures(db)[0]
    assert all(bound in BOUNDS and bound < 20
               for bound, _count in storage_status(db)['commits']['latencies'])


def test_a_transaction_that_stores_nothing_is_no_commit(db):
    before = figures(db)
    with db.transaction() as connection:
        connection.root().get('number')
    manager = TransactionManager()
    connection = db.open(manager)
    connection.root()['number'] = 1
    manager.abort()
    connection.close()
    assert before == figures(db)


def test_a_conflict_is_counted_and_is_no_commit(db):
    before = figures(db)
    managers = [TransactionManager(), TransactionManager()]
    connections = [db.open(manager) for manager in managers]
    for number, connection in enumerate(connections):
        connection.root()['number'] = number
    managers[0].commit()
    with pytest.raises(ConflictError):
        managers[1].commit()
    managers[1].abort()
    for connection in connections:
        connection.close()
    assert (before[0] + 1, before[1] + 1) == figures(db)
