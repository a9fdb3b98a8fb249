"""What a primary shows of commits that followers have not confirmed: nothing."""
import time

import pytest
from ZODB.POSException import POSKeyError
from ZODB.serialize import referencesf
from ZODB.utils import p64, u64, z64

from nodes import commit, pickle_of
from processes import wait_for
from synchronous import Commit, client_of, is_unknown, seen, start_follower, start_primary, wait_for_state


class Hidden(object):
    """A primary with commits that are not acknowledged, and clients.

    Attributes:
        oid: of an object that such a commit changed.
        tid, hidden: the last acknowledged transaction, and the last one.
    """

    def __init__(self, writer, reader, primary, follower):
        self.primary, self.follower, self.reader = primary, follower, reader
        self.other, self.first = commit(writer, pickle_of('other'))
        self.oid, self.tid = commit(writer, pickle_of('before'))
        wait_for(lambda: reader.lastTransaction() == self.tid, 'the invalidation')
        follower.process.pause()
        self.under_way = Commit(writer, self.oid, 'after')
        self._wait_for_commits(3)
        self.also = Commit(reader)
        self._wait_for_commits(4)
        self.hidden = primary.last_tid()

    def _wait_for_commits(self, count):
        wait_for(lambda: self.primary.ruok()['commits'] == count, '%d commits' % count)


@pytest.fixture
def hidden(processes, tmpdir):
    primary = start_primary(processes, tmpdir)
    follower = start_follower(processes, tmpdir, primary)
    wait_for_state(primary, 'synchronous')
    with client_of(primary) as writer, client_of(primary) as reader:
        made = Hidden(writer, reader, primary, follower)
        with client_of(primary) as made.reader:
            yield made
        follower.process.resume()
        assert isinstance(made.under_way.wait(), bytes)


def test_objects_are_shown_as_they_were(hidden):
    call = hidden.reader._call
    assert hidden.tid == call('getTid', hidden.oid) == call('lastTransaction')
    for limit in (hidden.hidden, p64(u64(hidden.hidden) + 1)):
        assert (pickle_of('before'), hidden.tid, None) == call('loadBefore', hidden.oid, limit)
    assert call('loadBefore', hidden.oid, hidden.tid) is None
    assert pickle_of('before') == call('loadSerial', hidden.oid, hidden.tid)
    with pytest.raises(POSKeyError):
        call('loadSerial', hidden.oid, hidden.hidden)


def test_lists_of_transactions_end_before_them(hidden):
    call = hidden.reader._call
    assert [hidden.tid] == [each['tid'] for each in call('history', hidden.oid, 9)]
    shown = [hidden.tid, hidden.first]
    assert shown == [each['id'].decode('base64') for each in call('undoLog', 0, 9)]
    assert shown == [each['id'].decode('base64') for each in call('undoInfo', 0, 9, {})]
    assert [] == call('undoInfo', 0, 9, {'user_name': u'nobody'})
    assert 2 == len(call('undoInfo', 0, 9, {'user_name': b'user'}))
    for stop in (None, hidden.hidden):
        assert [hidden.first, hidden.tid] == [each.tid for each in hidden.reader.iterator(None, stop)]
    assert [] == list(hidden.reader.iterator(p64(u64(hidden.tid) + 1)))


def test_the_objects_of_the_database_are_listed_without_them(hidden):
    found, following = [], None
    while True:
        oid, tid, data, following = hidden.reader._call('record_iternext', following)
        found.append((oid, tid, data))
        if following is None:
            break
    assert [(hidden.other, hidden.first, pickle_of('other')),
            (hidden.oid, hidden.tid, pickle_of('before'))] == found


def test_invalidations_end_before_them(hidden):
    call = hidden.reader._call
    assert (hidden.tid, [hidden.oid]) == call('getInvalidations', hidden.first)
    assert (hidden.tid, []) == call('getInvalidations', hidden.tid)


def test_a_pack_keeps_what_they_replace(processes, tmpdir):
    primary = start_primary(processes, tmpdir)
    follower = start_follower(processes, tmpdir, primary)
    with client_of(primary) as writer, client_of(primary) as reader:
        _, tid = commit(writer, pickle_of('before'), z64)
        follower.process.pause()
        under_way = Commit(writer, z64, 'after')
        wait_for(lambda: primary.last_tid() > tid, 'the commit on the disk of the primary')
        reader.pack(time.time() + 10, referencesf)
        assert (tid, pickle_of('before')) == seen(reader, z64)
        follower.process.resume()
        assert under_way.wait() > tid


def test_a_pack_during_acknowledged_commits_changes_nothing(processes, tmpdir):
    primary = start_primary(processes, tmpdir)
    follower = start_follower(processes, tmpdir, primary)
    with client_of(primary) as client, client_of(primary) as packer:
        oid, _ = commit(client, pickle_of('x'), z64)
        for number in range(20):
            commit(client, pickle_of('x%d' % number), oid)
        packer.pack(time.time(), referencesf)
        for number in range(20):
            _, tid = commit(client, pickle_of('y%d' % number), oid)
        assert (tid, pickle_of('y19')) == seen(packer, oid)
        follower.wait_for_tid(tid)
        with client_of(follower, read_only=True) as reader:
            reader.pack(time.time(), referencesf)
        commit(client, pickle_of('z'), oid)


def test_a_client_with_a_cache_learns_of_a_commit_that_was_in_doubt(processes, tmpdir):
    primary = start_primary(processes, tmpdir, timeout=1)
    follower = start_follower(processes, tmpdir, primary)
    with client_of(primary) as client, client_of(primary) as reader:
        oid, tid = commit(client, pickle_of('before'))
        assert pickle_of('before') == reader.load(oid)[0]
        follower.process.pause()
        assert is_unknown(Commit(client, oid, 'after').wait())
        with client_of(primary) as late:
            assert pickle_of('before') == late.load(oid)[0]
            follower.process.resume()
            for each in (client, reader, late):
                wait_for(lambda: each.lastTransaction() > tid, 'the invalidation')
                assert pickle_of('after') == each.load(oid)[0]
