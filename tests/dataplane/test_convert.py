"""A database is the same in every storage, with its history, as far as the storage keeps one."""
import collections
import contextlib
import sqlite3

import pytest
import transaction
import ZODB
from persistent.mapping import PersistentMapping
from ZODB.FileStorage import FileStorage
from ZODB.FileStorage.FileStorage import FileIterator

from conversions import (
    convert,
    history,
    objects,
    sqlite_conf,
    transactions,
    undo_pointers,
)
from data_files import Site
from indico_zodbrepl.dataplane.convert import copying, storages
from indico_zodbrepl.dataplane.convert.failures import OtherData
from indico_zodbrepl.dataplane.convert.storages import open_conf


@pytest.fixture
def site(tmpdir):
    return history(tmpdir.join('Data.fs'))


@pytest.fixture
def sqlite(tmpdir):
    return sqlite_conf(tmpdir.mkdir('sqlite'))


@pytest.fixture
def history_free(tmpdir):
    return sqlite_conf(tmpdir.mkdir('history-free'), keep_history=False)


def oids(site):
    return {oid for each in transactions(site.path) for oid, _data in each[-1]}


@contextlib.contextmanager
def database(path):
    storage = FileStorage(str(path)) if str(path).endswith('.fs') else open_conf(str(path))
    opened = ZODB.DB(storage)
    try:
        yield opened
    finally:
        opened.close()


def test_the_history_is_the_same_in_relstorage_and_back_in_a_data_file(site, sqlite, tmpdir):
    back = tmpdir.mkdir('back').join('Data.fs')
    answer = convert(site.path, sqlite)
    assert transactions(site.path) == transactions(sqlite)
    assert len(site.tids()) == answer['copied']
    assert site.tids()[-1].encode('hex') == answer['last']

    convert(sqlite, back)
    assert transactions(site.path) == transactions(back)
    assert {'Data.fs', 'Data.fs.index', 'Data.fs.lock'} == set(
        each.basename for each in back.dirpath().listdir())


def test_a_data_file_keeps_where_an_undo_took_its_data_from(site, sqlite, tmpdir):
    copied = tmpdir.join('copied.fs')
    pointers = undo_pointers(site.path)
    assert 3 <= len([each for each in pointers if each is not None])
    assert 0 == convert(site.path, copied)['lost']['undo_pointers']
    assert pointers == undo_pointers(copied)

    lost = convert(site.path, sqlite)['lost']['undo_pointers']
    assert len([each for each in pointers if each is not None]) == lost


def test_the_records_of_one_object_in_one_transaction_become_one(site):
    with contextlib.closing(FileIterator(site.path)) as found:
        raw = [[record.oid for record in each] for each in found]
    assert any(len(set(oids)) < len(oids) for oids in raw)
    assert [sorted(set(oids)) for oids in raw] == [
        [oid for oid, _data in each[-1]] for each in transactions(site.path)]


@pytest.mark.parametrize('kind', ['sqlite', 'history_free', 'file'])
def test_the_copy_is_worked_with_like_any_other(site, kind, request, tmpdir):
    target = (tmpdir.join('copied.fs') if kind == 'file'
              else request.getfixturevalue(kind))
    last = site.commit(u'last', text=u'before')[-1]
    site.commit(u'last', text=u'after')
    convert(site.path, target)
    highest = max(oids(site))
    with database(target) as opened:
        manager = transaction.TransactionManager()
        connection = opened.open(manager)
        root = connection.root()
        root[u'new'] = PersistentMapping()
        manager.commit()
        assert root[u'new']._p_oid > highest
        assert root[u'last'][u'text'] == u'after'
        assert root[u'new']._p_serial > last
        if kind != 'history_free':
            opened.undo(opened.undoLog(1, 2)[0]['id'], manager.get())
            manager.commit()
            connection.sync()
            assert root[u'last'][u'text'] == u'before'
        connection.close()


def test_without_history_the_current_objects_are_kept_and_the_rest_is_counted(
        site, history_free):
    answer = convert(site.path, history_free)
    with contextlib.closing(FileStorage(site.path, read_only=True)) as mine, \
            contextlib.closing(open_conf(str(history_free))) as theirs:
        found = objects(mine, oids(site))
        assert found == objects(theirs, oids(site))
        assert len(found) == answer['records'] < len(oids(site))
    all_records = sum(len(each[-1]) for each in transactions(site.path))
    assert all_records - answer['records'] == answer['lost']['records']
    assert len(site.tids()) - answer['copied'] == answer['lost']['transactions'] > 0


def test_a_packed_history_stays_marked_as_packed(site, sqlite, tmpdir):
    site.pack(site.tids()[-3])
    assert 'p' in {each[1] for each in transactions(site.path)}
    convert(site.path, sqlite)
    convert(sqlite, tmpdir.join('back.fs'))
    assert transactions(site.path) == transactions(sqlite)
    assert transactions(site.path) == transactions(tmpdir.join('back.fs'))


