"""Confirmations that are read in the thread of the event loop, and the ends of their connections."""
import os
import socket
import struct

import pytest
from ZODB.utils import z64

from link_proxy import Proxy
from nodes import commit, pickle_of
from processes import wait_for
from synchronous import client_of, start_follower, start_primary, wait_for_state


@pytest.fixture
def primary(processes, tmpdir):
    return start_primary(processes, tmpdir)


def test_a_primary_that_is_stopped_gives_its_follower_everything(processes, tmpdir, primary):
    follower = start_follower(processes, tmpdir, primary)
    with client_of(primary) as client:
        _, tid = commit(client, pickle_of('x'))
    assert 0 == primary.process.terminate()
    # Its blob channel counts as another one.
    assert 'drained to 2 of 2 followers' in primary.process.output()
    assert tid == follower.last_tid()


def descriptors(process):
    return len(os.listdir('/proc/%d/fd' % process.pid))


def test_connections_that_are_cut_leave_nothing_open(processes, tmpdir, primary):
    proxy = Proxy(primary)
    start_follower(processes, tmpdir, proxy)
    with client_of(primary) as client:
        commit(client, pickle_of('x'))
        before = descriptors(primary.process)
        for _ in range(5):
            proxy.cut_all()
            wait_for(lambda: not primary.status()['synchronous']['confirming'], 'the end of the link')
            wait_for_state(primary, 'synchronous')
            commit(client, pickle_of('x'))
        wait_for(lambda: descriptors(primary.process) <= before, 'closed descriptors')
    proxy.close()


def test_the_connection_of_a_follower_that_answers_nonsense_ends(primary):
    link = socket.create_connection(('127.0.0.1', primary.replication_port))
    try:
        for message in (b'zrs2.1', z64):
            link.sendall(struct.pack('>I', len(message)) + message)
        primary.wait_for_followers()
        # Another message is read by the loop already.
        for message in (b'', b'no confirmation'):
            link.sendall(struct.pack('>I', len(message)) + message)
        while link.recv(65536):
            pass
    finally:
        link.close()
    primary.wait_for_followers(0)
    assert 'no confirmation' in primary.process.output()
