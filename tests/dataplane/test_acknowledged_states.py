"""The states of a primary whose commits wait for followers, and what changes them."""
import json

import pytest
from ZODB.POSException import ConflictError, ReadOnlyError

from nodes import commit, pickle_of
from processes import wait_for
from synchronous import (
    Commit,
    client_of,
    is_unknown,
    seen,
    start_follower,
    start_primary,
    state,
    vote,
    wait_for_confirmation,
    wait_for_state,
)


def recorded(node):
    return json.loads(node.folder.join('synchronous.json').read())


def test_with_degrade_it_goes_on_alone_and_comes_back(processes, tmpdir):
    primary = start_primary(processes, tmpdir, timeout=1, alone='degrade')
    follower = start_follower(processes, tmpdir, primary)
    with client_of(primary) as client:
        commit(client, pickle_of('x'))
        follower.process.kill()
        _, tid = commit(client, pickle_of('x'))
        assert 'alone' == state(primary)
        assert ('alone', 3, 'p') == tuple(recorded(primary)[name] for name in ('state', 'epoch', 'node'))
        commit(client, pickle_of('x'))

        follower.start()
        wait_for_state(primary, 'synchronous')
        assert 'synchronous' == recorded(primary)['state']
        _, tid = commit(client, pickle_of('x'))
        assert {'f': tid.encode('hex')} == primary.status()['synchronous']['confirming']


@pytest.mark.parametrize('more', [[], ['--alone-when-told']])
def test_a_primary_that_was_alone_is_alone_after_its_restart(processes, tmpdir, more):
    primary = start_primary(processes, tmpdir, timeout=1, alone='degrade', more=more)
    wait_for(lambda: state(primary) in ('alone', 'asking'), 'the end of waiting')
    primary.control(do='alone')
    primary.process.kill()
    primary.start()
    with client_of(primary) as client:
        commit(client, pickle_of('x'))
        assert 'alone' == state(primary)
        start_follower(processes, tmpdir, primary)
        wait_for_state(primary, 'synchronous')
    primary.process.kill()
    primary.start()
    assert state(primary) in ('starting', 'synchronous')


def test_commits_in_doubt_are_acknowledged_when_it_goes_on_alone(processes, tmpdir):
    primary = start_primary(processes, tmpdir, timeout=1, alone='degrade')
    follower = start_follower(processes, tmpdir, primary)
    with client_of(primary) as client, client_of(primary) as reader:
        oid, _ = commit(client, pickle_of('before'))
        follower.process.pause()
        tid = Commit(client, oid, 'after').wait()
        assert (tid, pickle_of('after')) == seen(reader, oid)
        assert 'alone' == state(primary)


def test_it_comes_back_while_clients_go_on_committing(processes, tmpdir):
    primary = start_primary(processes, tmpdir, timeout=1, alone='degrade')
    with client_of(primary) as client:
        commit(client, pickle_of('x'))
        wait_for_state(primary, 'alone')
        start_follower(processes, tmpdir, primary)

        def is_back():
            for _ in range(20):
                commit(client, pickle_of('x'))
            return state(primary) == 'synchronous'
        wait_for(is_back, 'acknowledged commits')


def test_a_state_that_cannot_be_recorded_lets_it_refuse(processes, tmpdir):
    primary = start_primary(processes, tmpdir, timeout=1, alone='degrade')
    follower = start_follower(processes, tmpdir, primary)
    with client_of(primary) as client:
        commit(client, pickle_of('x'))
        primary.folder.join('synchronous.json.part').ensure(dir=True)
        follower.process.kill()
        with pytest.raises(ReadOnlyError):
            commit(client, pickle_of('x'))
        assert 'refusing' == state(primary)
        assert 'cannot write' in primary.process.output()


def test_it_asks_before_it_goes_on_alone_if_somebody_else_decides(processes, tmpdir):
    primary = start_primary(
        processes, tmpdir, timeout=1, alone='degrade', more=['--alone-when-told'])
    follower = start_follower(processes, tmpdir, primary)
    with client_of(primary) as client:
        commit(client, pickle_of('x'))
        assert not primary.control(do='alone')['ok']
        follower.process.kill()
        wait_for_state(primary, 'asking')
        with pytest.raises(ReadOnlyError):
            commit(client, pickle_of('x'))
        assert ('asking', 'synchronous') == (state(primary), primary.status()['held'])

        answer = primary.control(do='alone')
        assert (True, 'alone', None) == (
            answer['ok'], answer['synchronous']['state'], answer['held'])
        assert 'alone' == recorded(primary)['state']
        commit(client, pickle_of('x'))


