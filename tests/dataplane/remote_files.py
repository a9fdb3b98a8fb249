"""Comparisons with a data file as that of another host: over a connection to its server."""
import contextlib
import socket
import threading

from indico_zodbrepl.dataplane.datafs import compare as module
from indico_zodbrepl.dataplane.datafs.failures import DataFileError
from indico_zodbrepl.dataplane.datafs.messages import Connection
from indico_zodbrepl.dataplane.datafs.serving import Server


class Counted(object):
    """A socket that counts the bytes it moves and the calls of sendall."""

    def __init__(self, stream):
        self._stream = stream
        self.moved = 0

    def sendall(self, data):
        self.moved += len(data)
        self._stream.sendall(data)

    def recv(self, length):
        data = self._stream.recv(length)
        self.moved += len(data)
        return data

    def close(self):
        self._stream.close()


@contextlib.contextmanager
def served(path):
    """Yields a connection to a server of a file and the socket that counts what it moves."""
    ours, theirs = socket.socketpair()
    server = threading.Thread(
        target=Server(path, Connection(theirs, 'the comparison')).run)
    server.start()
    counted = Counted(ours)
    try:
        yield Connection(counted, path), counted
    finally:
        ours.close()
        server.join()
        theirs.close()


def compare_remotely(path, upstream_path, verified=None, fork=None):
    """Returns the result, and how many bytes it has moved."""
    with served(upstream_path) as (connection, counted):
        return (module.compare(path, upstream_path, verified, fork, connection), counted.moved)


def compare(path, upstream_path, verified=None, fork=None):
    """Compares two files of this host, and again with the upstream on another: it is the same."""
    try:
        here = module.compare(path, upstream_path, verified, fork)
    except DataFileError as error:
        try:
            compare_remotely(path, upstream_path, verified, fork)
        except DataFileError as other:
            assert (type(error), str(error), vars(error)) == (type(other), str(other), vars(other))
        else:
            raise AssertionError('no %r from another host' % error)
        raise
    there, _ = compare_remotely(path, upstream_path, verified, fork)
    assert here == there
    return here
