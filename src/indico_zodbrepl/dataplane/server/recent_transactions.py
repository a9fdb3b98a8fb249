"""The ids of a storage's last transactions, in memory."""
from __future__ import absolute_import

import collections
import logging
import threading

from ZODB.FileStorage import FileStorage

from indico_zodbrepl.dataplane.datafs.failures import DataFileError
from indico_zodbrepl.dataplane.datafs.membership import Landmarks, look_up
from indico_zodbrepl.dataplane.datafs.packs import note_pack
from indico_zodbrepl.dataplane.server.status import inside
from indico_zodbrepl.dataplane.zrs.repairs import BEGINNING, beginning_of

logger = logging.getLogger('zodbrepl.server')


class RecentTransactions(object):
    """A ring of ascending transaction ids; any thread may use it.

    Args:
        capacity: maximum number of ids.
    """

    def __init__(self, capacity):
        self._lock = threading.Lock()
        self._tids = collections.deque(maxlen=capacity)
        self._complete = False

    def append(self, tid):
        """Add the id of a transaction that has just finished."""
        with self._lock:
            self._add(tid)

    def refill(self, tids, complete, last):
        """Replace all ids up to `last`; keep newer ones.

        Args:
            tids: the storage's ids when it was read, oldest first.
            complete: True if it held nothing older than these.
            last: the storage's last transaction id when it was read.
        """
        with self._lock:
            newer = [tid for tid in self._tids if tid > last]
            self._tids.clear()
            self._complete = complete
            for tid in list(tids) + newer:
                self._add(tid)

    def count_after(self, tid):
        """Return the number of ids newer than `tid`, and True if it is exact.

        Otherwise there are at least that many.
        """
        with self._lock:
            count = 0
            for each in reversed(self._tids):
                if each <= tid:
                    return count, True
                count += 1
            return count, self._complete

    def first_after(self, tid):
        """Return the oldest id that is newer than `tid`.

        None if there is none, or if the ring does not reach back that far.
        """
        with self._lock:
            first = None
            for each in reversed(self._tids):
                if each <= tid:
                    return first
                first = each
            return first if self._complete else None

    def holds(self, tid):
        """Return True if `tid` is in the ring; otherwise it may still be older."""
        with self._lock:
            return tid in self._tids

    def _add(self, tid):
        if len(self._tids) == self._tids.maxlen:
            self._complete = False
        self._tids.append(tid)


CAPACITY = 10000


def record(storage, capacity=CAPACITY):
    """Record the transactions of a storage, replicated or committed.

    Args:
        storage: the storage that is served; zc.zrs layers may be around it.
        capacity: maximum number of transaction ids.

    Returns a `TransactionRecorder`; None if there is no FileStorage inside.
    """
    storage = inside(storage)
    if isinstance(storage, FileStorage):
        return TransactionRecorder(storage, capacity)


class TransactionRecorder(object):
    """A recorder of a storage's transactions; see `record()`; `recent` is the ring."""

    def __init__(self, storage, capacity):
        self.recent = RecentTransactions(capacity)
        self._storage = storage
        self._capacity = capacity
        self._lock = threading.Lock()
        self._landmarks = Landmarks()
        # Locks of the digests that are computed now, by transaction.
        self._digesting = {}
        finish = storage.tpc_finish

        def tpc_finish(*args):
            tid = finish(*args)
            self.recent.append(tid)
            return tid

        # zc.zrs and ZEO look the method up at each call.
        storage.tpc_finish = tpc_finish
        self.reread()

    def look_up(self, tid, with_digest=False):
        """Look a transaction up; see the function `look_up`.

        Caches the last digest: the monitor requests that of the last
        transaction each second, and the transaction may be large.  Then
        further threads that request the same digest wait for it.
        """
        if not with_digest:
            return look_up(self._storage.getName(), tid, False, self._landmarks)
        with self._lock:
            digesting = self._digesting.setdefault(tid, threading.Lock())
        try:
            with digesting:
                digested = self._digested
                if digested is not None and digested[0] == tid:
                    return digested[1]
                answer = look_up(self._storage.getName(), tid, True, self._landmarks)
                if answer[1] is not None:
                    self._digested = tid, answer
                return answer
        finally:
            with self._lock:
                self._digesting.pop(tid, None)

    def packed(self, seconds):
        """Note a pack that has ended, and read the file again.

        Args:
            seconds: the pack's time, since 1970.
        """
        try:
            note_pack(self._storage.getName(), seconds)
        except (EnvironmentError, DataFileError) as error:
            # Comparisons count unknown transactions as packed away, and say so.
            logger.error('cannot note the time of the pack: %s', error)
        self.reread()

    def reread(self):
        """Fill the ring from the end of the file, for example after a pack."""
        self._digested = None
        self.recent.refill(*last_tids(self._storage, self._capacity))


def last_tids(storage, limit):
    """Read the last transaction ids of a FileStorage from the end of its file.

    Follows the length that the FileStorage format repeats after each
    transaction.  Safe while other threads commit or pack.

    Returns (ids with the oldest first, True if these are all, last id).
    """
    with storage._lock:
        position = storage._pos
        last = storage._ltid
        data = open(storage._file_name, 'rb')
    tids = []
    with data:
        while position > BEGINNING and len(tids) < limit:
            position = beginning_of(data, position)
            data.seek(position)
            tids.append(data.read(8))
    tids.reverse()
    return tids, position <= BEGINNING, last
