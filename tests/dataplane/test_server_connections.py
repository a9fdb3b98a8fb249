"""Connections to the storage server that end before they are served."""
import contextlib
import socket
import struct

from nodes import Node, answer_to

IMPATIENCE = 5.0  # seconds
OTHERS = 10


def reset(connection):
    """Close a connection so that whoever writes to it gets an error."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
    connection.close()


def test_who_connects_after_a_client_that_went_away_at_once_is_answered(processes, tmpdir):
    node = Node(processes, tmpdir, 'a')
    node.start()
    node.process.pause()
    gone = node.connected(IMPATIENCE)
    others = [node.connected(IMPATIENCE) for _ in range(OTHERS)]
    reset(gone)
    node.process.resume()

    for each in others:
        with contextlib.closing(each):
            assert answer_to(each, 'ruok')['zodbrepl']['node'] == 'a'
    assert 'Traceback' not in node.process.output()
