"""The program that writes and reads records, through a storage that compresses or not."""
import marshal
import os

import pytest
import transaction
import ZODB.config
from persistent.mapping import PersistentMapping
from ZODB.DB import DB
from ZODB.FileStorage import FileIterator, FileStorage

from bench_programs import answered, configured
from indico_zodbrepl.dataplane.benchmarks.compression import sample

PLAIN = '''\
%%import indico_zodbrepl.dataplane
<indicostorage>
  <filestorage>
    path %s
  </filestorage>
</indicostorage>
'''
COMPRESSING = '''\
%%import indico_zodbrepl.dataplane
%%import zc.zlibstorage
<zlibstorage>
  <indicostorage>
    <filestorage>
      path %s
    </filestorage>
  </indicostorage>
</zlibstorage>
'''


@pytest.fixture(scope='module')
def data_fs(tmpdir_factory):
    """Path of a data file with records that can be compressed."""
    path = str(tmpdir_factory.mktemp('source').join('Data.fs'))
    db = DB(FileStorage(path))
    root = db.open().root()
    for number in range(30):
        root[number] = PersistentMapping(text='conference %d ' % number * 50)
    transaction.commit()
    db.close()
    return path


@pytest.fixture
def records(data_fs, tmpdir):
    path = tmpdir.join('records')
    answered('compression', 'sample', data_fs, path)
    return path


def test_records_are_those_of_the_file_in_the_same_order_each_time(data_fs):
    taken = sample(FileIterator(data_fs))
    assert 32 == len(taken)  # with the root, before and after
    assert any('conference 7 ' in data for data in taken)
    assert taken == sample(FileIterator(data_fs))
    assert taken[:5] == sample(FileIterator(data_fs), 5)


def test_a_file_that_another_process_has_open_can_be_sampled(data_fs, tmpdir):
    opened = FileStorage(data_fs)
    try:
        assert 32 == answered('compression', 'sample', data_fs, tmpdir.join('records'))['records']
    finally:
        opened.close()


def test_a_storage_that_is_opened_can_be_sampled(data_fs, tmpdir):
    conf = configured(tmpdir, PLAIN % data_fs)
    assert 32 == answered('compression', 'sample', conf, tmpdir.join('records'))['records']


@pytest.mark.parametrize('configuration', [PLAIN, COMPRESSING])
def test_what_was_written_is_read_again_with_all_its_bytes(configuration, records, tmpdir):
    conf, written = configured(tmpdir, configuration % tmpdir.join('own.fs')), tmpdir.join('ids')
    wrote = answered('compression', 'write', conf, records, written, 0.2)
    read = answered('compression', 'read', conf, written, 60)
    assert wrote['records'] == read['records'] == 10 * wrote['operations']
    assert wrote['pickle_bytes'] == read['pickle_bytes']


def test_compressed_records_are_smaller_on_disk_and_the_same_when_loaded(records, tmpdir):
    sizes = {}
    for name, configuration in (('plain', PLAIN), ('compressing', COMPRESSING)):
        data = tmpdir.join(name + '.fs')
        conf, written = configured(tmpdir, configuration % data), tmpdir.join(name)
        wrote = answered('compression', 'write', conf, records, written, 0.2)
        assert (wrote['stored_bytes'] < wrote['pickle_bytes']) == (name == 'compressing')
        sizes[name] = os.path.getsize(str(data)) / float(wrote['pickle_bytes'])
        storage = ZODB.config.storageFromURL(conf)
        try:
            first = marshal.loads(written.read('rb'))[0]
            assert marshal.loads(records.read('rb'))[0] == storage.load(first)[0]
        finally:
            storage.close()
    assert sizes['compressing'] < 0.5 * sizes['plain']
