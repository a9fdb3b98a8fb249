"""A replication link through a proxy that a test can delay, cut, silence or corrupt.

    python link_proxy.py PORT SECONDS

forwards to a replication port with a delay each way, and prints the port that it listens on.
"""
from __future__ import print_function

import Queue
import socket
import struct
import sys
import threading
import time

from processes import free_ports

CHANNEL = struct.pack('>I', 8) + b'blobs1.0'


class Proxy(object):
    """Forwards connections to a node's replication port.

    Args:
        node: the upstream.
        delay: seconds that everything takes to pass, each way.

    Attributes:
        replication_port: for `Node(upstream=...)`.
        damage: called with each part of what the upstream sends; returns what arrives instead.
        damages: True to damage blob channels, False to damage the stream of transactions.
        blob_bytes, stream_bytes: what has arrived.
    """

    def __init__(self, node, delay=0):
        self.replication_port, = free_ports(1)
        self.damage = None
        self.damages = True
        self.blob_bytes = self.stream_bytes = 0
        self._target = node
        self._delay = delay
        self._silent = ()
        self._channels = []
        self._connections = []
        self._listener = socket.socket()
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._listener.bind(('127.0.0.1', self.replication_port))
        self._listener.listen(5)
        self._start(self._accept)

    def cut_channels(self):
        """Ends the blob channels, and nothing else."""
        channels, self._channels = self._channels, []
        for each in channels:
            _shut(each)

    def cut_all(self):
        """Ends all connections; new ones are accepted."""
        connections, self._connections, self._channels = self._connections, [], []
        for each in connections:
            _shut(each)

    def silence(self, downstream=True, answers=True):
        """Loses everything that is under way or comes later; connections stay open, new ones wait.

        Args:
            downstream: whether to lose what the upstream sends.
            answers: whether to lose what the follower sends.
        """
        self._silent = (downstream, answers)

    def channels(self):
        return len(self._channels)

    def close(self):
        self._listener.close()

    def _start(self, target, *args):
        thread = threading.Thread(target=target, args=args)
        thread.daemon = True
        thread.start()

    def _accept(self):
        while True:
            try:
                follower, _ = self._listener.accept()
            except socket.error:
                return
            if any(self._silent):
                self._connections.append(follower)
                continue
            try:
                upstream = socket.create_connection(
                    ('127.0.0.1', self._target.replication_port))
            except socket.error:
                follower.close()
                continue
            for each in (follower, upstream):
                each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            begin = follower.recv(len(CHANNEL), socket.MSG_WAITALL)
            is_channel = begin == CHANNEL
            upstream.sendall(begin)
            self._connections.append(follower)
            if is_channel:
                self._channels.append(follower)
            self._start(self._forward, follower, upstream, None)
            self._start(self._forward, upstream, follower, is_channel)

    def _forward(self, source, target, is_channel):
        send = self._sender(target, is_channel)
        try:
            while True:
                data = source.recv(1 << 16)
                if not data:
                    break
                if is_channel is not None:
                    if is_channel:
                        self.blob_bytes += len(data)
                    else:
                        self.stream_bytes += len(data)
                    if self.damage and is_channel == self.damages:
                        data = self.damage(data)
                send(data)
        except socket.error:
            pass
        send(b'')

    def _sender(self, target, is_channel):
        """Return the function that sends some bytes in time; none are the end."""
        def send(data):
            if self._silent and self._silent[is_channel is None]:
                return
            if data:
                target.sendall(data)
                return
            _shut(target)
            if target in self._channels:
                self._channels.remove(target)

        if not self._delay:
            return send
        waiting = Queue.Queue()

        def send_late():
            try:
                while True:
                    due, data = waiting.get()
                    time.sleep(max(0, due - time.time()))
                    send(data)
                    if not data:
                        return
            except socket.error:
                send(b'')

        self._start(send_late)
        return lambda data: waiting.put((time.time() + self._delay, data))


def _shut(connection):
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except socket.error:
        pass


class _Target(object):
    def __init__(self, port):
        self.replication_port = port


def main(port, delay):
    proxy = Proxy(_Target(int(port)), float(delay))
    print(proxy.replication_port)
    sys.stdout.flush()
    sys.stdin.read()


if __name__ == '__main__':
    main(*sys.argv[1:])
