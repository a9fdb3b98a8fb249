"""A transaction that requires an object fails if somebody has changed it meanwhile."""
import contextlib

import pytest
import transaction
import ZODB
from persistent.list import PersistentList
from ZODB.FileStorage import FileStorage
from ZODB.POSException import ReadConflictError

from indico_zodbrepl.dataplane.uploads.database import Database


@pytest.fixture
def db(tmpdir):
    db = ZODB.DB(FileStorage(str(tmpdir.join('Data.fs'))))
    changed(db, lambda root: root.update(known=PersistentList(), mine=PersistentList()))
    yield db
    transaction.abort()
    db.close()


def changed(db, change):
    """Let another connection commit a change of the root."""
    manager = transaction.TransactionManager()
    with contextlib.closing(db.open(manager)) as connection:
        change(connection.root())
        manager.commit()


def never_loaded(root):
    pass


def loaded(root):
    assert not list(root['known'])


@pytest.mark.parametrize('before', [never_loaded, loaded])
def test_a_change_before_the_commit_is_a_conflict(db, before):
    database = Database(db, db.storage, True)
    before(database.root)
    database.require(database.root['known'])
    database.root['mine'].append(1)
    changed(db, lambda root: root['known'].append(1))
    with pytest.raises(ReadConflictError):
        transaction.commit()


@pytest.mark.parametrize('before', [never_loaded, loaded])
def test_a_change_before_the_transaction_is_none(db, before):
    database = Database(db, db.storage, True)
    before(database.root)
    changed(db, lambda root: root['known'].append(1))
    database.refresh()
    database.require(database.root['known'])
    database.root['mine'].append(1)
    transaction.commit()
    assert [1] == list(database.root['known'])
