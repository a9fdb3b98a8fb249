"""New records in a FileStorage's own format: nobody can tell them from stored ones."""
import os
from contextlib import closing

import pytest
import transaction
import ZODB
from persistent.mapping import PersistentMapping
from ZODB.FileStorage import FileStorage
from ZODB.scripts.fstest import check
from ZODB.utils import p64, u64

from bulkloader.bulk.datafs import DataFile, file_storage_of
from bulkloader.bulk.records import Records
from bulkloader.bulk.stencil import Stencil

LAST_OF_A_PREFIX = (1 << 16) - 1


@pytest.fixture
def path(tmpdir):
    return str(tmpdir.join('Data.fs'))


@pytest.fixture
def database(path):
    with closing(ZODB.DB(FileStorage(path))) as database:
        yield database


@pytest.fixture
def data_file(database):
    return DataFile(file_storage_of(database.storage))


def stamped(oids, text):
    """Returns records of a text and the object's own oid, as of one event."""
    return Stencil((), (), {}, [(text, number) for number in range(len(oids))]).stamp(oids, [])


def load(database, data_file, count, text='some data '):
    """Puts `count` new records into one transaction with a changed object.

    Returns {oid: record}.
    """
    with closing(database.open()) as connection:
        records = Records(connection, data_file)
        half = count // 2
        made = []
        for oids in records.new_oids(half), records.new_oids(half):
            records.add(stamped(oids, text))
            made.extend((oid, text + oid) for oid in oids)
        for number in range(count - 2 * half):
            made.append((records.add_one('one more'), 'one more'))
        root = connection.root()
        root['changed'] = root.get('changed', 0) + 1
        root['object'] = PersistentMapping()
        transaction.commit()
    return dict(made)


def assert_loaded(storage, made):
    assert made == dict((oid, storage.load(oid)[0]) for oid in made)


def without_index(path):
    os.remove(path + '.index')
    return closing(FileStorage(path, read_only=True))


def test_new_records_are_there_at_once_and_after_another_start(database, data_file, path):
    made = load(database, data_file, 2501)
    assert_loaded(database.storage, made)
    database.close()
    with closing(FileStorage(path, read_only=True)) as storage:
        assert storage._used_index
        assert_loaded(storage, made)


def test_the_index_is_the_one_that_the_file_has(database, data_file, path):
    file_storage_of(database.storage).set_max_oid(p64(LAST_OF_A_PREFIX - 700))
    for _ in range(3):
        load(database, data_file, 500)
    index = list(data_file._index.items())
    database.close()
    check(path)
    with without_index(path) as storage:
        assert index == list(storage._index.items())


def test_a_changed_object_keeps_its_earlier_records(database, data_file):
    load(database, data_file, 5)
    load(database, data_file, 5)
    storage = file_storage_of(database.storage)
    assert 3 == len(storage.history(p64(0), 10))    # with that of the new database


def test_an_aborted_transaction_leaves_nothing_behind(database, data_file, path):
    before = load(database, data_file, 5)
    with closing(database.open()) as connection:
        records = Records(connection, data_file)
        oids = records.new_oids(5)
        records.add(stamped(oids, 'aborted'))
        connection.root()['not for a pickle'] = lambda: None
        with pytest.raises(Exception):
            transaction.commit()
        transaction.abort()
    assert not any(oid in data_file._index for oid in oids)
    after = load(database, data_file, 5, 'later ')
    assert not set(oids) & set(after)
    assert_loaded(database.storage, before)
    assert_loaded(database.storage, after)
    database.close()
    check(path)


def test_oids_are_not_given_out_twice(database, data_file):
    reserved = data_file.reserve(300)
    assert database.storage.new_oid() > reserved[-1]
    assert data_file.reserve(1)[0] > reserved[-1]


def test_other_storages_and_read_only_files_have_no_data_file(database, path):
    database.close()
    with closing(FileStorage(path, read_only=True)) as storage:
        assert file_storage_of(storage) is None
    with closing(ZODB.DB(None)) as other:
        assert file_storage_of(other.storage) is None
