"""The way back: a Data.fs that ZODB 3.10 can read, with nothing lost.

ZODB 3.10 is not installed here; it reads records with Python's own cPickle.
"""
import cPickle
import cStringIO
import json
import os
import pickletools

import persistent.mapping
import pytest
import transaction
import zc.lockfile
import ZODB
import ZODB.blob
import ZODB.FileStorage
from BTrees.OOBTree import OOBTree
from zodbpickle import binary

from forks import forker
from indico_zodbrepl.dataplane.programs import downgrade

LONG = 300  # bytes; longer than what a one-byte length can say


@pytest.fixture
def source(tmpdir):
    """Path of a Data.fs with what ZODB 5 can write: references, undo, extension data."""
    path = tmpdir.join('Data.fs')
    database = ZODB.DB(str(path))
    with database.transaction(u'first \xe9') as connection:
        root = connection.root()
        root['tree'] = OOBTree(dict((str(n), persistent.mapping.PersistentMapping(n=n))
                                    for n in range(100)))
        root['short'] = binary(b'\x80\x03BC')
        root['long'] = binary(b'x' * LONG)
        root['text'] = u'\u20ac'
    commit(database, 'changed', 1, user=u'somebody', extension={'why': binary(b'a test')})
    commit(database, 'changed', 2)
    database.undo(database.undoLog(0, 1)[0]['id'])
    transaction.commit()
    commit(database, 'made', persistent.mapping.PersistentMapping())
    database.undo(database.undoLog(0, 1)[0]['id'])
    transaction.commit()
    database.close()
    return path


def commit(database, key, value, user=None, extension=None):
    manager = transaction.TransactionManager()
    connection = database.open(manager)
    connection.root()[key] = value
    if user:
        manager.get().user = user
    for name, each in (extension or {}).items():
        manager.get().setExtendedInfo(name, each)
    manager.commit()
    connection.close()


def run(*paths):
    """Runs the command; returns exit status, standard output, standard error."""
    return forker('server').run(
        ('-m', 'indico_zodbrepl.dataplane.programs.downgrade') + paths, dict(os.environ))


def contents(path):
    """Returns [(tid, status, user, description, extension, [(oid, tid, data, data_txn)])]."""
    storage = ZODB.FileStorage.FileStorage(str(path), read_only=True)
    try:
        return [(each.tid, each.status, each.user, each.description, each.extension_bytes,
                 [(record.oid, record.tid, record.data, record.data_txn) for record in each])
                for each in storage.iterator()]
    finally:
        storage.close()


def load_all(path):
    """Returns what a database holds, as plain values."""
    database = ZODB.DB(ZODB.FileStorage.FileStorage(str(path), read_only=True))
    try:
        root = database.open().root()
        return dict((key, dict((k, dict(v)) for k, v in value.items())
                     if key == 'tree' else value) for key, value in root.items())
    finally:
        database.close()


def opcodes(data):
    stream = cStringIO.StringIO(data)
    while stream.tell() < len(data):
        for opcode, argument, _ in pickletools.genops(stream):
            yield opcode, argument


def test_what_zodb_5_writes_cannot_be_read_by_zodb_3_10(source):
    """Which is why the converter is there."""
    records = [data for each in contents(source) for _, _, data, _ in each[5] if data]
    with pytest.raises(ValueError, match='unsupported pickle protocol: 3'):
        cPickle.loads(records[0])


def test_each_record_is_of_protocol_2_and_of_the_same_length(source, tmpdir):
    target = tmpdir.join('old.fs')
    status, output, error = run(source, target)
    assert 0 == status, error
    for each in contents(target):
        for data in [each[4]] + [record[2] for record in each[5]]:
            for opcode, argument in opcodes(data or ''):
                assert opcode.proto <= 2
                assert opcode.name != 'PROTO' or argument <= 2
    assert source.size() == target.size()
    before, after = contents(source), contents(target)
    assert json.loads(output) == {
        'transactions': len(before),
        'records': sum(len(each[5]) for each in before),
        'converted': sum(record != other for each, twin in zip(before, after)
                         for record, other in zip(each[5], twin[5]))}


