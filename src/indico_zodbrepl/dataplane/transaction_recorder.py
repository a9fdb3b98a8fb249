"""Keeps `RecentTransactions` in step with a FileStorage."""
from ZODB.FileStorage import FileStorage
from ZODB.utils import u64

import zc.zrs.primary

from indico_zodbrepl.dataplane import membership
from indico_zodbrepl.dataplane.recent_transactions import RecentTransactions

CAPACITY = 10000

# where the first transaction of a data file begins, after its magic
_FIRST = 4


def record(storage, capacity=CAPACITY):
    """Follows the transactions of a storage, replicated or committed.

    Args:
        storage: the storage that is served; zc.zrs layers may be around it.
        capacity: how many transaction ids are kept.

    Returns a `TransactionRecorder`, or None when no FileStorage is inside.
    """
    while isinstance(storage, zc.zrs.primary.Base):
        storage = storage._storage
    if isinstance(storage, FileStorage):
        return TransactionRecorder(storage, capacity)


class TransactionRecorder(object):
    """See `record()`; `recent` is the ring."""

    def __init__(self, storage, capacity):
        self.recent = RecentTransactions(capacity)
        self._storage = storage
        self._capacity = capacity
        finish = storage.tpc_finish

        def tpc_finish(*args):
            tid = finish(*args)
            self.recent.append(tid)
            return tid

        # zc.zrs and ZEO both look the method up at each call.
        storage.tpc_finish = tpc_finish
        self.reread()

    def look_up(self, tid, with_digest=False):
        """See `membership.look_up`.

        Remembers the last digest: the monitor asks for that of the last
        transaction each second, and it may have been a large one.
        """
        digested = self._digested
        if with_digest and digested is not None and digested[0] == tid:
            return digested[1]
        answer = membership.look_up(
            self._storage.getName(), tid, with_digest)
        if answer[1] is not None:
            self._digested = tid, answer
        return answer

    def reread(self):
        """Fills the ring from the file's end, for instance after a pack."""
        self._digested = None
        self.recent.refill(*last_tids(self._storage, self._capacity))


def last_tids(storage, limit):
    """Reads the last transaction ids of a FileStorage, from its file's end.

    Follows the length that the FileStorage format repeats after each
    transaction.  Safe while other threads commit or pack.

    Returns (ids with the oldest first, whether these are all, last id).
    """
    with storage._lock:
        position = storage._pos
        last = storage._ltid
        data = open(storage._file_name, 'rb')
    tids = []
    with data:
        while position > _FIRST and len(tids) < limit:
            data.seek(position - 8)
            position -= u64(data.read(8)) + 8
            data.seek(position)
            tids.append(data.read(8))
    tids.reverse()
    return tids, position <= _FIRST, last
