"""A NEO cluster that is filled: it has no `restore`, but takes transactions under given tids."""
from BTrees.LLBTree import LLBTree
from ZODB.Connection import TransactionMetaData
from ZODB.utils import p64, u64, z64

from .failures import Unavailable
from .storages import Target


class NEOTarget(Target):
    """As Target.  NEO looks for conflicts as always: it is told each object's last change."""

    def __init__(self, open_storage):
        super(NEOTarget, self).__init__(open_storage)
        self._serials = LLBTree()

    def write(self, transaction):
        if self._storage is None:
            self._storage = self._open()
        storage = self._storage
        meta = TransactionMetaData(transaction.user, transaction.description,
                                   transaction.extension)
        storage.tpc_begin(meta, transaction.tid, transaction.status)
        for oid, data, _data_txn in transaction.records:
            serial = self._serials.get(u64(oid))
            storage.store(oid, z64 if serial is None else p64(serial), data, '', meta)
        storage.tpc_vote(meta)
        tid = storage.tpc_finish(meta)
        if tid != transaction.tid:
            raise Unavailable('NEO committed %s as %s' % (
                transaction.tid.encode('hex'), tid.encode('hex')))
        self.held(transaction)

    def empty(self):
        """It can't be emptied: what it holds is compared with the source like everything."""

    def held(self, transaction):
        tid = u64(transaction.tid)
        for record in transaction.records:
            self._serials[u64(record.oid)] = tid
