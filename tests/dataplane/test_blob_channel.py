"""Followers get large blobs beside the stream of transactions, and are the same afterwards."""
import os
import threading

import pytest
from ZODB.Connection import TransactionMetaData
from ZODB.utils import z64

from link_proxy import Proxy
from nodes import BLOB_RECORD, Node, commit, pickle_of
from processes import FORKED, wait_for
from slow_disks import start_slow
from test_server_uploads import a_file, in_background, leftovers
from test_write_failures import fill, small_disk  # noqa: F401  a fixture

MEGABYTE = 1 << 20

STOCK_RECEIVING = '''
import os, zc.zrs.secondary
from indico_zodbrepl.dataplane.server import main as server
from indico_zodbrepl.dataplane.zrs import links
stock = zc.zrs.secondary.SecondaryProtocol
for name in ('messageReceived', 'connectionLost'):
    setattr(links.UpstreamProtocol, name, stock.__dict__[name])
os._exit(server.main(%r))
'''

SILENT = '''
import os
from indico_zodbrepl.dataplane.server import main as server
from indico_zodbrepl.dataplane.zrs import sending
class IBlobStorage:
    providedBy = staticmethod(lambda storage: False)
sending.IBlobStorage = IBlobStorage
os._exit(server.main(%r))
'''


class Pair(object):
    """A primary and a follower, connected through a Proxy."""

    def __init__(self, processes, tmpdir, follower_folder=None):
        self.processes, self.tmpdir = processes, tmpdir
        self.primary = Node(processes, tmpdir, 'a', listens=True)
        self.primary.start()
        self.proxy = Proxy(self.primary)
        self.follower = Node(processes, follower_folder or tmpdir, 'b', upstream=self.proxy)

    def start(self, start=None):
        (start or self.follower.start)()
        self.primary.wait_for_followers()
        return self

    def wait_for_channel(self):
        wait_for(lambda: self.proxy.channels() == 1, 'the blob channel')
        # It has reached the primary when a blob has come through.
        client = self.client('first')
        while not self.proxy.blob_bytes:
            commit(client, blob=a_file(self.tmpdir, 10))
        client.close()
        self.follower.wait_for_tid(self.primary.last_tid())
        return self

    def client(self, name='client', **options):
        return self.primary.client(
            blob_dir=str(self.tmpdir.ensure('client-' + name, dir=True)), **options)

    def upload(self, size=3 * MEGABYTE):
        client = self.client('upload')
        try:
            return commit(client, blob=a_file(self.tmpdir, size))[1]
        finally:
            client.close()

    def assert_equal(self):
        """Wait until both have the same, and nothing else."""
        assert_equal(self.primary, self.follower)


def assert_equal(primary, *followers):
    tid = primary.last_tid()
    for node in followers:
        node.wait_for_tid(tid)
        wait_for(lambda: not leftovers(node), 'the end of temporary files')
        assert primary.bytes() == node.bytes()
        assert primary.blob_files() == node.blob_files()
    # It also notices the end of a client a little later.
    wait_for(lambda: not leftovers(primary), 'the end of temporary files')


@pytest.fixture
def pair(processes, tmpdir):
    made = Pair(processes, tmpdir).start().wait_for_channel()
    yield made
    made.proxy.close()


def begin_upload(client, tmpdir, size=3 * MEGABYTE):
    """Sends a blob, and does not vote; returns the transaction."""
    meta = TransactionMetaData()
    client.tpc_begin(meta)
    client.storeBlob(client.new_oid(), z64, BLOB_RECORD, a_file(tmpdir, size), '', meta)
    return meta


def test_a_blob_comes_on_its_own_channel_and_once(pair):
    blobs, stream = pair.proxy.blob_bytes, pair.proxy.stream_bytes
    pair.upload(10 * MEGABYTE)
    pair.assert_equal()
    assert 10 * MEGABYTE < pair.proxy.blob_bytes - blobs < 10.1 * MEGABYTE
    assert pair.proxy.stream_bytes - stream < 10000


