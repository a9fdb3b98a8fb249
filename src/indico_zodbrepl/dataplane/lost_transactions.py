"""Forgets what a RelStorage remembers of transactions that its server never had.

After a failover the database may be without the last transactions of the old primary.  RelStorage
3.5.0 asks the new one only what has changed since the last transaction that it knows.  If that one
was lost, what it changed is never named: objects stay in the caches as they were in it, for ever,
and each commit to one of them is a conflict.
"""
import logging

log = logging.getLogger(__name__)

DATABASES = ('postgresql', 'mysql')


class LostTransactions(object):
    """Looks, whenever something has changed, whether the server has what was known before.

    With history that is the row of the last transaction.  Without, that row goes when its objects
    are stored again; so it is looked for on a new connection only, and the caches may be emptied
    although nothing was lost.

    Not thread-safe, as the storage itself; the caches it empties are those of all its instances.

    Args:
        storage: a `relstorage.storage.RelStorage`, whose poller asks here from now on.
    """

    def __init__(self, storage):
        adapter = storage._adapter
        self._cache = storage._cache
        self._keep_history = adapter.keep_history
        self._connection = None
        if adapter.driver_options.database_type in DATABASES:
            self._poll = adapter.poller.poll_invalidations
            adapter.poller.poll_invalidations = self.poll_invalidations

    def poll_invalidations(self, connection, cursor, since):
        """See `relstorage.adapters.interfaces.IPoller`; (None, 0) makes all objects invalid."""
        changes, newest = self._poll(connection, cursor, since)
        if since and newest != since:
            changes = changes and list(changes)
            if newest < since or not self._has(connection, cursor, since):
                log.warning('the server never had transaction %016x, or has it no more: '
                            'all caches are emptied', since)
                self._cache.clear(load_persistent=False)
                changes, newest = None, 0
        self._connection = connection
        return changes, newest

    def _has(self, connection, cursor, tid):
        if not self._keep_history and connection is self._connection:
            return True
        cursor.execute('SELECT COUNT(*) FROM %s WHERE tid = %d' % (
            'transaction' if self._keep_history else 'object_state', tid))
        return bool(cursor.fetchall()[0][0])