def test_a_follower_that_comes_back_ends_the_asking(processes, tmpdir):
    primary = start_primary(
        processes, tmpdir, timeout=1, alone='degrade', more=['--alone-when-told'])
    wait_for_state(primary, 'asking')
    start_follower(processes, tmpdir, primary)
    wait_for_state(primary, 'synchronous')


def test_a_short_absence_of_the_follower_only_delays_votes(processes, tmpdir):
    primary = start_primary(processes, tmpdir)
    follower = start_follower(processes, tmpdir, primary)
    with client_of(primary) as client:
        commit(client, pickle_of('x'))
        follower.process.kill()
        wait_for(lambda: primary.status()['held'] == 'synchronous', 'votes that wait')
        under_way = Commit(client)
        wait_for(lambda: primary.ruok()['waiting'] == 1, 'the vote')
        follower.start()
        assert isinstance(under_way.wait(), bytes)


def test_a_conflict_with_an_unacknowledged_commit_is_held_back(processes, tmpdir):
    primary = start_primary(processes, tmpdir)
    follower = start_follower(processes, tmpdir, primary)
    with client_of(primary) as first, client_of(primary) as second:
        oid, tid = commit(first, pickle_of('before'))
        follower.process.pause()
        winner = Commit(first, oid, 'winner')
        wait_for(lambda: primary.last_tid() > tid, 'the commit on the disk of the primary')
        loser = Commit(second, oid, 'loser')
        wait_for(lambda: primary.ruok()['conflicts'] == 1, 'the conflict')
        # It was answered if this was.
        assert tid == second._call('lastTransaction')
        assert loser.is_alive()

        follower.process.resume()
        assert winner.wait() > tid
        assert isinstance(loser.wait(), ConflictError)
        wait_for(lambda: second.lastTransaction() == winner.outcome, 'the invalidation')
        assert commit(second, pickle_of('retried'), oid)[1] > winner.outcome


def test_commits_share_the_wait_for_a_follower(processes, tmpdir):
    primary = start_primary(processes, tmpdir)
    follower = start_follower(processes, tmpdir, primary)
    with client_of(primary) as one, client_of(primary) as two, client_of(primary) as three:
        _, tid = commit(one, pickle_of('x'))
        follower.process.pause()
        under_way = [Commit(client) for client in (one, two, three)]
        wait_for(lambda: primary.ruok()['commits'] == 4, 'all commits on the disk of the primary')
        follower.process.resume()
        assert sorted(each.wait() for each in under_way)[0] > tid


def test_a_finish_after_followers_are_given_up_writes_nothing(processes, tmpdir):
    primary = start_primary(processes, tmpdir, timeout=1)
    follower = start_follower(processes, tmpdir, primary)
    with client_of(primary) as client:
        _, tid = commit(client, pickle_of('x'))
        transaction = vote(client)
        follower.process.kill()
        wait_for_state(primary, 'refusing')
        with pytest.raises(ReadOnlyError):
            client.tpc_finish(transaction)
        assert tid == primary.last_tid()


def test_the_order_synchronous_changes_it_while_it_runs(processes, tmpdir):
    primary = start_primary(processes, tmpdir, count=0)
    start_follower(processes, tmpdir, primary)
    with client_of(primary) as client:
        commit(client, pickle_of('x'))
        assert ('off', {}) == (
            state(primary), primary.status()['synchronous']['confirming'])

        assert primary.control(do='synchronous', count=1, level='write', timeout=5)['ok']
        wait_for_state(primary, 'synchronous')
        _, tid = commit(client, pickle_of('x'))
        status = primary.status()['synchronous']
        assert (1, 'write', 5, tid.encode('hex')) == tuple(
            status[name] for name in ('count', 'level', 'timeout', 'acknowledged'))

        assert primary.control(do='synchronous', level='fsync')['ok']
        wait_for_state(primary, 'synchronous')
        commit(client, pickle_of('x'))

        assert 'off' == primary.control(do='synchronous', count=0)['synchronous']['state']
        commit(client, pickle_of('x'))


