"""The blobs of one client's transaction, from the first chunk of their content to its end.

ZEO's own server writes a chunk in the thread of its event loop, never checks that all of it was
written, forgets the file if its client goes away, and ends the connection if the disk is full.  It
also stores each blob's record twice, so that followers get its content twice.

Here a blob is on disk, and followers that can take it ahead of its transaction have it (see
`zrs.sharing`), before the vote asks for the commit lock.  Until then nobody else waits.

Use everything here in the thread of the server's event loop.
"""
from __future__ import absolute_import

import logging
import sys

from ZEO.asyncio.server import Delay
from ZEO.StorageServer import ZEOStorage
from ZODB.POSException import StorageTransactionError

from indico_zodbrepl.dataplane.programs.clock import monotonic
from indico_zodbrepl.dataplane.server.incoming import Incoming

logger = logging.getLogger('zodbrepl.server')

# Seconds that a vote waits for followers that have not yet taken its blobs.  Then they get them
# with the transaction.
LIMIT = 60.0


class UploadingZEOStorage(ZEOStorage):
    """The blob methods of a client's connection.

    Attributes:
        uploads: of the current transaction, each an `Incoming` with what `sharing` knows of it.
    """

    _current = _failure = _waiting = _deadline = None

    def __init__(self, *args):
        ZEOStorage.__init__(self, *args)
        self.uploads = []
        self._blob_oids = set()

    def storeBlobStart(self):
        if self.transaction is None:
            raise StorageTransactionError('a blob without a transaction')
        self._abandon_current()
        try:
            self._current = _Upload(self.storage, self._changed)
        except EnvironmentError as error:
            self._fail(error)
        else:
            self.uploads.append(self._current)

    def storeBlobChunk(self, chunk):
        # After a failure the client goes on sending; the vote reports it.
        if self._current is not None:
            try:
                self._current.write(chunk)
            except EnvironmentError as error:
                self._fail(error)

    def storeBlobEnd(self, oid, serial, data, id):
        self._check_tid(id, exc=StorageTransactionError)
        upload, self._current = self._current, None
        if upload is not None:
            upload.complete()
            self.blob_log.append((oid, serial, data, upload))
            self._blob_oids.add(oid)

    def vote(self, tid):
        self._check_tid(tid, exc=StorageTransactionError)
        if self._waiting is not None:
            raise StorageTransactionError('Already voting (waiting)')
        if self._is_ready():
            return self._lock()
        self._waiting = Delay()
        self._deadline = monotonic() + LIMIT
        self.server.acceptor.event_loop.call_later(LIMIT, self._check)
        return self._waiting

    def tpc_finish(self, id):
        result = ZEOStorage.tpc_finish(self, id)
        self._finish_uploads()
        return result

    def _finish_uploads(self):
        """Note that the transaction of the uploads is committed."""
        for upload in self.uploads:
            upload.finish()
        self.uploads = []

    def notify_disconnected(self):
        self._end_uploads()
        ZEOStorage.notify_disconnected(self)

    def _clear_transaction(self):
        self._end_uploads()
        ZEOStorage._clear_transaction(self)

    def _store(self, oid, serial, data, blobfile=None):
        if blobfile is None:
            # Otherwise its record comes once more, with the file.
            if oid not in self._blob_oids:
                ZEOStorage._store(self, oid, serial, data)
            return
        self._blob_oids.discard(oid)
        ZEOStorage._store(self, oid, serial, data, blobfile.path)
        blobfile.place(oid)

    def _changed(self):
        """Called in any thread."""
        self.call_soon_threadsafe(self._check)

    def _check(self):
        """Let a vote continue that waited for its blobs, if they are where they have to be."""
        if self._waiting is None or not self._is_ready():
            return
        delay, self._waiting = self._waiting, None
        try:
            result = self._lock()
        except Exception:
            delay.error(sys.exc_info())
        else:
            # If it is a Delay of the lock's, that takes this one's place.
            delay.protocol.send_reply(delay.msgid, result)

    def _is_ready(self):
        if self._failure is not None:
            return True
        is_late = self._deadline is not None and monotonic() >= self._deadline
        return all(upload.is_over and (is_late or upload.is_shared()) for upload in self.uploads)

    def _lock(self):
        for upload in self.uploads:
            if upload.error is not None:
                self._fail(upload.error)
        if self._failure is not None:
            raise self._failure
        return self.lock_manager.lock(self, self._vote)

    def _abandon_current(self):
        if self._current is not None:
            self.uploads.remove(self._current)
            self._current.discard()
            self._current = None

    def _fail(self, error):
        logger.error('cannot keep a blob: %s', error)
        self.server.write_failures[self.storage_id].failed(error)
        self._failure = error
        self._abandon_current()

    def _end_uploads(self):
        self.blob_log = []
        for upload in self.uploads:
            upload.discard()
        self.uploads, self._blob_oids = [], set()
        self._current = self._failure = self._waiting = self._deadline = None


class _Upload(Incoming):
    """A blob that a client sends, and that followers of the storage get meanwhile."""

    _shared = _sharing = None

    def __init__(self, storage, changed):
        self._storage = storage
        self._went_on = changed
        Incoming.__init__(self, storage.temporaryDirectory(), self._has_grown)
        self._sharing = getattr(storage, 'sharing', None)
        if self._sharing is not None:
            self._shared = self._sharing.begin(self, changed)

    def is_shared(self):
        """Return True if no follower is about to get it that does not have it yet."""
        return self._shared is None or self._shared.is_shared()

    def place(self, oid):
        """Note that the storage has moved the file to its place in the current transaction."""
        if self._shared is not None:
            tid = self._storage._storage._tid
            self._sharing.place(self._shared, oid, tid,
                                self._storage.fshelper.getBlobFilename(oid, tid))

    def finish(self):
        """Note that its transaction is finished."""
        if self._shared is not None:
            self._sharing.settle(self._shared, True)

    def discard(self):
        if self._shared is not None:
            self._sharing.settle(self._shared, False)
        Incoming.discard(self)

    def _has_grown(self):
        if self._sharing is not None:
            self._sharing.grown()
        if self.is_over:
            self._went_on()
