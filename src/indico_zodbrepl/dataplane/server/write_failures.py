"""Count the writes that fail on a data file's disk."""
from __future__ import absolute_import

import os
import threading
import time

import zc.zrs.primary
from ZODB.FileStorage import FileStorage

from indico_zodbrepl.dataplane.server.status import inside

# Methods that commits and replication call; a failed transaction does not reach the later ones.
_WRITES = ('store', 'restore', 'deleteObject', 'storeBlob', 'restoreBlob',
           'tpc_vote', 'tpc_finish')


def count_failure(storage, error):
    """Count a write that failed outside of a storage's own methods, if the storage is watched.

    Args:
        storage: zc.zrs layers may be around it.
        error: the EnvironmentError.
    """
    count = getattr(inside(storage), 'count_failed_write', None)
    if count is not None:
        count(error)


class WriteFailures(object):
    """The failed writes of a storage since the last transaction it finished.

    Any thread may use it.

    Args:
        storage: the storage that is served; zc.zrs layers may be around it.
            Without a FileStorage inside there is nothing to count.
    """

    def __init__(self, storage):
        self._lock = threading.Lock()
        self._found = self._last = None
        while isinstance(storage, zc.zrs.primary.Base):
            # It has copied the methods of the storage inside.
            self._watch(storage, [
                name for name in _WRITES if name in vars(storage)])
            storage = storage._storage
        if isinstance(storage, FileStorage):
            self._watch(storage, _WRITES)
            storage.count_failed_write = self.failed

    def last(self):
        """Return a dict of error, count, since and at (seconds since 1970).

        None if the last transaction was written.
        """
        with self._lock:
            return self._found and dict(self._found)

    def failed(self, error):
        """Count a failed write, an EnvironmentError, unless that was just done."""
        if error is self._last:
            return
        self._last = error
        why = os.strerror(error.errno) if error.errno else str(error)
        with self._lock:
            if self._found is None:
                self._found = {'since': int(time.time()), 'count': 0}
            self._found['error'] = why
            self._found['at'] = int(time.time())
            self._found['count'] += 1

    def _watch(self, storage, names):
        for name in names:
            setattr(storage, name, self._watched(
                getattr(storage, name), name == 'tpc_finish'))

    def _watched(self, write, is_last):
        def watched(*args, **options):
            try:
                result = write(*args, **options)
            except EnvironmentError as error:
                self.failed(error)
                raise
            if is_last:
                self._found = None
            return result

        return watched
