"""Write the records that a follower receives, many at once."""
from __future__ import absolute_import

from ZODB.POSException import StorageTransactionError

from indico_zodbrepl.dataplane.datafs.records import RECORD


def restore(storage, records, transaction):
    """Do what `FileStorage.restore` does, for several records that have their own data.

    That takes its lock twice for each, which costs more than all the rest: the reentrant lock of
    Python 2.7 is written in Python.

    Args:
        storage: the FileStorage.
        records: tuples of oid, tid and data.  The data are not empty.
        transaction: the one that is being replicated.

    Raises as `restore`.
    """
    with storage._lock:
        if transaction is not storage._transaction:
            raise StorageTransactionError(storage, transaction)
        begin, known, previous_of = storage._pos, storage._oid, storage._index_get
        placed, pack, head_size = storage._tindex, RECORD.pack, RECORD.size
        position = begin + storage._thl + storage._tfile.tell()
        parts = []
        for oid, tid, data in records:
            # The index has no object beyond the largest oid.
            previous = 0 if oid > known else previous_of(oid, 0)
            size = len(data)
            parts += pack(oid, tid, previous, begin, 0, size), data
            placed[oid] = position
            position += head_size + size
        storage._tfile.write(b''.join(parts))
        storage.set_max_oid(max(records)[0])
