"""Connections to the storage server that end before they are served."""
import contextlib
import json
import socket
import struct

from nodes import Node

IMPATIENCE = 5.0  # seconds
OTHERS = 10


def connected(node):
    return socket.create_connection(('127.0.0.1', node.port), IMPATIENCE)


def reset(connection):
    """Close a connection so that whoever writes to it gets an error."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
    connection.close()


def status_of(connection):
    connection.sendall(struct.pack('>I', 4) + 'ruok')
    answer = connection.makefile('rb')
    messages = [answer.read(struct.unpack('>I', answer.read(4))[0]) for _ in range(2)]
    return json.loads(messages[1])['1']


def test_who_connects_after_a_client_that_went_away_at_once_is_answered(processes, tmpdir):
    node = Node(processes, tmpdir, 'a')
    node.start()
    node.process.pause()
    gone = connected(node)
    others = [connected(node) for _ in range(OTHERS)]
    reset(gone)
    node.process.resume()

    for each in others:
        with contextlib.closing(each):
            assert status_of(each)['zodbrepl']['node'] == 'a'
    assert 'Traceback' not in node.process.output()
