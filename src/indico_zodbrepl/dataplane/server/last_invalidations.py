"""What the last transactions of a data file have changed, for clients that come again."""
from __future__ import absolute_import

from indico_zodbrepl.dataplane.datafs.datafile import DataFile
from indico_zodbrepl.dataplane.datafs.records import UNDONE

# Bytes of the transactions that are read.  That takes about a second.
MOST = 1 << 26


def last_invalidations(storage, count):
    """Return the ids of the last transactions of a FileStorage with the oids of their objects.

    They are tuples, newest first, as ZEO's queue has them.  `FileStorage.lastInvalidations` reads
    as many transactions whatever their size, which takes minutes after a bulk load.  Here those
    that do not fit are left out.  The newest of these ends the result with None instead of oids:
    a client that has it needs only the others.

    Args:
        storage: the FileStorage.  Its lock is held meanwhile.
        count: of transactions, at most.

    Raises DataFileError.
    """
    found, size = [], 0
    with storage._lock, DataFile(storage._file_name) as data_file:
        data_file.end = storage._pos
        for transaction in data_file.backward():
            size += transaction.size
            if len(found) == count:
                break
            if size > MOST:
                found.append((transaction.tid, None))
                break
            if transaction.status != UNDONE:
                found.append((transaction.tid, list(data_file.oids(transaction))))
    return found
