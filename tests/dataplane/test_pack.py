"""The program that packs a storage."""
import errno
import json
import os
import subprocess
import sys
import time

import pytest
import ZODB
from ZODB.FileStorage import FileStorage
from ZODB.serialize import referencesf

from indico_zodbrepl.dataplane.datafs import synced_pack

PROGRAM = (sys.executable, '-m', 'indico_zodbrepl.dataplane.programs.pack')


@pytest.fixture
def data_fs(tmpdir):
    """A Data.fs with ten revisions of its root, and a zodb.conf beside it."""
    path = tmpdir.join('Data.fs')
    db = ZODB.DB(FileStorage(str(path)))
    with db.transaction() as connection:
        connection.root()['number'] = 0
    for number in range(1, 10):
        with db.transaction() as connection:
            connection.root()['number'] = number
    db.close()
    tmpdir.join('zodb.conf').write('<filestorage>\n  path %s\n</filestorage>\n' % path)
    return path


def run(data_fs, days):
    process = subprocess.Popen(PROGRAM + (data_fs.dirpath('zodb.conf').strpath, '--days', days),
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    output, errors = process.communicate()
    return process.returncode, output, errors


def revisions(data_fs):
    storage = FileStorage(str(data_fs), read_only=True)
    try:
        return len(storage.history(b'\0' * 8, size=100))
    finally:
        storage.close()


def test_old_revisions_are_gone_and_the_sizes_are_reported(data_fs):
    before = data_fs.size()
    code, output, errors = run(data_fs, '0')
    assert (0, '') == (code, errors)
    told = json.loads(output)
    assert (before, data_fs.size()) == (told['before'], told['after'])
    assert told['after'] < before
    assert 1 == revisions(data_fs)


def test_what_is_newer_than_the_days_is_kept(data_fs):
    before = revisions(data_fs)
    assert 0 == run(data_fs, '1')[0]
    assert before == revisions(data_fs) > 9


def commit(storage, number):
    db = ZODB.DB(storage)
    with db.transaction() as connection:
        connection.root()['number'] = number


@pytest.mark.parametrize('step', [synced_pack.STEP, 1], ids=['at the end', 'often'])
def test_a_packed_file_is_on_disk_before_it_takes_the_place_of_the_old_one(
        data_fs, step, monkeypatch):
    events = []
    fsync, rename = os.fsync, os.rename

    def synced(number):
        events.append(('synced', os.readlink('/proc/self/fd/%d' % number), os.fstat(number).st_size))
        fsync(number)

    def renamed(old, new):
        events.append(('renamed', old, os.stat(old).st_size))
        rename(old, new)
    storage = FileStorage(str(data_fs), packer=synced_pack.pack)
    middle = time.time()
    commit(storage, 'later')
    monkeypatch.setattr(os, 'fsync', synced)
    monkeypatch.setattr(os, 'rename', renamed)
    monkeypatch.setattr(synced_pack, 'STEP', step)
    storage.pack(middle, referencesf)
    new = str(data_fs) + '.pack'
    kind, _, size = next(event for event in events if event[:2] == ('renamed', new))
    assert ('synced', new, size) in events[:events.index((kind, new, size))]
    commit(storage, 'after')
    storage.close()


def test_a_pack_that_cannot_be_written_to_disk_changes_nothing(data_fs, monkeypatch):
    storage = FileStorage(str(data_fs), packer=synced_pack.pack)
    before = data_fs.read('rb')

    def fail(path):
        raise EnvironmentError(errno.EIO, os.strerror(errno.EIO), path)
    with monkeypatch.context() as patch:
        patch.setattr(synced_pack.disk, 'sync_file', fail)
        with pytest.raises(EnvironmentError):
            storage.pack(time.time(), referencesf)
    assert before == data_fs.read('rb')
    assert not os.path.exists(str(data_fs) + '.pack')
    commit(storage, 'after')  # the commit lock is free
    storage.close()


@pytest.mark.parametrize('conf', [
    '<filestorage>\n  path %s\n</filestorage>\n',
    '%%import indico_zodbrepl.dataplane\n<indicostorage>\n  <filestorage>\n    path %s\n'
    '  </filestorage>\n</indicostorage>\n'], ids=['plain', 'wrapped'])
def test_a_storage_that_another_process_has_open_is_refused(data_fs, conf):
    data_fs.dirpath('zodb.conf').write(conf % data_fs)
    storage = FileStorage(str(data_fs))
    try:
        code, output, errors = run(data_fs, '0')
    finally:
        storage.close()
    assert (8, '') == (code, output)
    assert errors.startswith('another process has it open: ')
    assert 1 == len(errors.splitlines())


def test_a_server_that_is_away_is_one_line(tmpdir):
    conf = tmpdir.join('zodb.conf')
    conf.write('%import ZEO\n<clientstorage>\n  server 127.0.0.1:1\n  wait-timeout 1\n'
               '</clientstorage>\n')
    code, _, errors = run(tmpdir.join('Data.fs'), '0')
    assert 6 == code
    assert errors.startswith('the storage is away: ')
    assert 1 == len(errors.splitlines())
