"""A commit is acknowledged, and shown to others, when followers have it."""
import json

import pytest
from ZODB.POSException import ReadOnlyError

from nodes import commit, pickle_of
from processes import wait_for
from synchronous import (
    Commit,
    client_of,
    is_unknown,
    seen,
    start_follower,
    start_primary,
    wait_for_state,
)


@pytest.mark.parametrize('level', ['receive', 'write', 'fsync'])
def test_a_commit_is_acknowledged_when_a_follower_has_it(processes, tmpdir, level):
    primary = start_primary(processes, tmpdir, level=level)
    follower = start_follower(processes, tmpdir, primary)
    wait_for_state(primary, 'synchronous')

    with client_of(primary) as client:
        for _ in range(20):
            _, tid = commit(client, pickle_of('x'))
        follower.wait_for_tid(tid)
        status = primary.status()['synchronous']

    assert (1, level, tid.encode('hex'), {'f': tid.encode('hex')}, 0) == tuple(
        status[name] for name in ('count', 'level', 'acknowledged', 'confirming', 'in_doubt'))


def test_nobody_sees_a_commit_that_is_not_acknowledged(processes, tmpdir):
    primary = start_primary(processes, tmpdir)
    follower = start_follower(processes, tmpdir, primary)
    with client_of(primary) as writer, client_of(primary) as reader:
        oid, tid = commit(writer, pickle_of('before'))
        follower.process.pause()
        under_way = Commit(writer, oid, 'after')
        wait_for(lambda: primary.last_tid() > tid, 'the commit on the disk of the primary')

        assert (tid, pickle_of('before')) == seen(reader, oid)
        assert tid == reader._call('lastTransaction')
        with client_of(primary) as late:
            assert (tid, tid) == (late.lastTransaction(), seen(late, oid)[0])
        assert under_way.is_alive()

        follower.process.resume()
        assert under_way.wait() > tid
        assert (under_way.outcome, pickle_of('after')) == seen(reader, oid)


def test_without_followers_votes_are_refused_and_nothing_is_written(processes, tmpdir):
    primary = start_primary(processes, tmpdir, timeout=1)
    follower = start_follower(processes, tmpdir, primary)
    with client_of(primary) as client:
        _, tid = commit(client, pickle_of('x'))
        follower.process.kill()
        wait_for(lambda: primary.status()['held'] == 'synchronous', 'votes that wait')
        with pytest.raises(ReadOnlyError) as refused:
            commit(client, pickle_of('x'))

        assert 'nothing was written: fewer than 1 secondaries' in str(refused.value)
        assert ('refusing', 0) == (primary.status()['synchronous']['state'],
                                   primary.status()['synchronous']['in_doubt'])
        assert tid == primary.last_tid()

        follower.start()
        wait_for_state(primary, 'synchronous')
        assert commit(client, pickle_of('x'))[1] > tid


def test_a_commit_that_is_not_confirmed_in_time_is_in_doubt_until_it_is(processes, tmpdir):
    primary = start_primary(processes, tmpdir, timeout=1)
    follower = start_follower(processes, tmpdir, primary)
    with client_of(primary) as writer, client_of(primary) as reader:
        oid, tid = commit(writer, pickle_of('before'))
        follower.process.pause()
        assert is_unknown(Commit(writer, oid, 'after').wait())

        status = primary.status()['synchronous']
        assert ('refusing', 1, tid.encode('hex')) == tuple(
            status[name] for name in ('state', 'in_doubt', 'acknowledged'))
        assert tid == seen(reader, oid)[0] == seen(writer, oid)[0]
        assert 'refusing' == json.loads(primary.folder.join('synchronous.json').read())['state']

        follower.process.resume()
        wait_for_state(primary, 'synchronous')
        assert pickle_of('after') == seen(reader, oid)[1]
        assert 0 == primary.status()['synchronous']['in_doubt']
        wait_for(lambda: writer.lastTransaction() == primary.last_tid(), 'the invalidation')
        commit(writer, pickle_of('again'), oid)
