"""A blob that is uploaded on a slow line lets the other requests of its client pass."""
import socket
import threading
import time

import pytest
from ZEO.ClientStorage import ClientStorage
from ZEO.Exceptions import ClientDisconnected

from indico_zodbrepl.dataplane.client import blob_upload
from nodes import Node, commit
from processes import PATIENCE, free_ports, wait_for
from test_server_uploads import a_file, in_background, leftovers

SIZE = 5 << 20
PIECE = 1 << 16


class SlowLine(object):
    """Forwards connections to a port, at most PIECE bytes each 10 ms in both directions."""

    def __init__(self, port):
        self.port, = free_ports(1)
        self._target = port
        self._listener = socket.socket()
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, PIECE)
        self._listener.bind(('127.0.0.1', self.port))
        self._listener.listen(5)
        self._start(self._accept)

    def close(self):
        self._listener.close()

    def _start(self, target, *args):
        thread = threading.Thread(target=target, args=args)
        thread.daemon = True
        thread.start()

    def _accept(self):
        while True:
            try:
                client, _ = self._listener.accept()
            except socket.error:
                return
            server = socket.socket()
            server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, PIECE)
            try:
                server.connect(('127.0.0.1', self._target))
            except socket.error:
                del client, server
                continue
            self._start(self._forward, client, server)
            self._start(self._forward, server, client)
            del client, server  # the last thread to end closes them

    def _forward(self, source, target):
        try:
            for data in iter(lambda: source.recv(PIECE), ''):
                time.sleep(0.01)
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)
        except socket.error:
            target.close()


@pytest.fixture
def node(processes, tmpdir):
    started = Node(processes, tmpdir, 'a', listens=True)
    started.start()
    return started


@pytest.fixture
def client(node, tmpdir):
    line = SlowLine(node.port)
    opened = ClientStorage(('127.0.0.1', line.port), wait_timeout=PATIENCE,
                           blob_dir=str(tmpdir.ensure('slow', dir=True)))
    blob_upload.send_in_turn(opened)
    yield opened
    opened.close()
    line.close()


def answers_during(client, thread):
    """Returns how many requests were answered before the thread ended."""
    count = 0
    while thread.is_alive():
        client.ping()
        count += 1
    return count


def test_others_are_answered_while_a_client_sends_a_blob(node, client, tmpdir):
    upload, results = in_background(commit, client, blob=a_file(tmpdir, SIZE))
    assert answers_during(client, upload) > 10
    assert 1 == len(results)
    assert [SIZE] == [len(content) for content in node.blob_files().values()]


def test_an_upload_ends_with_its_server(node, client, tmpdir):
    upload, results = in_background(failure_of, commit, client, blob=a_file(tmpdir, SIZE))
    wait_for(lambda: leftovers(node), 'the upload')
    node.process.kill()
    node.start()
    upload.join()
    assert [ClientDisconnected] == results
    assert ([], {}) == (leftovers(node), node.blob_files())


def failure_of(call, *args, **options):
    try:
        call(*args, **options)
    except Exception as error:
        return type(error)
