"""Changes of the primary while commits wait for followers."""
import json
import threading
import time

import pytest

from indico_zodbrepl.dataplane.programs.clock import boottime
from nodes import Node, commit, pickle_of
from processes import wait_for
from synchronous import (
    Commit,
    client_of,
    is_unknown,
    options,
    seen,
    start_follower,
    start_primary,
    state,
    wait_for_confirmation,
    wait_for_state,
)
from test_role_change import end, hand_over, promote, replication, work, write  # noqa: F401  a fixture


def recorded(node):
    found = json.loads(node.folder.join('synchronous.json').read())
    return found['state'], found['epoch']


def test_the_record_follows_the_epoch_of_the_primary(processes, tmpdir):
    primary = start_primary(processes, tmpdir, timeout=1, alone='degrade')
    wait_for_state(primary, 'alone')
    promote(primary, 4)
    assert ('alone', 4) == recorded(primary)
    primary.control(do='synchronous', count=0)
    assert ('off', 4) == recorded(primary)


def test_a_promoted_node_acknowledges_as_the_order_says(processes, tmpdir):
    """Else a server that was started before a change of the cluster file would lose commits."""
    primary = start_primary(processes, tmpdir, 'a', count=0)
    follower = start_follower(processes, tmpdir, primary, 'b')
    primary.wait_for_followers()
    primary.process.kill()
    settings = {'count': 1, 'level': 'write', 'timeout': 7.0, 'alone': 'refuse'}
    request = dict(do='promote', epoch=4,
                   replicate_to='127.0.0.1:%d' % follower.replication_port)
    refused = follower.control(synchronous=dict(settings, level='no'), **request)
    assert 'no such level' in refused['error']
    promoted = follower.control(synchronous=settings, **request)
    found = promoted['synchronous']
    assert settings == dict((key, found[key]) for key in settings)
    assert 'waiting' == found['state']


class Order(threading.Thread):
    """One order to a server in a thread of its own."""

    def __init__(self, node, **request):
        threading.Thread.__init__(self)
        self.daemon = True
        self.answer = None
        self._node, self._request = node, request
        self.start()

    def run(self):
        self.answer = self._node.control(**self._request)

    def wait(self):
        self.join()
        return self.answer


@pytest.fixture
def trio(processes, tmpdir):
    """A primary and two followers of it, any of which may become the primary."""
    primary = start_primary(processes, tmpdir, 'a')
    followers = [start_follower(processes, tmpdir, primary, name, options=options()) for name in 'bc']
    wait_for_confirmation(primary, 'b', 'c')
    return [primary] + followers


def test_a_hold_waits_for_confirmations(processes, tmpdir):
    primary = start_primary(processes, tmpdir)
    follower = start_follower(processes, tmpdir, primary)
    with client_of(primary) as client:
        _, tid = commit(client, pickle_of('x'))
        follower.process.pause()
        under_way = Commit(client)
        wait_for(lambda: primary.last_tid() > tid, 'the commit on the disk of the primary')
        hold = Order(primary, do='hold', seconds=100)
        wait_for(lambda: primary.status()['held'] == 'operator', 'the hold')
        assert hold.answer is None
        follower.process.resume()
        answer = hold.wait()
        assert answer['ok'] and answer['last_tid'] == answer['synchronous']['acknowledged']
        assert under_way.wait().encode('hex') == answer['last_tid']


def test_a_hold_without_confirmations_is_refused_with_the_reason(processes, tmpdir):
    primary = start_primary(processes, tmpdir)
    follower = start_follower(processes, tmpdir, primary)
    with client_of(primary, patience=1) as client:
        commit(client, pickle_of('x'))
        follower.process.pause()
        under_way = Commit(client)
        wait_for(lambda: primary.ruok()['commits'] == 2, 'the commit on the disk of the primary')
        answer = primary.control(do='hold', seconds=2)
        assert not answer['ok'] and 'secondaries did not confirm' in answer['detail']
        assert primary.status()['held'] is None
        follower.process.resume()
        under_way.wait()


def test_a_hold_does_not_wait_for_what_is_in_doubt(processes, tmpdir):
    primary = start_primary(processes, tmpdir, timeout=1)
    follower = start_follower(processes, tmpdir, primary)
    with client_of(primary) as client:
        commit(client, pickle_of('x'))
        follower.process.pause()
        assert is_unknown(Commit(client).wait())
        answer = primary.control(do='hold', seconds=100)
        assert (True, 1) == (answer['ok'], answer['synchronous']['in_doubt'])


def test_handovers_under_load_lose_no_acknowledged_commit(trio, work):  # noqa: F811  a fixture
    old, new, third = trio
    writers = [work(trio, write) for _ in range(3)]
    for epoch in range(4, 8):
        for each in writers:
            each.goes_on()
        hand_over(old, new, epoch)
        assert third.control(do='follow', epoch=epoch, upstream=replication(new))['ok']
        old, new = new, old
    for each in writers:
        each.goes_on()
        each.stop()
    wait_for_confirmation(old, *[node.name for node in trio if node is not old])
    assert 'off' == state(new)
    told = [tid for each in writers for tid in each.results]
    for node in trio:
        node.wait_for_tid(old.last_tid())
    end([old, new, third])
    assert len(told) == len(set(told)) and set(told) <= set(old.tids())
    assert old.bytes() == new.bytes() == third.bytes()


