"""The cache of blobs of a ZEO client: what it gives is what the server has."""
import errno
import itertools
import os
import threading
import time

import pytest
import transaction
import ZODB.blob
from transaction import TransactionManager
from ZEO.ClientStorage import ClientStorage
from ZODB.blob import Blob, FilesystemHelper
from ZODB.DB import DB
from ZODB.POSException import ConflictError, POSKeyError

from indico_zodbrepl.dataplane.client import blob_cache
from processes import FORKED
from zeo_servers import ZEOServer, open_client

CONTENT = os.urandom(300000)
SERVER = '''\
<zeo>
  address 127.0.0.1:%d
</zeo>
<filestorage 1>
  path %s
  blob-dir %s
</filestorage>
'''


class BlobServer(ZEOServer):
    """A ZEO server with blobs."""

    def start(self, read_only=False):
        config = self.folder.join('zeo.conf')
        config.write(SERVER % (self.port, self.data, self.folder.join('blobs')))
        self.process = self._processes.start(
            [FORKED, '-m', 'ZEO.runzeo', '-C', str(config)], name='zeo', port=self.port)


@pytest.fixture
def server(processes, tmpdir):
    server = BlobServer(processes, tmpdir.join('server'))
    server.start()
    return server


@pytest.fixture
def opened(server, tmpdir):
    """Opens databases, each with a cache of the given name, and closes them."""
    databases = []

    def database(cache):
        databases.append(DB(open_client([server], blob_dir=str(tmpdir.join(cache)))))
        return databases[-1]
    yield database
    for each in databases:
        each.close()


def save(db, content):
    """Saves a blob under `file`; returns the path of its content in the cache."""
    connection = db.open()
    connection.root()['file'] = blob = Blob()
    connection.add(blob)
    with blob.open('w') as target:
        target.write(content)
    transaction.commit()
    path = blob.committed()
    connection.close()
    return path


def test_what_a_killed_process_had_received_is_not_taken_for_the_beginning(opened, tmpdir):
    path = save(opened('writer'), CONTENT)
    other = opened('reader')
    partial = tmpdir.join('reader', os.path.relpath(path, str(tmpdir.join('writer'))) + '.dl')
    partial.write_binary(b'half', ensure=True)
    connection = other.open()
    with connection.root()['file'].open() as source:
        assert CONTENT == source.read()
    assert not partial.exists()


def test_content_of_which_a_part_did_not_fit_on_the_disk_is_not_kept(opened, monkeypatch):
    save(opened('writer'), CONTENT)
    receive, received = ClientStorage.receiveBlobChunk, []

    def full_at_the_second_chunk(*args):
        received.append(args)
        if len(received) == 2:
            raise IOError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        receive(*args)
    monkeypatch.setattr(ClientStorage, 'receiveBlobChunk', full_at_the_second_chunk)
    blob = opened('reader').open().root()['file']
    with pytest.raises(POSKeyError):
        blob.open()
    with blob.open() as source:
        assert CONTENT == source.read()


def test_a_cache_that_somebody_removed_is_made_anew(opened, tmpdir):
    db, cache = opened('cache'), tmpdir.join('cache')
    layout = cache.join('.layout').read()
    cache.remove()
    save(db, CONTENT)
    assert layout == cache.join('.layout').read()
    cache.remove()
    with db.open().root()['file'].open() as source:
        assert CONTENT == source.read()


def test_processes_that_start_at_once_share_a_new_cache(tmpdir, monkeypatch):
    """The workers of an Indico that was just installed, for example."""
    makedirs = os.makedirs

    def slowly(path, *mode):
        time.sleep(0.2)
        makedirs(path, *mode)

    monkeypatch.setattr(os, 'makedirs', slowly)
    monkeypatch.setattr(FilesystemHelper, 'create', FilesystemHelper.create)
    blob_cache.install()
    failures = []

    def create():
        try:
            FilesystemHelper(str(tmpdir.join('indico', 'blobs'))).create()
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=create) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert [] == failures
    assert 'bushy' == tmpdir.join('indico', 'blobs', '.layout').read()


def test_an_upload_that_meets_a_conflict_leaves_no_copy_in_the_cache(opened, tmpdir):
    db = opened('cache')
    faster, slower = (TransactionManager() for _ in range(2))
    slow = db.open(slower).root()
    db.open(faster).root()['other'] = 1
    slow['file'] = blob = Blob()
    with blob.open('w') as target:
        target.write(CONTENT)
    faster.commit()
    with pytest.raises(ConflictError):
        slower.commit()
    slower.abort()
    assert [] == list(tmpdir.join('cache').visit('*.tmp*'))


def test_what_killed_processes_have_left_is_removed_a_day_later(opened, tmpdir):
    opened('cache').close()
    names = '0x00ab.tmp-', '1.0.blob.dl', '0x00ac.tmp-', '1.0.blob'
    old, received, new, content = files = [tmpdir.join('cache', '7', name) for name in names]
    for each in files:
        each.write('half', ensure=True)
    for each in old, received, content:
        os.utime(str(each), (0, 0))
    opened('cache')
    assert [False, False, True, True] == [each.exists() for each in files]


def test_content_that_a_loss_of_power_has_emptied_is_fetched_again(opened, tmpdir):
    path = save(opened('writer'), CONTENT)
    open(path, 'w').close()
    with opened('writer').open().root()['file'].open() as source:
        assert CONTENT == source.read()


def test_what_is_saved_is_on_the_disk_before_it_is_in_the_cache(opened, monkeypatch):
    synchronised = []
    monkeypatch.setattr(os, 'fsync', lambda file: synchronised.append(os.fstat(file).st_ino))
    path = save(opened('writer'), CONTENT)
    assert os.stat(path).st_ino in synchronised


def test_a_commit_succeeds_even_if_its_content_can_not_be_cached(opened, tmpdir, monkeypatch):
    def full(*_):
        raise IOError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    db = opened('writer')
    monkeypatch.setattr('ZODB.blob.rename_or_copy_blob', after(1, full))
    save(db, CONTENT)
    with opened('reader').open().root()['file'].open() as source:
        assert CONTENT == source.read()
    assert [] == list(tmpdir.join('writer').visit('*.tmp*'))


def after(count, failing, working=ZODB.blob.rename_or_copy_blob):
    """Returns a function that works so many times, and fails once."""
    calls = itertools.count()
    return lambda *args: (failing if next(calls) == count else working)(*args)
