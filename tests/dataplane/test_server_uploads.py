"""Blobs that clients send: nobody waits for them, and none is left over or cut short."""
import errno
import os
import threading

import pytest
from ZEO.Exceptions import ServerException
from ZODB.Connection import TransactionMetaData
from ZODB.POSException import StorageTransactionError
from ZODB.utils import z64

from indico_zodbrepl.dataplane.server import incoming

from nodes import BLOB_RECORD, Node, commit, pickle_of
from processes import wait_for
from slow_disks import start_slow
from test_write_failures import fill, small_disk  # noqa: F401  a fixture


@pytest.fixture
def node(processes, tmpdir):
    started = Node(processes, tmpdir, 'a', listens=True)
    started.start()
    return started


def a_file(tmpdir, size=1 << 20, name='upload'):
    path = tmpdir.join(name)
    path.write(os.urandom(size), 'wb')
    return str(path)


def leftovers(node):
    """Files of a node that are no committed blobs."""
    return os.listdir(os.path.join(node.blobs, 'tmp'))


def in_background(call, *args, **options):
    """Starts a thread; returns it and the list that gets its result."""
    results = []
    thread = threading.Thread(target=lambda: results.append(call(*args, **options)))
    thread.daemon = True
    thread.start()
    return thread, results


def test_a_file_that_can_not_be_read_as_it_arrives_is_not_left(tmpdir, monkeypatch):
    def exhausted(*_):
        raise IOError(errno.EMFILE, os.strerror(errno.EMFILE))
    monkeypatch.setattr(incoming, 'open', exhausted, raising=False)
    with pytest.raises(IOError):
        incoming.Incoming(str(tmpdir))
    assert [] == tmpdir.listdir()


def test_a_blob_arrives_whole_with_one_record(node, tmpdir):
    path = a_file(tmpdir, 10000001)
    with open(path, 'rb') as upload:
        content = upload.read()
    client = node.client()
    commit(client, blob=path)
    assert [1] == [len(list(each)) for each in client.iterator()]
    client.close()
    assert [content] == node.blob_files().values()
    assert [] == leftovers(node)


def test_others_commit_while_the_content_of_a_blob_is_written_to_disk(processes, tmpdir):
    node = Node(processes, tmpdir, 'a', listens=True)
    brake = tmpdir.ensure('brake')
    start_slow(processes, node, brake)
    uploader, other = node.client(blob_dir=str(tmpdir.ensure('u', dir=True))), node.client()
    upload, results = in_background(commit, uploader, blob=a_file(tmpdir))
    wait_for(lambda: leftovers(node), 'the upload')
    for _ in range(20):
        commit(other, pickle_of('x'))
    assert [] == results
    brake.remove()
    upload.join()
    assert results[0][1] == node.last_tid()
    assert 1 == len(node.blob_files())


@pytest.mark.parametrize('votes', [False, True])
def test_a_client_that_goes_away_leaves_nothing_of_its_upload(processes, tmpdir, votes):
    node = Node(processes, tmpdir, 'a', listens=True)
    brake = tmpdir.ensure('brake')
    start_slow(processes, node, brake)
    client = node.client()
    _, tid = commit(client, pickle_of('x'))
    meta = TransactionMetaData()
    client.tpc_begin(meta)
    client.storeBlob(client.new_oid(), z64, BLOB_RECORD, a_file(tmpdir), '', meta)
    if votes:
        in_background(client.tpc_vote, meta)
    wait_for(lambda: leftovers(node), 'the upload')
    client.close()
    wait_for(lambda: not leftovers(node), 'the end of the upload')
    brake.remove()
    other = node.client(blob_dir=str(tmpdir.ensure('other', dir=True)))
    commit(other, pickle_of('x'))
    assert {} == node.blob_files()


def test_an_upload_that_the_client_aborts_leaves_nothing(node, tmpdir):
    client = node.client()
    meta = TransactionMetaData()
    client.tpc_begin(meta)
    client.storeBlob(client.new_oid(), z64, BLOB_RECORD, a_file(tmpdir), '', meta)
    client.tpc_vote(meta)
    assert 1 == len(node.blob_files())
    client.tpc_abort(meta)
    commit(client, pickle_of('x'))
    assert ({}, []) == (node.blob_files(), leftovers(node))


def test_a_full_disk_fails_the_upload_and_nothing_else(processes, tmpdir, small_disk):  # noqa: F811
    node = Node(processes, small_disk, 'a', listens=True)
    node.start()
    client = node.client(blob_dir=str(tmpdir.ensure('client', dir=True)))
    oid, _ = commit(client, pickle_of('x'))
    with pytest.raises(ServerException):
        commit(client, blob=a_file(tmpdir, 10 << 20))
    assert 'No space left on device' == node.status()['write_failure']['error']
    assert ({}, []) == (node.blob_files(), leftovers(node))
    # on the same connection
    commit(client, pickle_of('y'), oid=oid)
    assert node.status()['write_failure'] is None


def test_a_disk_that_is_full_at_the_last_byte_cuts_no_blob_short(
        processes, tmpdir, small_disk):  # noqa: F811
    node = Node(processes, small_disk, 'a', listens=True)
    node.start()
    client = node.client(blob_dir=str(tmpdir.ensure('client', dir=True)))
    commit(client, pickle_of('x'))
    ballast = fill(small_disk)
    ballast.write(b'\0' * (ballast.size() - 8192), 'wb')
    with pytest.raises(ServerException):
        commit(client, blob=a_file(tmpdir, 12000))
    assert ({}, []) == (node.blob_files(), leftovers(node))


def test_a_client_that_only_reads_leaves_no_file(node, tmpdir):
    client = node.client(read_only=True)
    connection = client._server.client.protocol
    client._server.async_('storeBlobStart')
    # the client is soon connected again
    wait_for(lambda: connection.closed, 'the end of the connection')
    client.close()
    assert [] == leftovers(node)


def test_a_second_vote_during_the_first_is_refused(processes, tmpdir):
    node = Node(processes, tmpdir, 'a', listens=True)
    brake = tmpdir.ensure('brake')
    start_slow(processes, node, brake)
    client = node.client()
    meta = TransactionMetaData()
    client.tpc_begin(meta)
    client.storeBlob(client.new_oid(), z64, BLOB_RECORD, a_file(tmpdir), '', meta)
    refused = []

    def vote():
        try:
            client._call('vote', id(meta))
        except StorageTransactionError as error:
            refused.append(error)

    # either may be the second; the first waits
    votes = [in_background(vote)[0] for _ in range(2)]
    wait_for(lambda: refused, 'the refusal of one of them')
    brake.remove()
    for each in votes:
        each.join()
    assert 1 == len(refused)
    client.tpc_abort(meta)
