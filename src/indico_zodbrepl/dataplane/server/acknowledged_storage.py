"""A client's connection to a primary that acknowledges commits when followers have them.

What is committed and not acknowledged (see `acknowledgements`) is on this primary's disk, and shown to
no client: not in what it loads, not in lists of transactions, not in invalidations, and not by a
conflict.

Use everything here in the thread of the server's event loop.
"""
from __future__ import absolute_import

import logging
import sys

from ZEO.asyncio.server import Delay
from ZEO.StorageServer import run_in_thread
from ZODB.POSException import POSError, POSKeyError, ReadOnlyError
from ZODB.TimeStamp import TimeStamp

from indico_zodbrepl.dataplane.server.uploads import UploadingZEOStorage

logger = logging.getLogger('zodbrepl.synchronous')


class AcknowledgedZEOStorage(UploadingZEOStorage):
    """The methods that commit, and those that show what was committed."""

    @property
    def _acks(self):
        return self.server.acknowledgements

    def register(self, storage_id, read_only):
        if not self._acks.is_starting:
            return UploadingZEOStorage.register(self, storage_id, read_only)
        delay = Delay()

        def register():
            if not self.connected:
                return
            try:
                # The role of the server may have changed meanwhile.
                delay.reply(self.register(storage_id, read_only))
            except Exception:
                delay.error(sys.exc_info())
        self._acks.after_start(register)
        return delay

    def setup_delegation(self):
        UploadingZEOStorage.setup_delegation(self)
        self.lastTransaction = self._last_transaction
        self.getTid = self._get_tid
        self.loadSerial = self._load_serial
        self.record_iternext = self._record_iternext

    # Commits:

    def tpc_finish(self, id):
        if self._acks.horizon is None:
            return UploadingZEOStorage.tpc_finish(self, id)
        if not self._check_tid(id):
            return None
        assert self.locked, 'finished called wo lock'
        refusal = self._acks.refusal
        if refusal is not None:
            self.tpc_abort(id)
            raise ReadOnlyError(refusal)
        self.stats.commits += 1
        tid = self.storage.tpc_finish(self.transaction)
        self._finish_uploads()
        invalidated, info = self.invalidated, self.get_size_info()
        # Others may commit while this client waits.
        self._clear_transaction()
        delay = Delay()

        def acknowledge():
            waits = self.connected and delay.sent is None
            self.server.invalidate_now(self if waits else None, self.storage_id, tid, invalidated)
            if not waits:
                return
            if self.server.gate.is_role_lost:
                logger.warning('transaction %s was confirmed after the role of primary was lost: its '
                               'outcome is unknown', tid.encode('hex'))
                self.connection.close()
                return
            self.async_('info', info)
            delay.reply(tid)

        def give_up():
            if self.connected and delay.sent is None:
                delay.sent = 'error'
                logger.warning('transaction %s was not confirmed in time: it is in doubt',
                               tid.encode('hex'))
                # Each release of the client knows what this means at the end of a commit.
                delay.protocol.send_error(delay.msgid, IOError(
                    'transaction %s is on the disk of the primary, and was not confirmed in time by '
                    'secondaries: its outcome is unknown' % tid.encode('hex')))

        self._acks.expect(tid, acknowledge, give_up)
        return delay

    def _vote(self, delay=None):
        try:
            result = UploadingZEOStorage._vote(self, delay)
        except POSError:
            if not self._acks.has_pending:
                raise
            return self._held_back(sys.exc_info())
        if self.conflicts and self._acks.has_pending:
            return self._held_back(None, result)
        return result

    def _held_back(self, error, result=None):
        """Return the answer to a vote that may conflict with what the client cannot see yet.

        It would try again in vain.
        """
        delay = Delay()

        def answer():
            if self.connected and delay.sent is None:
                if error is not None:
                    delay.error(error)
                else:
                    delay.reply(result)
        self._acks.after_pending(answer)
        return delay

    # What was committed:

    def _last_transaction(self):
        return self._acks.horizon or self.storage.lastTransaction()

    def loadBefore(self, oid, tid):
        acks = self._acks
        if acks.horizon is None:
            return UploadingZEOStorage.loadBefore(self, oid, tid)
        found = UploadingZEOStorage.loadBefore(self, oid, acks.visible(tid))
        if found is not None and found[2] is not None and not acks.shows(found[2]):
            return found[:2] + (None,)
        return found

    def _get_tid(self, oid):
        tid = self.storage.getTid(oid)
        if self._acks.shows(tid):
            return tid
        found = self.loadBefore(oid, tid)
        if found is None:
            raise POSKeyError(oid)
        return found[1]

    def _load_serial(self, oid, serial):
        self._require_shown(oid, serial)
        return self.storage.loadSerial(oid, serial)

    def sendBlob(self, oid, serial):
        self._require_shown(oid, serial)
        return super(AcknowledgedZEOStorage, self).sendBlob(oid, serial)

    def _require_shown(self, oid, serial):
        if not self._acks.shows(serial):
            raise POSKeyError(oid)

    def history(self, oid, size=1):
        shows = self._acks.shows
        if self._acks.horizon is None:
            return UploadingZEOStorage.history(self, oid, size)
        return self.storage.history(oid, size=size, filter=lambda each: shows(each['tid']))

    def undoLog(self, first, last):
        return run_in_thread(self.storage.undoLog, first, last, self._shown_and())

    def undoInfo(self, first, last, spec):
        return run_in_thread(self.storage.undoLog, first, last, self._shown_and(spec))

    def _shown_and(self, spec=None):
        """Return a filter of descriptions of transactions."""
        horizon, items = self._acks.horizon, (spec or {}).items()
        if horizon is None and not items:
            return None

        def is_wanted(description):
            return ((horizon is None or description['id'].decode('base64') <= horizon) and
                    all(description.get(key) == value for key, value in items))
        return is_wanted

    def iterator_start(self, start, stop):
        horizon = self._acks.horizon
        if horizon is not None and (stop is None or stop > horizon):
            stop = horizon
        return UploadingZEOStorage.iterator_start(self, start, stop)

    def _record_iternext(self, next=None):
        found = self.storage.record_iternext(next)
        if self._acks.horizon is None:
            return found
        oid, tid, data, following = found
        while following is not None and not self._is_shown(following):
            following = self.storage.record_iternext(following)[3]
        if not self._acks.shows(tid):
            shown = self.loadBefore(oid, tid)
            if shown is None:
                if following is None:
                    raise POSKeyError(oid)
                return self._record_iternext(following)
            data, tid = shown[:2]
        return oid, tid, data, following

    def _is_shown(self, oid):
        try:
            self._get_tid(oid)
        except POSKeyError:
            return False
        return True

    def _pack_impl(self, time):
        horizon = self._acks.horizon
        if horizon is not None:
            # What replaced it is not shown yet.
            time = min(time, TimeStamp(horizon).timeTime())
        UploadingZEOStorage._pack_impl(self, time)
