"""New object ids of a ZEO client, each from the server it is connected to.

A ZEO 5.4.1 client fetches a hundred new ids at a time and keeps what is left
of them over a reconnection.  A server that was killed and started again, or
another one that took over, counts on from the last id it stored, so it gives
the same ids out once more: a transaction that uses some of the kept ids and
some new ones then stores two objects under one id, and its commit fails with
ValueError (A different object already has the same oid).
"""
import threading

from ZODB.POSException import ReadOnlyError


class FreshOids(object):
    """Gives out ids that the present server counted; usable from any thread.

    Args:
        storage: a `ZEO.ClientStorage.ClientStorage`.
    """

    def __init__(self, storage):
        self._storage = storage
        self._lock = threading.Lock()
        self._connection = None
        self._oids = []

    def new_oid(self):
        """Returns an id of eight bytes.

        Raises ReadOnlyError on a read-only server, ClientDisconnected if there
        is none in time.
        """
        storage = self._storage
        if storage.is_read_only():
            raise ReadOnlyError()
        with self._lock:
            while not self._oids or self._connection != _connection(storage):
                connection = _connection(storage)
                oids = storage._call('new_oids')
                oids.reverse()
                self._connection, self._oids = connection, oids
            return self._oids.pop()


def _connection(storage):
    return storage._connection_generation
