"""Whose confirmations count: those of the nodes that the cluster file names, from their hosts."""
import json
import socket
import struct

import pytest
from ZODB.utils import p64, z64

from indico_zodbrepl.dataplane.zrs.confirmations import FSYNC, Confirmations, Question, answer
from indico_zodbrepl.dataplane.zrs.members import BadMembers, Members
from nodes import Node, commit, pickle_of
from processes import PATIENCE, wait_for
from synchronous import (
    Commit,
    client_of,
    start_follower,
    start_primary,
    state,
    wait_for_confirmation,
    wait_for_state,
)

ASKED = Question(FSYNC, 3)


def write(path, *names, **others):
    """Writes the list of nodes; `others` are further nodes, each with its rules."""
    nodes = {name: {'from': None, 'forwards': False} for name in names}
    nodes.update(others)
    path.write(json.dumps({'nodes': nodes}))
    return ['--members', str(path)]


def rule(hosts=None, forwards=False):
    return {'from': hosts, 'forwards': forwards}


@pytest.fixture
def path(tmpdir):
    return tmpdir.join('members.json')


@pytest.fixture
def asked(path):
    write(path, 'b', 'c', d=rule(['10.0.0.4']), r=rule(forwards=True))
    found = Confirmations(Members(str(path)))
    found.question = ASKED
    return found


def test_a_node_of_the_cluster_counts(asked):
    asked.heard('link', answer('b', ASKED, p64(1)), '10.0.0.2')
    asked.heard('link', p64(5), '10.0.0.2')
    assert {'b': p64(5)} == asked.confirmed()
    assert {} == asked.refused()


def test_a_stranger_does_not_count(asked):
    asked.heard('link', answer('x', ASKED, p64(1)), '10.0.0.9')
    asked.heard('link', p64(5), '10.0.0.9')
    assert {} == asked.confirmed()
    assert ['x'] == list(asked.refused())
    asked.left('link')
    assert {} == asked.refused()


def test_a_name_counts_only_from_the_host_of_its_node(asked):
    asked.heard('true', answer('d', ASKED, p64(3)), '10.0.0.4')
    asked.heard('false', answer('d', ASKED, p64(9)), '10.0.0.9')
    asked.heard('false', p64(10), '10.0.0.9')
    assert {'d': p64(3)} == asked.confirmed()
    assert '10.0.0.9' in asked.refused()['d']
    asked.heard('true', p64(4), '10.0.0.4')
    asked.left('false')
    assert {'d': p64(4)} == asked.confirmed()


def test_only_a_relay_that_forwards_speaks_for_others(asked):
    asked.heard('relay', answer('r', ASKED, p64(3)), '10.0.0.5')
    asked.heard('relay', answer('c', ASKED, p64(2)), '10.0.0.5')
    asked.heard('relay', answer('x', ASKED, p64(9)), '10.0.0.5')
    assert {'r': p64(3), 'c': p64(2)} == asked.confirmed()
    asked.heard('link', answer('b', ASKED, p64(4)), '10.0.0.2')
    asked.heard('link', answer('c', ASKED, p64(9)), '10.0.0.2')
    assert {'r': p64(3), 'c': p64(2), 'b': p64(4)} == asked.confirmed()
    asked.heard('stranger', answer('y', ASKED, p64(9)), '10.0.0.9')
    asked.heard('stranger', answer('b', ASKED, p64(9)), '10.0.0.9')
    assert {'r': p64(3), 'c': p64(2), 'b': p64(4)} == asked.confirmed()


def test_a_refused_node_changes_nothing_for_those_that_wait(asked):
    heard = []
    asked.changed = lambda name, tid: heard.append(name)
    asked.heard('link', answer('x', ASKED, p64(1)), '10.0.0.9')
    asked.heard('link', p64(2), '10.0.0.9')
    asked.left('link')
    assert [] == heard


def test_a_list_that_changes_applies_at_once(asked, path):
    asked.heard('b', answer('b', ASKED, p64(1)), '10.0.0.2')
    asked.heard('x', answer('x', ASKED, p64(2)), '10.0.0.9')
    write(path, 'c', 'x')
    wait_for(lambda: {'x': p64(2)} == asked.confirmed(), 'the new list')
    assert ['b'] == list(asked.refused())


def test_a_list_that_changes_applies_to_all_roles_of_a_server(path):
    """A server that takes another role begins anew with the same list."""
    write(path, 'b')
    members = Members(str(path))
    roles = [Confirmations(members), Confirmations(members)]
    for each in roles:
        each.question = ASKED
        each.heard('b', answer('b', ASKED, p64(1)), '10.0.0.2')
    write(path, 'c')
    for each in roles:
        wait_for(lambda: not each.confirmed(), 'the new list')


