"""What one of two RelStorages has alone, exported; on SQLite, which needs no server."""
import contextlib
import json
import shutil
import sqlite3

import pytest
import transaction
import ZODB.config
from persistent.mapping import PersistentMapping
from ZODB.blob import Blob
from ZODB.DB import DB
from ZODB.FileStorage import FileStorage
from ZODB.utils import u64

from indico_zodbrepl.dataplane.convert import blobs
from indico_zodbrepl.dataplane.programs import relstorage_export

CONF = '''\
%%import relstorage
<relstorage>
  keep-history %s
  <sqlite3>
    data-dir %s
  </sqlite3>
</relstorage>
'''


class Pair(object):
    """A database and the copy of it that went on by itself."""

    def __init__(self, folder, history):
        self.folder = folder
        self.confs = {}
        for name in ('own', 'other'):
            folder.join(name + '.conf').write(CONF % (history, folder.join(name).strpath))
        folder.join('own').mkdir()
        self.commit('own', 'common', 1)
        self.commit('own', 'kept', 2)
        shutil.copytree(folder.join('own').strpath, folder.join('other').strpath)

    def conf(self, name):
        return self.folder.join(name + '.conf').strpath

    def commit(self, name, key, value):
        """Changes an object of its own below the root, or makes it."""
        with contextlib.closing(DB(ZODB.config.storageFromURL(self.conf(name)))) as db:
            with contextlib.closing(db.open()) as connection:
                connection.root().setdefault(key, PersistentMapping())['is'] = value
                transaction.get().user = u'anne'
                transaction.get().note(u'%s %s' % (key, value))
                transaction.commit()

    def newest(self, name):
        with contextlib.closing(ZODB.config.storageFromURL(self.conf(name))) as storage:
            return u64(storage.lastTransaction())

    def retime(self, name, tid):
        """Give the newest transaction another tid."""
        old = self.newest(name)
        path = self.folder.join(name, 'main.sqlite3').strpath
        with contextlib.closing(sqlite3.connect(path)) as database:
            tables = [row[0] for row in database.execute(
                "SELECT name FROM sqlite_master WHERE type = 'table'")]
            for table in tables:
                columns = [row[1] for row in database.execute('PRAGMA table_info("%s")' % table)]
                if 'tid' in columns:
                    database.execute('UPDATE "%s" SET tid = ? WHERE tid = ?' % table, (tid, old))
            database.commit()

    def export(self, capsys, status=0):
        folder = self.folder.join('tail')
        assert status == relstorage_export.main([self.conf('own'), self.conf('other'),
                                           folder.strpath, '--named', '/data of/own'])
        said, errors = capsys.readouterr()
        return json.loads(said) if status == 0 else errors


@pytest.fixture(params=['true', 'false'], ids=['with-history', 'without'])
def history(request):
    return request.param


@pytest.fixture
def pair(tmpdir, history):
    return Pair(tmpdir, history)


def listed(pair):
    return json.loads(pair.folder.join('tail', 'tail.json').read())


def test_nothing_is_exported_of_what_the_other_has(pair, capsys):
    pair.commit('other', 'common', 3)
    assert 0 == pair.export(capsys)['transactions']
    assert not pair.folder.join('tail').exists()


def test_what_only_one_has_is_a_data_fs_that_opens_and_a_list(pair, history, capsys):
    pair.commit('own', 'lost', 3)
    pair.commit('own', 'common', 4)
    pair.commit('other', 'kept', 5)
    told = pair.export(capsys)
    tail = listed(pair)
    kept = history == 'true'
    assert (2, kept, 0) == (told['transactions'], told['history'], told['perhaps'])
    assert '/data of/own' == tail['file']
    assert tail['after'] == told['common']
    last = tail['transactions'][-1]
    assert ((u'anne', u'common 4') if kept else ('', '')) == (last['user'], last['description'])
    assert [['changed', 'new'], ['changed']] == [
        sorted(each['change'] for each in row['objects']) for row in tail['transactions']]
    assert {u'persistent.mapping.PersistentMapping'} == set(
        each['class'] for row in tail['transactions'] for each in row['objects'])
    with contextlib.closing(FileStorage(pair.folder.join('tail', 'tail.fs').strpath,
                                        read_only=True)) as storage:
        assert [each['tid'] for each in tail['transactions']] == [
            each.tid.encode('hex') for each in storage.iterator()]