def test_several_blobs_of_one_transaction_and_empty_ones_arrive(pair):
    stream = pair.proxy.stream_bytes
    client = pair.client()
    meta = TransactionMetaData()
    client.tpc_begin(meta)
    for number, size in enumerate([0, 1, 70000, 2 * MEGABYTE, 0]):
        client.storeBlob(client.new_oid(), z64, BLOB_RECORD,
                         a_file(pair.tmpdir, size, 'upload-%d' % number), '', meta)
    client.tpc_vote(meta)
    client.tpc_finish(meta)
    pair.assert_equal()
    assert pair.proxy.stream_bytes - stream < 10000


def test_the_many_blobs_of_one_transaction_keep_no_files_open(pair):
    client, folder = pair.client(), '/proc/%d/fd' % pair.primary.process.pid
    before, meta = len(os.listdir(folder)), TransactionMetaData()
    client.tpc_begin(meta)
    for number in range(100):
        client.storeBlob(client.new_oid(), z64, BLOB_RECORD,
                         a_file(pair.tmpdir, number, 'upload-%d' % number), '', meta)
    client.tpc_vote(meta)
    assert len(os.listdir(folder)) < before + 20
    client.tpc_finish(meta)
    pair.assert_equal()


def test_commits_and_their_replication_go_on_while_a_follower_takes_a_blob(processes, tmpdir):
    pair = Pair(processes, tmpdir)
    brake = tmpdir.join('brake')
    pair.start(lambda: start_slow(processes, pair.follower, brake, 'staged-')).wait_for_channel()
    brake.ensure()
    uploader, other = pair.client('upload'), pair.client('other')
    upload, results = in_background(commit, uploader, blob=a_file(tmpdir, 3 * MEGABYTE))
    wait_for(lambda: leftovers(pair.follower), 'the blob that arrives')
    for _ in range(20):
        _, tid = commit(other, pickle_of('x'))
    pair.follower.wait_for_tid(tid)
    assert [] == results
    brake.remove()
    upload.join()
    assert 1 == len(results)
    pair.assert_equal()


def test_a_follower_that_is_behind_gets_blobs_in_the_stream(processes, tmpdir):
    pair = Pair(processes, tmpdir)
    pair.upload()
    pair.start()
    pair.assert_equal()
    assert pair.proxy.stream_bytes > 3 * MEGABYTE


@pytest.mark.parametrize('script', [STOCK_RECEIVING, SILENT], ids=['follower', 'primary'])
def test_older_followers_and_primaries_exchange_blobs_in_the_stream(
        processes, tmpdir, script):
    pair = Pair(processes, tmpdir)
    node = pair.follower
    if script is SILENT:
        node = pair.primary
        assert 0 == node.process.terminate()

    def start():
        node.process = processes.start(
            [FORKED, '-c', script % (node.command()[3:],)], node.name, node.port)
        node.ruok()
    start()
    if node is pair.primary:
        pair.follower.start()
    node.ruok()
    pair.primary.wait_for_followers()
    pair.upload()
    pair.assert_equal()
    assert 0 == pair.proxy.blob_bytes
    assert 3 * MEGABYTE < pair.proxy.stream_bytes


def test_a_relay_passes_blobs_on_ahead_of_their_transaction(processes, tmpdir):
    primary = Node(processes, tmpdir, 'a', listens=True)
    relay = Node(processes, tmpdir, 'b', upstream=primary, listens=True)
    proxy = Proxy(relay)
    tertiary = Node(processes, tmpdir, 'c', upstream=proxy)
    for node in (primary, relay, tertiary):
        node.start()
    primary.wait_for_followers()
    relay.wait_for_followers()
    client = primary.client()
    while not proxy.blob_bytes:
        _, tid = commit(client, blob=a_file(tmpdir, 10))
    tertiary.wait_for_tid(tid)
    stream = proxy.stream_bytes
    commit(client, blob=a_file(tmpdir, 3 * MEGABYTE))
    client.close()
    assert_equal(primary, relay, tertiary)
    assert proxy.stream_bytes - stream < 10000


