"""The primary's side of the blob channel, and the messages on it.

A follower that its primary has told a token (see `stream.BLOBS`) opens a second connection
to the replication port and sends CHANNEL instead of a protocol's name, then the token.  Each message
follows its length.  It begins with its kind and the number of an upload:

- of the primary: BEGIN; CONTENT and bytes; END, the size and the SHA-256; KEEP, if it knows that the
  follower has it, so that the transaction will only name it; ABANDON, if it will not;
- of the follower: HELD, if it has the blob on disk; REFUSED, if it will not have it.
"""
from __future__ import absolute_import

import logging
import struct
import threading

from twisted.internet.interfaces import IPullProducer
from zope.interface import implementer

from indico_zodbrepl.dataplane.programs.clock import monotonic
from indico_zodbrepl.dataplane.server.incoming import PIECE

logger = logging.getLogger('zodbrepl.replication')

CHANNEL = b'blobs1.0'
HEAD = struct.Struct('>cI')
TOTAL = struct.Struct('>Q32s')
BEGIN, CONTENT, END, KEEP, ABANDON = b'B', b'D', b'E', b'K', b'A'
HELD, REFUSED = b'H', b'R'

# Seconds in which a follower must take some data, or answer; else its channel is closed, and no vote
# waits for it.
STALLED = 5.0
_CHECK = 1.0

_LENGTH = struct.Struct('>I')


def frame(message):
    """Return a message after its length."""
    return _LENGTH.pack(len(message)) + message


class _Transfer(object):
    """An upload on its way to one follower."""

    def __init__(self, upload):
        self.upload = upload
        self.stream = open(upload.path, 'rb', 0)
        self.sent = 0
        self.is_complete = self.is_held = False
        self.ended = None  # when all of it was sent, while that is not answered


@implementer(IPullProducer)
class Channel(object):
    """Sends one follower the uploads of a `Sharing`, piece by piece in turn.

    Args:
        sharing: the uploads.
        token: bytes that the follower has sent.
        transport: the connection.
        run: runs a thread's function, as zc.zrs's ThreadCounter does.

    Attributes:
        is_open: False if no follower has this token; the connection is then of no use.
    """

    def __init__(self, sharing, token, transport, run):
        self._sharing = sharing
        self._transport = transport
        self._reactor = transport.reactor
        self._stopped = False
        self._transfers = {}
        self._kept = []
        self._drained = threading.Event()
        self._written_at = monotonic()
        self._link = sharing.open_channel(token, self)
        self.is_open = self._link is not None
        if self.is_open:
            transport.registerProducer(self, False)
            thread = threading.Thread(target=run, args=(self._run,), name='Channel')
            thread.daemon = True
            thread.start()
            self._reactor.callLater(_CHECK, self._check)

    # Called in the reactor's thread:

    def resumeProducing(self):
        self._drained.set()

    def stopProducing(self):
        if not self._stopped:
            self._stopped = True
            self._drained.set()
            self._sharing.close_channel(self._link)
            self._sharing.grown()

    def answered(self, message):
        """Take a message of the follower's."""
        kind, number = HEAD.unpack(message)
        is_known = self._sharing.answered(self._link, number, kind == HELD)
        with self._sharing.condition:
            transfer = self._transfers.get(number)
            if transfer is not None:
                transfer.ended = None
                transfer.is_held = is_known and kind == HELD
                if transfer.is_held:
                    self._kept.append(number)
                    self._sharing.condition.notify_all()

    def abort(self):
        """Close the connection now; any thread may call it."""
        self._reactor.callFromThread(self._abort)

    def _abort(self):
        if not self._stopped:
            self._transport.abortConnection()

    def _check(self):
        if self._stopped:
            return
        limit = monotonic() - STALLED
        with self._sharing.condition:
            late = [each for each in self._transfers.values()
                    if each.ended is not None and each.ended < limit]
        if late or not self._drained.is_set() and self._written_at < limit:
            logger.warning('a follower takes no blobs any more: it gets them with their transactions')
            self._abort()
            return
        self._reactor.callLater(_CHECK, self._check)

    def _write(self, data):
        if not self._stopped:
            self._written_at = monotonic()
            self._transport.write(data)

    # Called in the channel's own thread:

    def _run(self):
        try:
            while not self._stopped:
                for message in self._next_messages():
                    self._drained.wait()
                    if self._stopped:
                        return
                    self._drained.clear()
                    self._reactor.callFromThread(self._write, frame(message))
        except Exception:  # the transactions bring the blobs
            logger.exception('cannot send blobs ahead of their transactions')
            self.abort()
        finally:
            for transfer in self._transfers.values():
                transfer.stream.close()

    def _next_messages(self):
        """Yield messages for one piece of each upload, or wait until there is something."""
        with self._sharing.condition:
            kept, self._kept = self._kept, []
            abandoned, self._link.abandoned = self._link.abandoned, []
            new = [upload for number, upload in self._sharing.live.items()
                   if number not in self._transfers and self._link not in upload.missed
                   and self._link not in upload.holders]
            over = [self._transfers.pop(number) for number in list(self._transfers)
                    if number not in self._sharing.live]
            ready = [each for each in self._transfers.values() if self._has_more(each)]
            if not (kept or abandoned or new or over or ready or self._stopped):
                self._sharing.condition.wait()
                return
        for number in kept:
            yield HEAD.pack(KEEP, number)
        for number in abandoned:
            yield HEAD.pack(ABANDON, number)
        for transfer in over:
            transfer.stream.close()
            # Otherwise the transaction on the other connection may come later than this.
            if not transfer.is_held:
                yield HEAD.pack(ABANDON, transfer.upload.number)
        for upload in new:
            if self._begin(upload):
                yield HEAD.pack(BEGIN, upload.number)
        for transfer in ready:
            yield self._piece(transfer)

    def _begin(self, upload):
        try:
            transfer = _Transfer(upload)
        except IOError:  # its transaction has just ended
            self._sharing.answered(self._link, upload.number, False)
            return False
        with self._sharing.condition:
            self._transfers[upload.number] = transfer
        return True

    @staticmethod
    def _has_more(transfer):
        source = transfer.upload.source
        if source.is_complete and transfer.sent == source.size:
            return source.is_over and source.error is None and not transfer.is_complete
        return source.is_complete or source.size - transfer.sent >= PIECE

    def _piece(self, transfer):
        source, number = transfer.upload.source, transfer.upload.number
        wanted = min(PIECE, source.size - transfer.sent)
        if not wanted:
            transfer.is_complete = True
            transfer.ended = monotonic()
            transfer.stream.close()  # a transaction may have more blobs than a process open files
            return HEAD.pack(END, number) + TOTAL.pack(source.size, source.sha256)
        data = transfer.stream.read(wanted)
        if len(data) < wanted:
            raise IOError('%s has become shorter' % transfer.upload.path)
        transfer.sent += wanted
        return HEAD.pack(CONTENT, number) + data