@pytest.fixture(params=['true', 'false'], ids=['in-files', 'in-the-database'])
def uploads(tmpdir, history, request):
    """A pair of which one has two blobs that the other lacks."""
    made = Pair(tmpdir, history)
    for name in ('own', 'other'):
        conf = tmpdir.join(name + '.conf')
        conf.write(conf.read().replace('  <sqlite3>', (
            '  blob-dir %s\n  shared-blob-dir %s\n  <sqlite3>' % (
                tmpdir.join(name + '-blobs'), request.param)), 1))
    with contextlib.closing(DB(ZODB.config.storageFromURL(made.conf('own')))) as db:
        with contextlib.closing(db.open()) as connection:
            connection.root()['upload'] = Blob(b'a talk')
            connection.root()['empty'] = Blob(b'')
            transaction.commit()
    return made


def test_blobs_of_what_only_one_has_are_exported(uploads, capsys):
    told = uploads.export(capsys)
    files = [each['blob'] for row in listed(uploads)['transactions'] for each in row['objects']
             if 'blob' in each]

    assert (1, 2, 0) == (told['transactions'], told['blobs'], told['missing_blobs'])
    assert {b'a talk', b''} == {uploads.folder.join('tail', each).read('rb') for each in files}


def test_blobs_whose_content_is_missing_are_counted(uploads, capsys, monkeypatch):
    for kind in (blobs.InFolder, blobs.InDatabase):
        monkeypatch.setattr(kind, 'has', lambda self, oid, tid: False)
    told = uploads.export(capsys)

    assert (0, 2) == (told['blobs'], told['missing_blobs'])


def test_without_history_what_the_other_changed_since_may_have_been_there(tmpdir, capsys):
    pair = Pair(tmpdir, 'false')
    pair.commit('own', 'common', 3)
    pair.commit('own', 'lost', 4)
    pair.commit('other', 'common', 5)
    told = pair.export(capsys)
    assert (2, 1) == (told['transactions'], told['perhaps'])


def test_nothing_else_is_left_beside_an_export(pair, capsys):
    pair.commit('own', 'lost', 3)
    before = set(pair.folder.listdir())
    pair.export(capsys)
    assert {pair.folder.join('tail')} == set(pair.folder.listdir()) - before


def test_another_transaction_of_the_same_tid_is_not_common(pair, capsys):
    pair.commit('own', 'lost', 3)
    pair.commit('other', 'kept', 4)
    pair.retime('other', pair.newest('own'))
    pair.commit('own', 'common', 5)
    told = pair.export(capsys)
    assert 2 == told['transactions'] == len(listed(pair)['transactions'])
    assert {'new', 'changed'} == set(
        each['change'] for row in listed(pair)['transactions'] for each in row['objects'])


def test_databases_that_have_nothing_in_common_are_exported_whole(tmpdir, history, capsys):
    pair = Pair(tmpdir, history)
    shutil.rmtree(tmpdir.join('other').strpath)
    tmpdir.join('other').mkdir()
    pair.commit('other', 'another', 1)
    told = pair.export(capsys)
    assert (None, '0' * 16) == (told['common'], told['after'])
    assert told['transactions'] == len(listed(pair)['transactions']) > 0


@pytest.mark.parametrize(('name', 'status'), [('own', 3), ('other', 4)])
def test_who_can_not_be_read_is_reported(pair, name, status, capsys):
    shutil.rmtree(pair.folder.join(name).strpath)
    pair.folder.join(name).write('no folder')
    assert pair.export(capsys, status)


def test_a_common_transaction_with_another_content_is_reported(tmpdir, capsys):
    pair = Pair(tmpdir, 'true')
    with contextlib.closing(sqlite3.connect(
            tmpdir.join('other', 'main.sqlite3').strpath)) as database:
        database.execute('UPDATE "transaction" SET description = ?', (buffer(b'altered'),))
        database.commit()
    assert 'differs: the description' in pair.export(capsys, 7)
