"""Send the contents of blobs to a client in between its other messages.

ZEO's own server queues all chunks of a blob first: every other answer on that connection, which all
threads of an Indico instance share, waits until the last of them is sent.

Use everything here in the thread of the server's event loop.
"""
from __future__ import absolute_import

import sys

from ZEO.asyncio.server import Delay
from ZEO.StorageServer import ZEOStorage

CHUNK = 59000  # bytes, as ZEO sends them
AT_ONCE = 4  # chunks, before other messages have their turn
# Bytes that wait to be sent, above which no chunk is added.  Not more than the mark at which a transport
# that was paused resumes: what ZEO writes to a paused one it keeps in memory, without a limit.
MOST_WAITING = 1 << 14
PAUSE = 0.001  # seconds until that is checked again


class DownloadingZEOStorage(ZEOStorage):
    """The method of a client's connection by which it fetches a blob."""

    def sendBlob(self, oid, serial):
        """Send a blob's content; the reply, which comes last, is None.

        Raises POSKeyError if it is missing.
        """
        return _Download(self.storage.loadBlob(oid, serial), oid, serial)


class _Download(Delay):

    def __init__(self, path, oid, serial):
        self._content = open(path, 'rb')
        self._blob = oid, serial

    def set_sender(self, msgid, protocol):
        Delay.set_sender(self, msgid, protocol)
        protocol.call_async('receiveBlobStart', self._blob)
        self._send()

    def _send(self):
        if self.protocol.closed or not self.protocol.connected:
            self._content.close()
            return
        try:
            is_complete = self._send_some()
        except EnvironmentError:
            self._content.close()
            self.error(sys.exc_info())
            return
        if is_complete:
            self._content.close()
            self.protocol.call_async('receiveBlobStop', self._blob)
            self.reply(None)
        else:
            self.protocol.loop.call_later(PAUSE if self._is_full() else 0, self._send)

    def _send_some(self):
        """Send a few chunks; return True if they were the last."""
        for _ in range(AT_ONCE):
            if self._is_full():
                return False
            chunk = self._content.read(CHUNK)
            if not chunk:
                return True
            self.protocol.call_async('receiveBlobChunk', self._blob + (chunk,))
        return False

    def _is_full(self):
        transport = self.protocol.sm_protocol.transport
        return transport.get_write_buffer_size() > MOST_WAITING
