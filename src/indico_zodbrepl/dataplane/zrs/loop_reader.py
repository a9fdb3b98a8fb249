"""Read a connection of the reactor in the thread of an event loop.

Clients wait in the loop for what followers confirm.  If the reactor's thread read the confirmations,
it would have to wake the loop's for each, which costs a commit more than the confirmation itself.
"""
from __future__ import absolute_import

import os

_SIZE = 1 << 16  # bytes


class LoopReader(object):
    """Reads a connection until `stop`; the reactor still writes to it, and ends it.

    Call it in the reactor's thread.

    Args:
        transport: of the connection; its protocol gets the data, in the loop's thread.
        loop: the event loop.
    """

    def __init__(self, transport, loop):
        self._transport = transport
        self._loop = loop
        # The reactor closes its own whenever it likes.
        self._descriptor = os.dup(transport.getHandle().fileno())
        transport.stopReading()
        self._in_loop(self._start)

    def stop(self):
        """Let the reactor read again; any thread may call it, repeatedly."""
        self._in_loop(self._stop)

    def _in_loop(self, function):
        try:
            self._loop.call_soon_threadsafe(function)
        except RuntimeError:  # it is closed, and nothing runs in it any more
            self._stop()

    # Called in the loop's thread:

    def _start(self):
        self._loop.add_reader(self._descriptor, self._read)

    def _stop(self):
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is None:
            return
        if not self._loop.is_closed():
            self._loop.remove_reader(descriptor)
        os.close(descriptor)
        self._transport.reactor.callFromThread(self._resume)

    def _read(self):
        try:
            data = os.read(self._descriptor, _SIZE)
        except OSError:  # of a signal, or the reactor finds out
            data = b''
        if data:
            self._transport.protocol.dataReceived(data)
        else:
            self._stop()

    # Called in the reactor's thread:

    def _resume(self):
        if self._transport.connected and not self._transport.disconnecting:
            self._transport.startReading()
