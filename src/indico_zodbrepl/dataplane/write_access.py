"""Lets writers wait out the moment in which another server takes over.

A ZEO client that loses its writable server reads from another one within
milliseconds, and is writable again as soon as that or a third one is promoted.
Indico answers 503 to a ReadOnlyError, and tries again after ClientDisconnected.
"""
import functools
import time

from ZODB.POSException import ReadOnlyError

from .translation import StorageAway
from .watchdog import what_is_missing

# Seconds from the loss of the writable server during which writers wait; an
# outage that lasts longer is told at once.
PATIENCE = 3.0

_POLL = 0.01


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
        """Returns `method`, called when the storage is writable or patience ends."""
        @functools.wraps(method, assigned=('__name__', '__doc__'), updated=())
        def call(*args, **kwargs):
            self._wait()
            return method(*args, **kwargs)
        return call

    def under_way(self, method):
        """Returns `method`; where the storage has become read-only, it is away.

        The transaction began while it was writable, so what it was connected to
        is lost, and the transaction with it.
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
        """Returns `method`, which has nothing to abort where the server is gone.

        A read-only one that took its place would answer with ReadOnlyError.
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
        since = self._watchdog.missing_since or time.time()
        while time.time() < since + PATIENCE and what_is_missing(self._storage):
            time.sleep(_POLL)