@pytest.mark.parametrize('votes', [False, True])
def test_an_upload_that_is_not_committed_leaves_nothing_on_the_follower(pair, votes):
    client = pair.client()
    meta = begin_upload(client, pair.tmpdir)
    wait_for(lambda: leftovers(pair.follower), 'the blob that arrives')
    if votes:
        client.tpc_vote(meta)
        client.tpc_abort(meta)
    else:
        client.close()
    pair.assert_equal()


def test_a_lost_channel_is_opened_again_and_the_upload_goes_on(pair):
    client = pair.client()
    meta = begin_upload(client, pair.tmpdir)
    wait_for(lambda: leftovers(pair.follower), 'the blob that arrives')
    pair.proxy.cut_channels()
    client.tpc_vote(meta)
    client.tpc_finish(meta)
    pair.assert_equal()
    pair.wait_for_channel()
    stream = pair.proxy.stream_bytes
    pair.upload()
    pair.assert_equal()
    assert pair.proxy.stream_bytes - stream < 10000


def test_a_blob_that_a_follower_has_when_its_channel_is_lost_is_used(pair):
    client = pair.client()
    meta = begin_upload(client, pair.tmpdir)
    stream = pair.proxy.stream_bytes
    client.tpc_vote(meta)
    # When the next blob begins to arrive, the follower knows that the first one will be named.
    other = pair.client('other')
    begin_upload(other, pair.tmpdir)
    wait_for(lambda: len(leftovers(pair.follower)) == 2, 'the second blob')
    pair.proxy.cut_channels()
    other.close()
    client.tpc_finish(meta)
    pair.assert_equal()
    assert pair.proxy.stream_bytes - stream < 10000


def test_a_blob_that_no_transaction_needs_is_removed_after_its_channel_was_lost(pair):
    client = pair.client()
    meta = begin_upload(client, pair.tmpdir)
    client.tpc_vote(meta)
    pair.proxy.cut_channels()
    client.tpc_abort(meta)
    client.close()
    pair.assert_equal()


def flipping(data):
    """Changes a byte in the middle of what is large."""
    if len(data) < 10000:
        return data
    middle = len(data) // 2
    return data[:middle] + chr(ord(data[middle]) ^ 1) + data[middle + 1:]


def test_a_blob_that_arrives_damaged_is_refused_and_comes_in_the_stream(pair):
    pair.proxy.damage = flipping
    pair.upload()
    pair.assert_equal()
    assert 'SHA-256' in pair.follower.process.output()


def test_a_transaction_with_a_damaged_blob_stops_the_follower_loudly(processes, tmpdir):
    pair = Pair(processes, tmpdir)
    tid = pair.upload()
    pair.proxy.damages, pair.proxy.damage = False, flipping
    pair.follower.start()
    wait_for(lambda: pair.follower.status()['write_failure'], 'the failure')
    assert 'does not match its checksum' in pair.follower.status()['write_failure']['error']
    assert z64 == pair.follower.last_tid()
    assert {} == pair.follower.blob_files()
    pair.proxy.damage = None
    pair.follower.wait_for_tid(tid)
    pair.assert_equal()
    assert pair.follower.status()['write_failure'] is None


def test_a_follower_with_a_full_disk_says_so_and_gets_the_blob_when_there_is_room(
        processes, tmpdir, small_disk):  # noqa: F811
    pair = Pair(processes, tmpdir, small_disk).start().wait_for_channel()
    ballast = fill(small_disk)
    pair.upload()
    wait_for(lambda: pair.follower.status()['write_failure'], 'the failure')
    assert 'No space left on device' == pair.follower.status()['write_failure']['error']
    ballast.remove()
    pair.assert_equal()


def test_a_frozen_follower_delays_an_upload_only_until_it_is_noticed(pair):
    pair.follower.process.pause()
    pair.upload()
    pair.upload()
    pair.follower.process.resume()
    pair.assert_equal()


def test_a_killed_follower_delays_no_upload_and_starts_without_leftovers(processes, tmpdir):
    pair = Pair(processes, tmpdir)
    brake = tmpdir.join('brake')
    pair.start(lambda: start_slow(processes, pair.follower, brake, 'staged-')).wait_for_channel()
    brake.ensure()
    upload, results = in_background(pair.upload)
    wait_for(lambda: leftovers(pair.follower), 'the blob that arrives')
    pair.follower.process.kill()
    upload.join()
    assert 1 == len(results)
    assert leftovers(pair.follower)
    pair.follower.start()
    pair.assert_equal()


