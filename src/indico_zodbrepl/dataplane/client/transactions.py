"""Write access, completion and new object ids across a change of server.

A ZEO client that loses its writable server reads from another one within
milliseconds, and is writable again as soon as a server is promoted.  Indico
answers 503 to a ReadOnlyError and retries after ClientDisconnected; `WriteAccess`
lets writers wait for the promotion.

`Completion` prevents a connection that is lost after the end of a transaction
from being reported as the failure of that transaction.

Object ids: a ZEO 5.4.1 client fetches a hundred new ids at a time and keeps the
rest across a reconnection.  A restarted server, or one that took over, counts on
from the last id it stored, and issues the same ids again.  A transaction that
uses kept and new ids then stores two objects under one id, and its commit fails
with ValueError.  So each id comes from the current server (`FreshOids`), and a
transaction with ids of an earlier connection gets no more.  RelStorage 3.5.0
takes sixteen ids at a time, possibly in the transaction that saves, and keeps
them even if that one is not committed (`CommittedOids`).
"""
from __future__ import absolute_import

import functools
import logging
import threading
import time

from ZEO.Exceptions import ClientDisconnected
from ZODB.POSException import ConflictError, ReadOnlyError

from indico_zodbrepl.dataplane.client.reconnection import what_is_missing
from indico_zodbrepl.dataplane.client.relstorage import Behind
from indico_zodbrepl.dataplane.client.translation import StorageAway
from indico_zodbrepl.dataplane.programs.clock import monotonic

# Seconds after the loss of the writable server during which writers wait; a longer outage is
# reported at once.
PATIENCE = 3.0
# The same with automatic failover, which takes a few seconds.
AUTOMATIC_PATIENCE = 8.0

_POLL = 0.01
_LATE_POLL = 0.05  # a server that is late has enough to do


class WriteAccess(object):
    """Wraps methods of a `ZEO.ClientStorage.ClientStorage`; any thread may use them.

    Args:
        storage: the client storage.
        watchdog: its Watchdog, which knows since when it is not writable.
    """

    def __init__(self, storage, watchdog):
        self._storage = storage
        self._watchdog = watchdog

    def beginning(self, method):
        """Return `method`, called once the storage is writable or patience ends."""
        @functools.wraps(method, assigned=('__name__', '__doc__'), updated=())
        def call(*args, **kwargs):
            self._wait()
            return method(*args, **kwargs)
        return call

    def under_way(self, method):
        """Return `method`; it raises StorageAway if the storage became read-only.

        The transaction began while it was writable.  So its server, and the transaction,
        are lost.
        """
        @functools.wraps(method, assigned=('__name__', '__doc__'), updated=())
        def call(*args, **kwargs):
            try:
                return method(*args, **kwargs)
            except ReadOnlyError as error:
                if not self._storage.is_read_only():
                    raise
                raise StorageAway(error)
        return call

    def aborting(self, method):
        """Return `method`, which ignores that there is nothing left to abort.

        A read-only server that replaced the lost one would answer with ReadOnlyError.
        """
        @functools.wraps(method, assigned=('__name__', '__doc__'), updated=())
        def call(*args, **kwargs):
            try:
                return method(*args, **kwargs)
            except ReadOnlyError:
                if not self._storage.is_read_only():
                    raise
        return call

    def _wait(self):
        if not what_is_missing(self._storage):
            return
        since = self._watchdog.missing_since or monotonic()
        patience = AUTOMATIC_PATIENCE if self._watchdog.switching.is_automatic else PATIENCE
        while monotonic() < since + patience and what_is_missing(self._storage):
            time.sleep(_POLL)


log = logging.getLogger(__name__)


class Completion(object):
    """The methods of an IMVCCStorage that ZODB calls after a transaction.

    ZODB then polls for invalidations, to release objects early.  A server lost at that
    moment would make a successful commit look failed, or hide that the outcome of
    another one is unknown: Indico would repeat what may be saved.  Nothing is lost by
    silence: the next use of the storage reports the problem.

    Not thread-safe, like the storage.

    Args:
        storage: an IMVCCStorage.
        translate: see `translation.translated`.
    """

    def __init__(self, storage, translate):
        self._storage = storage
        self._translate = translate
        self._at_the_end = False

    def sync(self, force=True):
        """Prepare a poll; `force` is false after the end of a transaction."""
        self._at_the_end = not force
        self._storage.sync(force)

    def poll_invalidations(self):
        """Return the ids of changed objects; None if all count as changed.

        At the beginning of a transaction, wait for a server that has what was seen.
        """
        while True:
            try:
                return self._storage.poll_invalidations()
            except Exception as error:
                if self._at_the_end:
                    self._silence(error)
                    return None
                if not isinstance(error, Behind):
                    raise
            time.sleep(_LATE_POLL)

    def after_completion(self):
        """Release what the transaction used."""
        try:
            self._storage.afterCompletion()
        except Exception as error:
            self._silence(error)

    def _silence(self, error):
        if not isinstance(
                self._translate(error), (ClientDisconnected, ConflictError)):
            raise
        log.info('after the end of a transaction: %s: %s',
                 type(error).__name__, error)


class FreshOids(object):
    """Issues ids from the current server.  Thread-safe.

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
        """Return an id of eight bytes.

        Raise ReadOnlyError on a read-only server.  Raise ClientDisconnected without a server
        in time, or if this thread has ids of an earlier connection and has not called an
        `ending` method since.
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
        """Return `method`, after which this thread's next id is for another transaction."""
        @functools.wraps(method, assigned=('__name__', '__doc__'), updated=())
        def call(*args, **kwargs):
            try:
                return method(*args, **kwargs)
            finally:
                vars(self._under_way).clear()
        return call


class CommittedOids(object):
    """Issues a RelStorage's ids, except those of an uncommitted transaction.

    One thread at a time, like the storage.

    Args:
        storage: a `relstorage.storage.RelStorage`.
    """

    def __init__(self, storage):
        self._storage = storage
        self._connection = None

    def new_oid(self):
        """Return an id of eight bytes; raise what the storage raises."""
        # The server differs after a lost connection, and may not know the ids.
        if self._connection is not self._storage._load_connection.connection:
            self._forget()
            self._connection = self._storage._load_connection.connection
        try:
            return self._storage.new_oid()
        except Exception:
            self._forget()
            raise

    def tpc_abort(self, transaction, **kwargs):
        """Abort a transaction of the storage, and discard the ids it may have taken."""
        self._forget()
        self._storage.tpc_abort(transaction, **kwargs)

    def _forget(self):
        # Stale and read-only storages keep no ids.
        if hasattr(self._storage._oids, 'preallocated_oids'):
            self._storage._oids.preallocated_oids = []


def _connection(storage):
    return storage._connection_generation
