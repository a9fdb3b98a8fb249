"""Ping NEO processes: a working one answers every new connection, a frozen one does not.

The kernel accepts connections for a process that is stopped, waits for a hung
disk or loops, but then nothing answers on them.  Nothing else distinguishes
such a process from a busy one, as NEO has no time limits.
"""

from __future__ import absolute_import

import errno
import logging
import select
import socket
import threading
import time

from indico_zodbrepl.dataplane.neo.library import import_neo
from indico_zodbrepl.dataplane.programs.addresses import format_address
from indico_zodbrepl.dataplane.programs.clock import monotonic

import_neo()

from neo.lib.protocol import ENCODED_VERSION, Packets  # noqa: E402

log = logging.getLogger(__name__)

ANSWERS = 'answers'
REFUSES = 'refuses'
SILENT = 'silent'

_SLICE = 0.25  # seconds
# A host that no longer exists answers nothing; reconnect now and then.
_LONGEST = 30.0  # seconds
# The kernel repeats an attempt to connect ever more rarely: a new one notices a host that is back.
_CONNECTING = 3.0  # seconds
# Errors of the kernel for a host that does not answer at all.
_NOBODY_THERE = (errno.ETIMEDOUT, errno.EHOSTUNREACH, errno.ENETUNREACH)


class Pinger(threading.Thread):
    """A thread that pings one address repeatedly.

    Attributes, for any thread to read:
        state: ANSWERS, REFUSES (nothing listens there), SILENT or None, not known yet.
        silent: seconds for which it has been silent while this process ran; 0.0 if it answers.

    Args:
        address: (host, port).
        interval: seconds between two pings.
    """

    def __init__(self, address, interval=0.5):
        threading.Thread.__init__(self, name='greeting of %s:%d' % address)
        self.setDaemon(True)
        self.state = None
        self.silent = 0.0
        self._address = address
        self._interval = interval
        self._closing = threading.Event()
        self._connection = None

    def close(self):
        """Stop the thread soon."""
        self._closing.set()

    def run(self):
        try:
            while not self._closing.wait(self._interval):
                try:
                    self._ask()
                except Exception:  # whatever the error, the next ping may succeed
                    log.exception('%s', self.name)
                    self._disconnect()
                    self.state = None
        finally:
            self._disconnect()

    def _ask(self):
        try:
            if self._connection is None:
                self._connect()
            else:
                self._connection.sendall(_PING)
            if self._hears():
                self.state = ANSWERS
                self.silent = 0.0
        except socket.error as error:
            self._disconnect()
            if error.errno in _NOBODY_THERE:
                self.state = SILENT
                self.silent += self._interval
            else:
                self.state = REFUSES
                self.silent = 0.0

    def _hears(self):
        """Wait for an answer, _LONGEST seconds at most; raise socket.error for a refusal."""
        waited = 0.0
        while waited < _LONGEST and not self._closing.is_set():
            since = monotonic()
            if select.select([self._connection], [], [], _SLICE)[0]:
                if not self._connection.recv(4096):
                    raise socket.error(errno.ECONNRESET, 'closed')
                return True
            # If it took longer than two slices, the host or this process was suspended.
            passed = min(max(monotonic() - since, 0.0), 2 * _SLICE)
            waited += passed
            self.silent += passed
            if self.silent >= 2 * _SLICE:
                self.state = SILENT
        self._disconnect()
        return False

    def _connect(self):
        self._connection = socket.socket()
        self._connection.setblocking(False)
        # Each side of a connection sends its version first, without waiting for the other's.
        code = self._connection.connect_ex(self._address)
        if code not in (0, errno.EINPROGRESS):
            raise socket.error(code, 'not connected')
        waited = 0.0
        while waited < _CONNECTING and not self._closing.is_set():
            if select.select([], [self._connection], [], _SLICE)[1]:
                self._connection.sendall(ENCODED_VERSION)
                return
            waited += _SLICE
            self.silent += _SLICE
            if self.silent >= 2 * _SLICE:
                self.state = SILENT
        raise socket.error(errno.ETIMEDOUT, 'not connected in time')

    def _disconnect(self):
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _encoded(packet):
    packet.setId(0)
    return ''.join(packet.encode())


_PING = _encoded(Packets.Ping())


_PAUSE = 0.05  # seconds


def ping(addresses, wait):
    """Ping every address at the same time, each over a connection of its own.

    Args:
        wait: seconds after which an address without an answer is silent.

    Returns: {'host:port': 'answers', 'refuses' (nothing listens) or 'silent'}.
    """
    greetings = dict((address, Pinger(address, _PAUSE)) for address in addresses)
    deadline = monotonic() + wait
    for each in greetings.values():
        each.start()
    try:
        while monotonic() < deadline and not all(
                each.state in (ANSWERS, REFUSES) for each in greetings.values()):
            time.sleep(_PAUSE)
        return dict((format_address(address), each.state or SILENT)
                    for address, each in greetings.items())
    finally:
        for each in greetings.values():
            each.close()
