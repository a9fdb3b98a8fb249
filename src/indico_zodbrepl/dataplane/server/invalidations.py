"""What the last transactions have changed, for clients that reconnect."""
from __future__ import absolute_import

from indico_zodbrepl.dataplane.datafs.datafile import DataFile
from indico_zodbrepl.dataplane.datafs.records import UNDONE

# Bytes of the transactions that are read when a server starts; that took 0.26 s.
MOST_BYTES = 1 << 26

# Objects of all transactions in a queue; the oid of one takes about 50 bytes.
MOST_OBJECTS = 1 << 18


class Invalidations(list):
    """ZEO's queue of a storage: tuples of tid and oids, newest first.

    ZEO's own limit is a number of transactions.  After a bulk load those take gigabytes, so here
    the number of their objects is limited too.  The newest transaction that does not fit ends the
    queue with None instead of oids: a client that has it needs only the others.

    For one thread at a time, but any may copy it.

    Args:
        items: what is in it already.
        limit: number of transactions.
    """

    def __init__(self, items, limit):
        list.__init__(self, items)
        self._limit = limit
        self._objects = sum(_count(each) for each in self)

    def add(self, tid, oids):
        """Add a transaction, which is newer than all others."""
        self.insert(0, (tid, list(oids)))
        self._objects += len(oids)
        left_out = None
        while len(self) > self._limit or self._objects > MOST_OBJECTS:
            left_out = self.pop()
            self._objects -= _count(left_out)
        if left_out is not None:
            self.append((left_out[0], None))

    def forget_after(self, tid):
        """Forget the transactions that are newer than this one."""
        while self and self[0][0] > tid:
            self._objects -= _count(self.pop(0))


def _count(item):
    _, oids = item
    return 0 if oids is None else len(oids)


def read(storage, limit):
    """Return the last transactions of a FileStorage, as a queue has them.

    `FileStorage.lastInvalidations` reads as many transactions whatever their size, which takes
    minutes after a bulk load.

    Args:
        storage: the FileStorage.  Its lock is held meanwhile.
        limit: number of transactions.

    Raises DataFileError.
    """
    found, size = [], 0
    with storage._lock, DataFile(storage._file_name) as data_file:
        data_file.end = storage._pos
        for transaction in data_file.backward():
            size += transaction.size
            if len(found) == limit:
                break
            if size > MOST_BYTES:
                found.append((transaction.tid, None))
                break
            if transaction.status != UNDONE:
                found.append((transaction.tid, list(data_file.oids(transaction))))
    return found
