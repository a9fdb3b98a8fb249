"""New object ids that no other transaction gets as well.

A ZEO 5.4.1 client fetches a hundred new ids at a time and keeps what is left
of them over a reconnection.  A server that was killed and started again, or
another one that took over, counts on from the last id it stored, so it gives
the same ids out once more: a transaction that uses some of the kept ids and
some new ones then stores two objects under one id, and its commit fails with
ValueError (A different object already has the same oid).  So each comes from
the server that the client is connected to, and a transaction that has ids of
an earlier connection gets no more: that connection is lost, and it with it.

RelStorage 3.5.0 takes sixteen ids by a transaction of its own, or by the one
under way where it saves, and keeps them also when that one is not committed, as
when the server is killed just then.  A server that counts by a table, MariaDB,
then gives them out once more; so does any that took over and had not been sent
the transaction that took them.
"""
import functools
import threading

from ZEO.Exceptions import ClientDisconnected
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
        self._under_way = threading.local()

    def new_oid(self):
        """Returns an id of eight bytes.

        Raises ReadOnlyError on a read-only server, ClientDisconnected if there
        is none in time, or if this thread has ids of an earlier connection and
        has not called a method that is `ending` since.
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
            connection, oid = self._connection, self._oids.pop()
        under_way = vars(self._under_way)
        if under_way.setdefault('connection', connection) != connection:
            under_way.clear()
            raise ClientDisconnected('its transaction began on a connection that was lost')
        return oid

    def ending(self, method):
        """Returns `method`, after which this thread's next id is of another transaction."""
        @functools.wraps(method, assigned=('__name__', '__doc__'), updated=())
        def call(*args, **kwargs):
            try:
                return method(*args, **kwargs)
            finally:
                vars(self._under_way).clear()
        return call


class CommittedOids(object):
    """Gives out a RelStorage's ids, none of a transaction that was not committed.

    As thread-safe as the storage: one thread at a time.

    Args:
        storage: a `relstorage.storage.RelStorage`.
    """

    def __init__(self, storage):
        self._storage = storage
        self._connection = None

    def new_oid(self):
        """Returns an id of eight bytes; raises what the storage raises."""
        # It is another one when its server was lost, and perhaps the ids with it.
        if self._connection is not self._storage._load_connection.connection:
            self._forget()
            self._connection = self._storage._load_connection.connection
        try:
            return self._storage.new_oid()
        except Exception:
            self._forget()
            raise

    def tpc_abort(self, transaction, **kwargs):
        """Aborts a transaction of the storage's, and ids with it that it may have taken."""
        self._forget()
        self._storage.tpc_abort(transaction, **kwargs)

    def _forget(self):
        # Stale and read-only ones keep none.
        if hasattr(self._storage._oids, 'preallocated_oids'):
            self._storage._oids.preallocated_oids = []


def _connection(storage):
    return storage._connection_generation
