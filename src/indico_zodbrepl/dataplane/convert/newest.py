"""The last transaction that changed each object, in some 20 bytes an object."""
from BTrees.LLBTree import LLBTree
from ZODB.utils import p64, u64


class Newest(object):
    """Grows while transactions are shown to it, oldest first."""

    def __init__(self):
        self._tids = LLBTree()

    def add(self, transaction):
        tid = u64(transaction.tid)
        for record in transaction.records:
            self._tids[u64(record.oid)] = tid

    def newest(self, oid):
        """Returns the tid of the object's last change; None for an unknown object."""
        tid = self._tids.get(u64(oid))
        return None if tid is None else p64(tid)