def test_what_has_no_history_becomes_a_data_file_that_can_be_read(site, history_free, tmpdir):
    back = tmpdir.join('back.fs')
    convert(site.path, history_free)
    convert(history_free, back)
    with contextlib.closing(FileStorage(site.path, read_only=True)) as mine, \
            contextlib.closing(FileStorage(str(back), read_only=True)) as theirs:
        assert objects(mine, oids(site)) == objects(theirs, oids(site))


@pytest.mark.parametrize('kind', ['sqlite', 'history_free', 'file'])
def test_what_came_later_is_added_to_an_earlier_copy(site, kind, request, tmpdir):
    target = (tmpdir.join('copied.fs') if kind == 'file'
              else request.getfixturevalue(kind))
    earlier = site.copy_to(tmpdir.join('earlier.fs'))
    site.commit(u'later')
    convert(earlier.path, target)
    if kind == 'history_free':
        with pytest.raises(OtherData):
            convert(site.path, target)
        return
    answer = convert(site.path, target)
    assert (len(earlier.tids()), 1) == (answer['held'], answer['copied'])
    assert transactions(site.path) == transactions(target)
    assert 0 == convert(site.path, target)['copied']


def test_an_empty_database_is_converted_too(tmpdir, sqlite):
    empty = tmpdir.join('empty.fs')
    FileStorage(str(empty)).close()
    assert None is convert(empty, sqlite)['last']
    assert None is convert(sqlite, tmpdir.join('back.fs'))['last']


def test_what_a_server_left_unfinished_is_left_out_and_reported(site, sqlite):
    whole = transactions(site.path)
    with open(site.path, 'ab') as opened:
        opened.write(b'\x04\x00\x00\x00\x00\x00')
    assert 6 == convert(site.path, sqlite)['unfinished']
    assert whole == transactions(sqlite)


def test_progress_tells_each_stage_to_its_end(site, history_free, monkeypatch):
    monkeypatch.setattr(copying, 'REPORT_EACH', 0)
    told = []
    convert(site.path, history_free, told.append)
    assert ['survey', 'copy', 'verify'] == list(collections.OrderedDict.fromkeys(
        each['stage'] for each in told))
    copied = [each for each in told if each['stage'] == 'copy']
    assert sorted(each['fraction'] for each in copied) == [each['fraction'] for each in copied]
    assert (1.0, len(site.tids())) == (copied[-1]['fraction'], copied[-1]['transactions'])


def test_large_records_and_many_objects_in_one_transaction_come_whole(tmpdir, sqlite):
    big = Site(tmpdir.join('big.fs'))
    big.commit(*[u'object %d' % number for number in range(3)], text=u'x' * (3 << 20))
    convert(big.path, sqlite)
    assert transactions(big.path) == transactions(sqlite)


@pytest.mark.parametrize('kind', ['sqlite', 'history_free', 'file'])
def test_a_target_that_was_founded_and_never_used_is_filled(site, kind, request, tmpdir):
    target = (tmpdir.join('copied.fs') if kind == 'file'
              else request.getfixturevalue(kind))
    with database(target):
        pass
    assert 1 == len(transactions(target))
    assert 0 == convert(site.path, target)['held']
    assert site.tids()[-1] == transactions(target)[-1][0]


def test_a_target_whose_root_holds_something_is_not_emptied(site, sqlite):
    with database(sqlite) as opened:
        manager = transaction.TransactionManager()
        connection = opened.open(manager)
        connection.root()[u'mine'] = 1
        manager.commit()
        connection.close()
    before = transactions(sqlite)
    with pytest.raises(OtherData):
        convert(site.path, sqlite)
    assert before == transactions(sqlite)


def test_figures_of_an_empty_sqlite_do_not_make_it_read_all_records_each_time(
        site, sqlite, monkeypatch):
    with database(sqlite):
        pass
    data = str(sqlite.dirpath('data', 'main.sqlite3'))

    def figures():
        with contextlib.closing(sqlite3.connect(data)) as opened:
            return dict(opened.execute('SELECT idx, stat FROM sqlite_stat1'))

    with contextlib.closing(sqlite3.connect(data)) as opened:
        opened.execute('ANALYZE')
    assert figures()['object_state_tid'].startswith('1 ')
    analyze = storages.RelStorageTarget._analyze
    seen = []

    def looked_at(self):
        seen.append(figures())
        analyze(self)

    monkeypatch.setattr(storages.RelStorageTarget, '_analyze', looked_at)
    answer = convert(site.path, sqlite)
    assert [{}] == seen
    assert figures()['object_state_tid'].startswith('%d ' % answer['records'])