def test_a_killed_primary_leaves_nothing_on_its_follower(pair):
    client = pair.client(patience=1)
    begin_upload(client, pair.tmpdir)
    wait_for(lambda: leftovers(pair.follower), 'the blob that arrives')
    pair.primary.process.kill()
    wait_for(lambda: not leftovers(pair.follower), 'the end of temporary files')
    client.close()
    pair.primary.start()
    pair.primary.wait_for_followers()
    pair.upload()
    pair.assert_equal()


def test_a_stopped_node_leaves_no_temporary_files(pair):
    client = pair.client(patience=1)
    begin_upload(client, pair.tmpdir)
    wait_for(lambda: leftovers(pair.follower), 'the blob that arrives')
    assert 0 == pair.follower.process.terminate()
    assert [] == leftovers(pair.follower)
    assert 0 == pair.primary.process.terminate()
    assert [] == leftovers(pair.primary)
    client.close()


def test_many_clients_upload_at_once(pair):
    def upload(name):
        client = pair.client(name)
        for number in range(10):
            commit(client, blob=a_file(pair.tmpdir, 100000 * number, 'upload-' + name))
        client.close()
    threads = [threading.Thread(target=upload, args=(name,)) for name in 'rstu']
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    pair.assert_equal()
    assert 40 <= len(pair.primary.blob_files())


def test_a_lost_file_of_the_primary_is_reported_until_it_is_back(processes, tmpdir):
    pair = Pair(processes, tmpdir)
    tid = pair.upload()
    path, = [os.path.join(pair.primary.blobs, name) for name in pair.primary.blob_files()]
    os.rename(path, path + '.away')
    assert 0 == pair.primary.status()['blobs_missing']
    pair.start()
    pair.follower.wait_for_tid(tid)
    status = pair.primary.status()
    assert (1, path) == (status['blobs_missing'], status['blob_missing'])
    assert path in pair.primary.process.output()
    assert {} == pair.follower.blob_files()
    os.rename(path + '.away', path)
    assert 0 == pair.primary.status()['blobs_missing']


def test_an_unreadable_file_of_the_primary_is_not_left_out(pair):
    """It may be readable again: the follower gets it later."""
    pair.follower.process.terminate()
    tid = pair.upload()
    path, = [os.path.join(pair.primary.blobs, name) for name, content
             in pair.primary.blob_files().items() if len(content) > 100]
    os.rename(path, path + '.away')
    os.symlink(path, path)
    pair.follower.start()
    wait_for(lambda: 'Too many levels of symbolic links' in pair.primary.process.output(),
             'the error')
    assert tid != pair.follower.last_tid()
    os.rename(path + '.away', path)
    pair.assert_equal()


def test_files_whose_folder_is_gone_are_not_left_out(pair):
    """Its disk is away, and comes back; the follower would confirm what it lacks."""
    pair.follower.process.terminate()
    tid = pair.upload()
    os.rename(pair.primary.blobs, pair.primary.blobs + '.away')
    pair.follower.start()
    wait_for(lambda: 'the folder of blobs is gone' in pair.primary.process.output(), 'the error')
    assert tid != pair.follower.last_tid()
    os.rename(pair.primary.blobs + '.away', pair.primary.blobs)
    pair.assert_equal()


def test_what_a_pack_removed_is_not_missing(pair):
    client = pair.client()
    commit(client, pickle_of('root'), oid=z64)
    oid, _ = commit(client, blob=a_file(pair.tmpdir, 100))
    pair.follower.process.terminate()
    commit(client, oid=oid, blob=a_file(pair.tmpdir, 200))
    client.pack(wait=True)
    commit(client, pickle_of('root'), oid=z64)
    pair.follower.start()
    pair.follower.wait_for_tid(pair.primary.last_tid())
    assert 0 == pair.primary.status()['blobs_missing']
