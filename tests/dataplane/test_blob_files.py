"""A blob's file is on disk before its transaction, and goes with a transaction that ends early."""
import json
import os
import signal
import sys

import pytest
from ZODB.Connection import TransactionMetaData
from ZODB.FileStorage import FileStorage
from ZODB.utils import z64

from indico_zodbrepl.dataplane.datafs import blob_files
from nodes import BLOB_RECORD, Node, commit, pickle_of
from processes import FORKED

PATCHED = ('_blob_init', '_blob_storeblob', 'tpc_vote', '_abort', '_blob_tpc_abort',
           '_blob_tpc_finish')

# Logs each fsync, and each rename to a blob's place, as lines of JSON.
RECORDING = '''
import json, os, sys
log = os.open(%r, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
def recorded(name, call):
    def wrapper(*args):
        path = list(args) if name == 'rename' else os.readlink('/proc/self/fd/%%d' %% args[0])
        result = call(*args)
        os.write(log, json.dumps([name, path]) + chr(10))
        return result
    return wrapper
for name in ('fsync', 'fdatasync', 'rename'):
    setattr(os, name, recorded(name, getattr(os, name)))
import ZODB.FileStorage
sys.modules[ZODB.FileStorage.FileStorage.__module__].fsync = os.fsync
from indico_zodbrepl.dataplane.server import main as server
os._exit(server.main(%r))
'''


@pytest.fixture
def durable(monkeypatch):
    """FileStorage as the server repairs it, in this process."""
    for name in PATCHED:
        monkeypatch.setattr(FileStorage, name, getattr(FileStorage, name))
    blob_files.install()


@pytest.fixture
def storage(durable, tmpdir):
    opened = open_storage(tmpdir)
    yield opened
    opened.close()


def open_storage(tmpdir):
    return FileStorage(str(tmpdir.join('Data.fs')), blob_dir=str(tmpdir.join('blobs')))


def upload(tmpdir, content='content'):
    path = tmpdir.join('upload')
    path.write(content)
    return str(path)


def files_in(folder):
    return sorted(each.basename for each in folder.visit(lambda path: path.check(file=True))
                  if each.basename != '.layout')


def begin(storage, tmpdir):
    """Stores a blob in a new transaction and returns that."""
    meta = TransactionMetaData()
    storage.tpc_begin(meta)
    storage.storeBlob(storage.new_oid(), z64, BLOB_RECORD, upload(tmpdir), '', meta)
    return meta


def test_primary_and_secondary_sync_a_blob_and_its_folders_before_the_transaction(
        processes, tmpdir):
    nodes = [Node(processes, tmpdir, 'a', listens=True)]
    nodes.append(Node(processes, tmpdir, 'b', upstream=nodes[0]))
    logs = [tmpdir.join(node.name + '.calls') for node in nodes]
    for node, log in zip(nodes, logs):
        node.process = processes.start(
            [FORKED, '-c', RECORDING % (str(log), node.command()[3:])], node.name, node.port)
    nodes[0].wait_for_followers()
    client = nodes[0].client()
    oid, _ = commit(client, pickle_of('x'))
    _, tid = commit(client, oid=oid, blob=upload(tmpdir))
    nodes[1].wait_for_tid(tid)
    client.close()

    for node, log in zip(nodes, logs):
        calls = [json.loads(line) for line in log.readlines()]
        blob, = [os.path.join(node.blobs, name) for name in node.blob_files()]
        source, = [paths[0] for name, paths in calls if name == 'rename' and paths[1] == blob]
        placed = calls.index(['rename', [source, blob]])
        finished = calls.index(['fsync', node.data], placed)
        assert ['fsync', source] in calls[:placed]
        between = [path for name, path in calls[placed:finished] if name == 'fsync']
        folder = os.path.dirname(blob)
        while folder != os.path.dirname(node.blobs):
            assert folder in between, (folder, calls)
            folder = os.path.dirname(folder)


def test_a_transaction_that_fails_at_its_vote_leaves_no_blob(storage, tmpdir, monkeypatch):
    meta = begin(storage, tmpdir)
    monkeypatch.setattr(sys.modules[FileStorage.__module__], 'cp', None)
    with pytest.raises(TypeError):
        storage.tpc_vote(meta)
    storage.tpc_abort(meta)
    assert [] == files_in(tmpdir.join('blobs'))


def test_an_aborted_transaction_leaves_no_blob(storage, tmpdir):
    meta = begin(storage, tmpdir)
    storage.tpc_vote(meta)
    storage.tpc_abort(meta)
    assert [] == files_in(tmpdir.join('blobs'))


def test_a_finished_transaction_leaves_its_blob_alone(storage, tmpdir):
    meta = begin(storage, tmpdir)
    storage.tpc_vote(meta)
    storage.tpc_finish(meta)
    assert 1 == len(files_in(tmpdir.join('blobs')))


@pytest.mark.parametrize('steps, left', [
    ('begin(storage, tmpdir)', 0),
    ('storage.tpc_vote(begin(storage, tmpdir))', 0),
    # killed between the data file's fsync and the removal of what marks the blob
    ('blob_files._remove = die; meta = begin(storage, tmpdir); storage.tpc_vote(meta); '
     'storage.tpc_finish(meta)', 1)])
def test_the_start_after_a_kill_removes_blobs_without_a_transaction_and_no_others(
        durable, tmpdir, steps, left):
    storage = open_storage(tmpdir)
    commit(storage, blob=upload(tmpdir, 'older'))
    storage.close()
    child = os.fork()
    if not child:
        def die(*args):
            os.kill(os.getpid(), signal.SIGKILL)
        names = dict(globals(), tmpdir=tmpdir, die=die, storage=open_storage(tmpdir))
        exec(steps, names)
        die()
    os.waitpid(child, 0)
    tmpdir.ensure('blobs', 'tmp', 'half an upload')

    storage = open_storage(tmpdir)
    transactions = len(list(storage.iterator()))
    storage.close()
    assert 1 + left == transactions == len(files_in(tmpdir.join('blobs')))


def test_a_server_reports_that_the_folder_of_blobs_is_gone_under_it(processes, tmpdir):
    node = Node(processes, tmpdir, 'a', listens=True)
    node.start()
    assert node.status()['missing_blob_folder'] is None
    os.rename(node.blobs, node.blobs + '.away')
    assert node.blobs == node.status()['missing_blob_folder']
    os.rename(node.blobs + '.away', node.blobs)
    assert node.status()['missing_blob_folder'] is None