def test_a_lower_count_lets_commits_go_on_at_once(processes, tmpdir):
    primary = start_primary(processes, tmpdir, count=2)
    start_follower(processes, tmpdir, primary)
    wait_for_confirmation(primary, 'f')
    assert 'synchronous' == primary.control(do='synchronous', count=1)['synchronous']['state']
    with client_of(primary) as client:
        commit(client, pickle_of('x'))


def test_a_higher_count_is_promised_only_when_that_many_have_every_commit(processes, tmpdir):
    """The late one was up to date before, and is still connected."""
    primary = start_primary(processes, tmpdir)
    start_follower(processes, tmpdir, primary)
    late = start_follower(processes, tmpdir, primary, name='g')
    wait_for_confirmation(primary, 'f', 'g')
    with client_of(primary) as client:
        commit(client, pickle_of('x'))
        wait_for(lambda: len(set(
            primary.status()['synchronous']['confirming'].values())) == 1, 'both have it')
        late.process.pause()
        commit(client, pickle_of('x'))
        answer = primary.control(do='synchronous', count=2)
        assert 'waiting' == answer['synchronous']['state']
        late.process.resume()
        wait_for_state(primary, 'synchronous')


@pytest.mark.parametrize('request_', [
    {'count': -1}, {'count': True}, {'timeout': 0}, {'level': 'disk'}, {'alone': 'wait'}])
def test_impossible_settings_are_refused(processes, tmpdir, request_):
    primary = start_primary(processes, tmpdir)
    assert not primary.control(do='synchronous', **request_)['ok']
    assert 1 == primary.status()['synchronous']['count']


def test_a_killed_primary_serves_what_was_in_doubt_when_followers_have_it(processes, tmpdir):
    primary = start_primary(processes, tmpdir)
    follower = start_follower(processes, tmpdir, primary)
    with client_of(primary, patience=1) as client:
        oid, tid = commit(client, pickle_of('before'))
        follower.process.pause()
        under_way = Commit(client, oid, 'after')
        wait_for(lambda: primary.last_tid() > tid, 'the commit on the disk of the primary')
        primary.process.kill()
        assert is_unknown(under_way.wait())

    follower.process.resume()
    primary.start()
    with client_of(primary) as client:
        assert pickle_of('after') == seen(client, oid)[1]
        wait_for_state(primary, 'synchronous')
        assert follower.last_tid() == primary.last_tid()


def test_a_killed_primary_hides_what_was_in_doubt_until_followers_have_it(processes, tmpdir):
    primary = start_primary(processes, tmpdir)
    follower = start_follower(processes, tmpdir, primary)
    with client_of(primary, patience=1) as client:
        oid, tid = commit(client, pickle_of('before'))
        follower.process.pause()
        under_way = Commit(client, oid, 'after')
        wait_for(lambda: primary.last_tid() > tid, 'the commit on the disk of the primary')
        primary.process.kill()
        assert is_unknown(under_way.wait())

    primary.start()
    with client_of(primary) as client:  # it waits until readers are served
        assert (tid, pickle_of('before')) == seen(client, oid)
        assert (tid, tid) == (client.lastTransaction(), client.getTid(oid))
        assert 1 == primary.status()['synchronous']['in_doubt']

        follower.process.resume()
        wait_for(lambda: client.lastTransaction() > tid, 'the invalidation')
        assert pickle_of('after') == seen(client, oid)[1]
        assert 0 == primary.status()['synchronous']['in_doubt']


def test_a_primary_that_starts_without_followers_serves_readers_after_a_while(processes, tmpdir):
    primary = start_primary(processes, tmpdir)
    assert ('starting', 'synchronous') == (state(primary), primary.status()['held'])
    with client_of(primary) as client:
        assert 'waiting' == state(primary)
        assert client.lastTransaction() == primary.last_tid()


@pytest.mark.parametrize('pending', [False, True])
def test_a_primary_that_is_stopped_answers_its_clients_first(processes, tmpdir, pending):
    primary = start_primary(processes, tmpdir)
    follower = start_follower(processes, tmpdir, primary)
    with client_of(primary) as client:
        _, tid = commit(client, pickle_of('x'))
        if pending:
            follower.process.pause()
        under_way = Commit(client)
        wait_for(lambda: primary.last_tid() > tid, 'the commit on the disk of the primary')
        primary.process.signal(15)
        if pending:
            wait_for(lambda: 'commits are held' in primary.process.output(), 'the stop')
            follower.process.resume()
        assert isinstance(under_way.wait(), bytes)
        assert 0 == primary.process.wait()
        follower.wait_for_tid(under_way.outcome)
