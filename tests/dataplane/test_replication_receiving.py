"""What a follower writes is, byte for byte, what the primary has written."""
import random
from hashlib import md5

import cPickle
import pytest
from ZODB.FileStorage import FileStorage
from ZODB.utils import u64, z64

from indico_zodbrepl.dataplane.zrs import repairs, stream
from indico_zodbrepl.dataplane.zrs.links import Stream
from indico_zodbrepl.dataplane.zrs.receiving import ReceivingProtocol
from streams import Writer, stream_of_ours


class Factory(object):
    """What a `ReceivingProtocol` needs of its factory."""

    check_checksums = True

    def __init__(self, storage):
        self.storage = storage
        self.db = self
        self.invalidated = {}

    def invalidate(self, tid, oids):
        self.invalidated[tid] = sorted(oids)


@pytest.fixture(autouse=True)
def repaired():
    repairs.apply()


def storage_in(folder):
    folder.ensure(dir=True)
    return FileStorage(str(folder.join('Data.fs')), blob_dir=str(folder.join('blobs')))


def receive(storage, data, chance):
    """Let a follower take what a primary sends, in parts of any size; return its factory."""
    protocol = ReceivingProtocol()
    protocol.factory = Factory(storage)
    protocol._replication_stream_md5 = md5(z64)
    take = Stream(protocol.messageReceived)
    while data:
        size = chance.choice([1, 7, 1000, 65536])
        take(data[:size])
        data = data[size:]
    return protocol.factory


@pytest.mark.parametrize('seed', range(8))
def test_transactions_of_all_kinds_are_written_as_on_the_primary(tmpdir, seed):
    chance = random.Random(seed)
    primary, follower = storage_in(tmpdir.join('a')), storage_in(tmpdir.join('b'))
    writer = Writer(primary, chance, tmpdir)
    tids = [writer.commit() for _ in range(25)]
    factory = receive(follower, stream_of_ours(primary), chance)
    assert tids[-1] == follower.lastTransaction()
    assert sorted(each for each in tids if each in factory.invalidated) == sorted(factory.invalidated)
    assert dict(primary._index.items()) == dict(follower._index.items())
    assert u64(primary.new_oid()) == u64(follower.new_oid())
    primary.close()
    follower.close()
    assert tmpdir.join('a/Data.fs').read('rb') == tmpdir.join('b/Data.fs').read('rb')
    blobs = [path.relto(tmpdir.join('a')) for path in tmpdir.join('a/blobs').visit('*.blob')]
    assert blobs
    for each in blobs:
        assert tmpdir.join('a', each).read('rb') == tmpdir.join('b', each).read('rb')


def test_the_head_of_an_ordinary_record_is_read_as_its_pickle_says():
    for oid, tid, copied in [('12345678', 'abcdefgh', None), ('12345678', 'abcdefgh', 8 * 'c'),
                             (8 * '\0', 8 * '\xff', None)]:
        message = stream._head(oid, tid, copied)
        kind, values = cPickle.loads(message)
        plain = stream.plain_head(message)
        assert (kind,) + values == plain if copied is None else plain is None


def test_no_other_message_is_taken_for_the_head_of_an_ordinary_record():
    head = stream._head('12345678', 'abcdefgh', None)
    for other in ('', head[:-1], head + '.', head.replace('S', 'B'), head.replace('N', '0')):
        assert stream.plain_head(other) is None