def test_transactions_keep_tids_users_descriptions_and_undo(source, tmpdir):
    target = tmpdir.join('old.fs')
    run(source, target)

    def skeleton(path):
        return [each[:4] + ([(oid, tid, data and len(data), data_txn)
                             for oid, tid, data, data_txn in each[5]],)
                for each in contents(path)]
    assert skeleton(source) == skeleton(target)
    users = [each[2] for each in contents(target)]
    assert any('somebody' in user for user in users)
    assert any(record[3] for each in contents(target) for record in each[5]), 'an undo is in it'
    assert any(record[2] is None for each in contents(target) for record in each[5])
    extension, = [each[4] for each in contents(target) if each[4]][:1]
    assert {'why': 'a test'} == cPickle.loads(extension)


def test_the_copy_holds_the_same_objects(source, tmpdir):
    target = tmpdir.join('old.fs')
    run(source, target)
    found = load_all(target)
    assert load_all(source) == found
    assert (1, 'x' * LONG, '\x80\x03BC') == (found['changed'], found['long'], found['short'])


def test_records_of_the_old_software_are_not_touched(source, tmpdir):
    once, twice = tmpdir.join('once.fs'), tmpdir.join('twice.fs')
    run(source, once)
    status, output, error = run(once, twice)
    assert 0 == status, error
    assert 0 == json.loads(output)['converted']
    assert once.computehash() == twice.computehash()


def test_a_packed_file_is_copied(source, tmpdir):
    database = ZODB.DB(str(source))
    database.pack()
    database.close()
    target = tmpdir.join('old.fs')
    assert 0 == run(source, target)[0]
    assert load_all(source) == load_all(target)
    assert [each[1] for each in contents(source)] == [each[1] for each in contents(target)]


def test_nothing_is_left_beside_the_copy_but_the_copy(source, tmpdir):
    """Its index would be a pickle of protocol 3."""
    target = tmpdir.mkdir('new').join('Data.fs')
    run(source, target)
    assert ['Data.fs'] == os.listdir(target.dirname)


def test_an_existing_target_is_refused(source, tmpdir):
    target = tmpdir.join('old.fs')
    target.write('precious')
    status, output, error = run(source, target)
    assert (1, '') == (status, output)
    assert 'exists already' in error
    assert 'precious' == target.read()


def test_a_source_that_a_server_has_open_is_refused(source, tmpdir):
    target = tmpdir.join('old.fs')
    lock = zc.lockfile.LockFile(str(source) + '.lock')
    try:
        status, output, error = run(source, target)
    finally:
        lock.close()
    assert (3, '') == (status, output)
    assert 'in use; stop the server first' in error
    assert not target.check()


def test_a_source_that_is_missing_or_no_data_fs_is_refused(tmpdir):
    target = tmpdir.join('old.fs')
    text = tmpdir.join('text')
    text.write('no database')
    for path in (tmpdir.join('nothing'), text):
        status, output, error = run(path, target)
        assert (1, '') == (status, output)
        assert str(path) in error
    assert not tmpdir.join('nothing').check()
    assert not target.check()


def test_a_record_that_cannot_be_read_is_named_and_no_copy_stays(source, tmpdir, monkeypatch):
    monkeypatch.setattr(downgrade, 'older_pickles', lambda data: data)
    target = tmpdir.join('old.fs')
    with pytest.raises(downgrade.Refused, match='unsupported pickle protocol: 3'):
        downgrade.downgrade(str(source), str(target), lambda line: None)
    assert [] == [each for each in os.listdir(str(tmpdir)) if each.startswith('old.fs')]


def test_a_database_with_blobs_is_refused(tmpdir):
    path = tmpdir.join('Data.fs')
    database = ZODB.DB(ZODB.FileStorage.FileStorage(
        str(path), blob_dir=str(tmpdir.join('blobs'))))
    with database.transaction() as connection:
        connection.root()['blob'] = ZODB.blob.Blob(b'content')
    database.close()
    status, _, error = run(path, tmpdir.join('old.fs'))
    assert 1 == status
    assert 'holds uploaded files' in error
    assert 'files export' in error
    assert not tmpdir.join('old.fs').check()