def test_a_node_that_was_refused_counts_as_soon_as_it_is_in_the_list(asked, path):
    """At a relay nobody asks in between."""
    heard = []
    asked.changed = lambda name, tid: heard.append((name, tid))
    asked.heard('x', answer('x', ASKED, p64(2)), '10.0.0.9')
    write(path, 'b', 'x')

    def is_heard():
        asked.heard('x', p64(3), '10.0.0.9')
        return heard

    wait_for(is_heard, 'its confirmation')
    assert ('x', p64(3)) == heard[0]


@pytest.mark.parametrize('content', ['', '{}', '[]', '{"nodes": []}', '{"nodes": {"b": {}}}'])
def test_a_damaged_list_is_refused_at_a_start_and_changes_nothing_later(asked, path, content):
    path.write(content)
    with pytest.raises(BadMembers):
        Members(str(path))
    asked.heard('b', answer('b', ASKED, p64(1)), '10.0.0.2')
    for _ in range(3):
        assert {'b': p64(1)} == asked.confirmed()


def not_counted(node):
    return sorted(node.status()['synchronous']['not_counted'])


def test_a_node_that_was_removed_and_still_runs_does_not_count(processes, tmpdir, path):
    primary = start_primary(processes, tmpdir, timeout=1, more=write(path, 'p', 'b', 'c'))
    removed = start_follower(processes, tmpdir, primary, 'b')
    wait_for_state(primary, 'synchronous')
    with client_of(primary) as client:
        _, tid = commit(client, pickle_of('x'))
        write(path, 'p', 'c')
        wait_for_confirmation(primary)
        assert ['b'] == not_counted(primary)
        assert isinstance(Commit(client).wait(), Exception)
        assert 'refusing' == state(primary)
        assert tid.encode('hex') == primary.status()['synchronous']['acknowledged']
        start_follower(processes, tmpdir, primary, 'c')
        wait_for_state(primary, 'synchronous')
        commit(client, pickle_of('x'))
        write(path, 'p', 'b', 'c')
        wait_for_confirmation(primary, 'b', 'c')
        assert [] == not_counted(primary)
    removed.process.kill()


def test_a_stranger_that_reconnects_is_logged_once(processes, tmpdir, path):
    primary = start_primary(processes, tmpdir, more=write(path, 'p', 'b'))
    for _ in range(3):
        stranger = start_follower(processes, tmpdir, primary, 'x')
        wait_for(lambda: ['x'] == not_counted(primary), 'its answer')
        assert {} == primary.status()['synchronous']['confirming']
        stranger.process.kill()
        wait_for(lambda: [] == not_counted(primary), 'its end')
    assert 1 == primary.process.output().count('do not count')


def answering(primary, host, name, tid):
    """Connects to a primary from an address, and answers its question."""
    peer = socket.create_connection(('127.0.0.1', primary.replication_port), PATIENCE, (host, 0))
    for message in (b'zrs2.1', z64):
        peer.sendall(struct.pack('>I', len(message)) + message)
    peer.recv(10, socket.MSG_WAITALL)
    message = answer(name, ASKED, tid)
    peer.sendall(struct.pack('>I', len(message)) + message)
    return peer


def test_a_name_from_elsewhere_takes_no_place(processes, tmpdir, path):
    """A program connects and answers as node b, with the newest transaction there can be."""
    primary = start_primary(processes, tmpdir, timeout=1, more=write(path, 'p', b=rule(['127.0.0.2'])))
    follower = answering(primary, '127.0.0.2', 'b', z64)
    wait_for_confirmation(primary, 'b')
    stranger = answering(primary, '127.0.0.3', 'b', 8 * b'\x7f')
    wait_for(lambda: ['b'] == not_counted(primary), 'the other one')
    assert {'b': z64.encode('hex')} == primary.status()['synchronous']['confirming']
    with client_of(primary) as client:
        assert isinstance(Commit(client).wait(), Exception)
    for each in follower, stranger:
        each.close()


def test_a_relay_forwards_the_nodes_of_the_list(processes, tmpdir, path):
    members = write(path, 'p', 'c', b=rule(forwards=True))
    primary = start_primary(processes, tmpdir, more=members)
    relay = Node(processes, tmpdir, 'b', upstream=primary, listens=True,
                 options=['--forward-acknowledgements'] + members)
    relay.start()
    start_follower(processes, tmpdir, relay, 'c')
    start_follower(processes, tmpdir, relay, 'x')
    relay.wait_for_followers(2)
    wait_for_confirmation(primary, 'b', 'c')
    with client_of(primary) as client:
        commit(client, pickle_of('x'))
    assert {'b', 'c'} == set(primary.status()['synchronous']['confirming'])
    write(path, 'p', b=rule(forwards=True))
    wait_for_confirmation(primary, 'b')


def test_a_server_without_its_list_does_not_start(processes, tmpdir, path):
    node = Node(processes, tmpdir, 'p', listens=True, options=['--members', str(path)])
    assert 2 == node.start(wait=False).wait()
    assert str(path) in node.process.output()
