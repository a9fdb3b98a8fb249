"""Notice that a database server lacks transactions that this process has seen.

What a server that accepts writes lacks is lost.  A read-only one may only be
late, so readers wait for it, or for another server, before they see an older state again.
"""
from __future__ import absolute_import

import logging
import threading

import zope.interface
from relstorage.adapters.interfaces import IPoller
from ZODB.utils import u64

from indico_zodbrepl.dataplane.client.relstorage import READ_ONLY_QUERIES, Behind
from indico_zodbrepl.dataplane.programs.clock import monotonic

log = logging.getLogger(__name__)

SEARCH = 0.25  # seconds between two searches for another server


class NewestSeen(object):
    """The newest transaction that this process has read or committed.  Thread-safe.

    Args:
        patience: seconds for which a reader waits for a server that has it.
        search: called in a thread of its own, one at a time; lets all read from another read-only
            server that has it, if there is one.

    Attributes:
        tid: its number; 0 before the first one.
        patience: see above.
    """

    def __init__(self, patience, search):
        self.tid = 0
        self.patience = patience
        self._search = search
        self._searching = False
        self._search_at = 0
        self._lock = threading.Lock()

    def saw(self, tid):
        """Remember a transaction that this process knows; a server has everything up to it."""
        with self._lock:
            self.tid = max(self.tid, tid)

    def lost(self, tid):
        """Accept `tid` as the newest transaction that there is."""
        with self._lock:
            self.tid = tid

    def search(self):
        """Begin a search for another server, unless one is under way or has just ended."""
        with self._lock:
            if self._searching or monotonic() < self._search_at:
                return
            self._searching = True
        thread = threading.Thread(target=self._run, name='search for a database server')
        thread.setDaemon(True)
        thread.start()

    def _run(self):
        try:
            self._search()
        except Exception:  # readers wait, and go on without it
            log.exception('the search for another server failed')
        with self._lock:
            self._searching = False
            self._search_at = monotonic() + SEARCH


@zope.interface.implementer(IPoller)
class LostTransactions(object):
    """Checks at each poll whether the server still has the newest transaction that was seen.

    With history this is the row of that transaction.  Without history the row
    disappears when its objects are stored again.  So it is checked only on a new
    connection, and caches may be emptied although nothing was lost.

    Not thread-safe, like the storage.  Emptied caches are those of all its instances.

    Args:
        storage: a `relstorage.storage.RelStorage`, whose cache polls here from now on.
        newest: the `NewestSeen` of all its instances.
    """

    def __init__(self, storage, newest):
        adapter = storage._adapter
        self._storage = storage
        self._cache = storage._cache
        self._loading = storage._load_connection
        self._newest = newest
        self._keep_history = adapter.keep_history
        self._connection = None
        self._late_since = None
        self._is_read_only = READ_ONLY_QUERIES.get(adapter.driver_options.database_type)
        if self._is_read_only is not None:
            self._poller = adapter.poller
            adapter.poller = self

    def poll_invalidations(self, connection, cursor, since):
        """See `relstorage.adapters.interfaces.IPoller`; (None, 0) makes all objects invalid.

        Raise `Behind` if a read-only server lacks what was seen, for as long as a reader waits.
        """
        # Before the poll, which takes the snapshot: other threads may see newer transactions.
        self._newest.saw(since)
        seen = self._newest.tid
        changes, newest = self._poller.poll_invalidations(connection, cursor, since)
        changes = changes and list(changes)
        log.debug('polled %s since %016x: %016x, %016x was seen',
                  getattr(connection, 'replica', None), since, newest, seen)
        self._require(cursor, newest, seen)
        has_all = self._has_all(connection, cursor, since, newest, seen)
        self._connection, self._late_since = connection, None
        if not has_all:
            log.warning('the server never had transaction %016x, or has it no more: '
                        'all caches are emptied', seen)
            self._cache.clear(load_persistent=False)
            self._newest.lost(newest)
            return None, 0
        self._newest.saw(newest)
        return changes, newest

    def get_current_tid(self, cursor):
        """See `IPoller`; the first poll after the caches were emptied calls only this.

        Raises as `poll_invalidations`.
        """
        newest = self._poller.get_current_tid(cursor)
        self._require(cursor, newest, self._newest.tid)
        return newest

    def committing(self, method):
        """Return `tpc_finish`, whose transaction counts as seen if it has objects."""
        def tpc_finish(*args, **kwargs):
            # What it returns is empty when the transaction has ended.
            stores = bool(self._storage._tpc_phase.shared_state.has_temp_data())
            tid = method(*args, **kwargs)
            if stores:
                self._newest.saw(u64(tid))
            return tid
        return tpc_finish

    def _require(self, cursor, newest, seen):
        """Raise `Behind` if a server is late, and its reader has to wait."""
        if newest >= seen:
            self._late_since = None
        elif self._is_late(cursor):
            self._newest.search()
            # A load without another poll would read from this server.
            self._loading.rollback_quietly()
            raise Behind('the newest transaction of a read-only server is %016x, and %016x was '
                         'seen' % (newest, seen))

    def _is_late(self, cursor):
        """Return True if a server is read-only, and its reader has not waited long enough."""
        if not self._asked(cursor, self._is_read_only):
            return False
        if self._late_since is None:
            self._late_since = monotonic()
        return monotonic() - self._late_since < self._newest.patience

    def _has_all(self, connection, cursor, since, newest, seen):
        if newest == since == seen:
            return True
        if self._keep_history:
            return not seen or self._has(cursor, 'transaction', seen)
        return newest >= seen and (
            connection is self._connection or not seen or
            self._has(cursor, 'object_state', seen))

    def _has(self, cursor, table, tid):
        return self._asked(cursor, 'SELECT COUNT(*) FROM %s WHERE tid = %d' % (table, tid))

    @staticmethod
    def _asked(cursor, query):
        cursor.execute(query)
        return bool(cursor.fetchall()[0][0])
