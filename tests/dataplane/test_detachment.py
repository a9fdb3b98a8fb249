"""A detached follower gets nothing more, and follows again later."""
import pytest

from nodes import Node, commit, pickle_of
from processes import wait_for
from slow_disks import start_slow


@pytest.fixture
def primary(processes, tmpdir):
    primary = Node(processes, tmpdir, 'a', listens=True)
    primary.start()
    return primary


@pytest.fixture(params=[False, True], ids=['secondary', 'relay'])
def follower(processes, tmpdir, primary, request):
    follower = Node(processes, tmpdir, 'b', upstream=primary, listens=request.param)
    follower.start()
    primary.wait_for_followers()
    return follower


@pytest.fixture
def client(primary):
    client = primary.client(blob_dir=None)
    yield client
    client.close()


def detach(node, seconds=60, epoch=3):
    return node.control(do='detach', epoch=epoch, seconds=seconds)


def test_nothing_arrives_at_a_detached_follower(primary, follower, client):
    follower.wait_for_tid(commit(client, pickle_of('x'))[1])
    answer = detach(follower)
    assert (True, False) == (answer['ok'], answer['connected'])
    assert 0 < answer['detached_for'] <= 60
    primary.wait_for_followers(0)

    commit(client, pickle_of('x'))

    again = detach(follower)
    assert answer['last_tid'] == again['last_tid'] == follower.last_tid().encode('hex')


def test_it_has_processed_everything_it_has_received(processes, primary, tmpdir, client):
    """Its disk is slow: what the primary has sent meanwhile waits in memory."""
    follower, brake = Node(processes, tmpdir, 'b', upstream=primary), tmpdir.join('brake')
    start_slow(processes, follower, brake, 'Data.fs')
    primary.wait_for_followers()
    follower.wait_for_tid(commit(client, pickle_of('x'))[1])
    brake.write('')
    for _ in range(20):
        _, last = commit(client, 1000 * 'x')
    connection = follower.control_connection()
    connection.sendall('{"do": "detach", "epoch": 3, "seconds": 60}\n')
    brake.remove()
    assert last.encode('hex') in connection.makefile('rb').readline()


def test_it_follows_again_when_the_time_is_over(primary, follower, client):
    detach(follower)
    _, tid = commit(client, pickle_of('x'))
    assert detach(follower, 0.3)['last_tid'] < tid.encode('hex')
    follower.wait_for_tid(tid)
    assert None is follower.control(do='status')['detached_for']


def test_it_follows_again_when_it_is_told_to(primary, follower, client):
    detach(follower)
    _, tid = commit(client, pickle_of('x'))
    answer = follower.control(
        do='follow', epoch=3, upstream='127.0.0.1:%d' % primary.replication_port)
    assert (True, None) == (answer['ok'], answer['detached_for'])
    follower.wait_for_tid(tid)


def test_it_can_be_promoted_and_stays_so(primary, follower, client):
    detach(follower, 0.5)
    answer = follower.control(
        do='promote', epoch=4, replicate_to='127.0.0.1:%d' % follower.replication_port)
    assert ('primary', None) == (answer['role'], answer['detached_for'])
    new = follower.client(blob_dir=None)
    try:
        _, tid = commit(new, pickle_of('x'))
    finally:
        new.close()
    follower.wait_for_tid(tid)
    assert 'not a follower' == detach(follower, epoch=4)['error']


def test_what_cannot_be_detached_is_refused(primary, follower):
    assert 'not a follower' == detach(primary)['error']
    assert 'epoch 2 is over' == detach(follower, epoch=2)['error']
    assert 'cannot be detached for 0 s' == detach(follower, 0)['error']
    assert follower.status()['connected']


def test_a_follower_whose_upstream_is_gone_is_detached_too(primary, follower, client):
    _, tid = commit(client, pickle_of('x'))
    follower.wait_for_tid(tid)
    primary.process.kill()
    assert tid.encode('hex') == detach(follower)['last_tid']
    primary.start()
    wait_for(lambda: client.is_connected(), 'the primary')
    commit(client, pickle_of('x'))
    assert tid.encode('hex') == detach(follower)['last_tid']