def test_a_promoted_secondary_acknowledges_with_the_others_in_the_new_epoch(trio):
    old, new, third = trio
    with client_of(old, patience=1) as client:
        _, tid = commit(client, pickle_of('x'))
        new.wait_for_tid(tid)
    old.process.kill()
    promote(new)
    assert 'waiting' == state(new)
    assert third.control(do='follow', epoch=4, upstream=replication(new))['ok']
    wait_for_state(new, 'synchronous')
    with client_of(new) as client:
        _, tid = commit(client, pickle_of('x'))
        status = new.status()['synchronous']
        assert {'c': tid.encode('hex')} == status['confirming']


def test_a_promoted_relay_asks_its_followers_in_the_new_epoch(processes, tmpdir):
    primary = start_primary(processes, tmpdir)
    relay = Node(processes, tmpdir, 'b', upstream=primary, listens=True,
                 options=options() + ['--forward-acknowledgements'])
    relay.start()
    start_follower(processes, tmpdir, relay, 'c')
    wait_for_confirmation(primary, 'b', 'c')
    with client_of(primary, patience=1) as client:
        _, tid = commit(client, pickle_of('x'))
    relay.wait_for_tid(tid)
    primary.process.kill()
    promote(relay)
    wait_for_state(relay, 'synchronous')
    with client_of(relay) as client:
        _, tid = commit(client, pickle_of('x'))
        assert {'c': tid.encode('hex')} == relay.status()['synchronous']['confirming']


def test_a_primary_of_an_earlier_epoch_tells_waiting_clients_at_once(trio):
    old, new, third = trio
    with client_of(old, patience=1) as writer, client_of(old) as reader:
        oid, tid = commit(writer, pickle_of('before'))
        for node in (new, third):
            node.process.pause()
        under_way = Commit(writer, oid, 'after')
        wait_for(lambda: old.last_tid() > tid, 'the commit on the disk of the primary')
        assert tid == seen(reader, oid)[0]
        assert old.control(do='epoch', epoch=4)['ok']
        assert is_unknown(under_way.wait())
        status = old.status()
        assert ('epoch', 1) == (status['held'], status['synchronous']['in_doubt'])
        assert tid == old.status()['synchronous']['acknowledged'].decode('hex')


def test_a_demoted_primary_invalidates_what_was_in_doubt(processes, tmpdir):
    primary = start_primary(processes, tmpdir, 'a', timeout=1)
    follower = start_follower(processes, tmpdir, primary, 'b', options=options())
    with client_of(primary, patience=1) as writer, client_of(primary, read_only=True) as reader:
        oid, tid = commit(writer, pickle_of('before'))
        assert pickle_of('before') == reader.load(oid)[0]
        follower.process.pause()
        assert is_unknown(Commit(writer, oid, 'after').wait())
        assert pickle_of('before') == reader.load(oid)[0]
        follower.process.resume()
        follower.wait_for_tid(primary.last_tid())
        hand_over(primary, follower)
        wait_for(lambda: reader.lastTransaction() > tid and pickle_of('after') == reader.load(oid)[0],
                 'the commit that was in doubt')
        assert 'off' == state(primary)
        # Whoever compares histories later must know whether commits were acknowledged alone.
        assert recorded(primary) in (('synchronous', 3), ('waiting', 3))
        assert recorded(follower) in (('synchronous', 4), ('waiting', 4))


def test_a_commit_that_is_confirmed_after_the_end_of_the_lease_is_unknown(processes, tmpdir):
    primary = start_primary(processes, tmpdir)
    follower = start_follower(processes, tmpdir, primary)
    with client_of(primary, patience=1) as client:
        _, tid = commit(client, pickle_of('x'))
        follower.process.pause()
        assert primary.control(do='lease', epoch=3, until=boottime() + 30)['ok']
        under_way = Commit(client)
        wait_for(lambda: primary.last_tid() > tid, 'the commit on the disk of the primary')
        assert primary.control(do='lease', epoch=3, until=boottime())['ok']
        assert 'lease' == primary.status()['held']
        follower.process.resume()
        assert is_unknown(under_way.wait())


def test_a_detached_follower_confirms_nothing_until_it_follows_again(processes, tmpdir):
    primary = start_primary(processes, tmpdir)
    follower = start_follower(processes, tmpdir, primary)
    with client_of(primary) as client:
        _, tid = commit(client, pickle_of('x'))
        answer = follower.control(do='detach', epoch=3, seconds=60)
        assert (True, tid.encode('hex')) == (answer['ok'], answer['last_tid'])
        wait_for_confirmation(primary)
        under_way = Commit(client)
        wait_for(lambda: primary.ruok()['waiting'] == 1, 'the vote')
        assert follower.control(do='follow', epoch=3, upstream=replication(primary))['ok']
        assert isinstance(under_way.wait(), bytes)


def test_a_writer_that_waits_for_the_start_of_a_superseded_primary_is_refused(processes, tmpdir):
    primary = start_primary(processes, tmpdir)
    opened = Opening(primary)
    time.sleep(4)  # Later than this its connection is closed only after it has registered.
    assert primary.control(do='epoch', epoch=4)['ok']
    wait_for_state(primary, 'waiting')
    wait_for(lambda: opened.is_read_only is not None, 'the client')
    assert opened.is_read_only


class Opening(threading.Thread):
    """Opens a client that reads if it may not write."""

    is_read_only = None

    def __init__(self, node):
        threading.Thread.__init__(self)
        self.daemon = True
        self._node = node
        self.start()

    def run(self):
        with client_of(self._node, read_only_fallback=True) as client:
            self.is_read_only = client.is_read_only()
