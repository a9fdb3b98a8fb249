"""A RelStorage or NEO storage as the source or the target of a conversion.

Its servers, if it has any, run; nobody else writes it meanwhile.
"""

from __future__ import absolute_import

import contextlib
import os

import ZODB.config
from BTrees.LLBTree import LLBTree
from relstorage.adapters.connections import StoreConnection
from relstorage.adapters.sqlite.adapter import Sqlite3Adapter
from ZODB.Connection import TransactionMetaData
from ZODB.utils import p64, u64, z64

from indico_zodbrepl.dataplane.client.storage import IndicoStorage
from indico_zodbrepl.dataplane.convert.blobs import blobs_of
from indico_zodbrepl.dataplane.convert.failures import Unavailable
from indico_zodbrepl.dataplane.convert.transactions import Keeps, Record, Transaction

FOLLOWING = 1  # tids are numbers

RELSTORAGE = Keeps(history=True, status=True, empty=True, extension_bytes=True,
                   undo_pointers=False, blobs=True)
HISTORY_FREE = Keeps(history=False, status=False, empty=False, extension_bytes=False,
                     undo_pointers=False, blobs=True)
NEO = Keeps(history=True, status=False, empty=False, extension_bytes=False,
            undo_pointers=False, blobs=False)


class Source(object):
    """The transactions of an open storage.

    Args:
        storage: the storage itself, without any wrapper.

    Attributes:
        keeps: what its transactions may have.
        blobs: the files of its blobs, as in `blobs`; None if it keeps none.
        unfinished: 0; see the attribute of a Data.fs.
    """

    unfinished = 0

    def __init__(self, storage):
        self._storage = storage
        self.keeps = keeps_of(storage)
        self.blobs = blobs_of(storage) if self.keeps.blobs else None
        self._done = self._total = 0
        self._counted = {}

    def transactions(self, after=None):
        """Yield each Transaction after a tid, oldest first."""
        start = p64(u64(after) + FOLLOWING) if after else None
        found = self._storage.iterator(start)
        with contextlib.closing(found):
            self._done = 0
            self._total = self._count(found, start)
            for number, each in enumerate(found):
                records = [Record(record.oid, record.data, record.data_txn) for record in each]
                self._done = number + 1
                yield Transaction(each.tid, _status(each), each.user, each.description,
                                  each.extension_bytes, records)

    def _count(self, found, start):
        """Return the number of transactions to expect; NEO counts them without objects."""
        if hasattr(found, '__len__'):
            return len(found)
        if start not in self._counted:
            with contextlib.closing(self._storage.iterator(start)) as counted:
                self._counted[start] = sum(1 for _ in counted)
        return self._counted[start]

    def close(self):
        """Remove copies of blobs; the storage stays open."""
        if self.blobs is not None:
            self.blobs.close()

    def fraction(self):
        """Return the fraction of the requested history that was read, from 0 to 1."""
        return float(self._done) / max(self._total, 1)


class Target(object):
    """An open storage to fill; one thread.

    Attributes:
        keeps: what its transactions may have.
        blobs: the files of its blobs, as those of a Source; only while `transactions` yields.

    Args:
        open_storage: opens the storage once more; a storage that is already open does not see what
            another one writes.
    """

    def __init__(self, open_storage):
        self._open = open_storage
        self._storage = None
        self.blobs = None
        with contextlib.closing(open_storage()) as storage:
            self.keeps = keeps_of(storage)

    def transactions(self, after=None):
        """Yield its transactions, as Source does."""
        with contextlib.closing(self._open()) as storage:
            with contextlib.closing(Source(storage)) as there:
                self.blobs = there.blobs
                for transaction in there.transactions(after):
                    yield transaction

    def empty(self):
        """Remove its content, which is no more than an empty root object."""
        with contextlib.closing(self._open()) as storage:
            storage.zap_all(slow=True)  # other processes may have it open

    def held(self, transaction):
        """Prepare for its existing content."""

    def write(self, transaction, blobs=None, tell=None):
        """Add a transaction; after an error only `close` may be called.

        Args: as for `files.FileTarget.write`.
        """
        raise NotImplementedError

    def settle(self):
        """Close the storage that writes; everything written is on disk by then."""
        self.close()

    def publish(self):
        """Do nothing: its servers already have the data."""

    def close(self):
        if self._storage is not None:
            self._storage.close()
            self._storage = None


def keeps_of(storage):
    """Return the Keeps of an open storage.  Raises Unavailable for one of another kind."""
    packages = set(each.__module__.partition('.')[0] for each in type(storage).__mro__)
    if 'relstorage' in packages:
        return RELSTORAGE if storage.keep_history else HISTORY_FREE
    if 'neo' in packages:
        return NEO
    raise Unavailable('%s is neither RelStorage nor NEO' % type(storage).__name__)


def open_conf(path):
    """Open the storage of a ZODB configuration, without its wrappers."""
    with open(path) as conf:
        storage = ZODB.config.storageFromFile(conf)
    while isinstance(storage, IndicoStorage):
        storage = storage.base
    return storage


def _status(transaction):
    return b'p' if transaction.status == 'p' else b' '


class NEOTarget(Target):
    """A NEO target, which keeps no blobs.  NEO checks for conflicts as always, so it gets each object's last change."""

    def __init__(self, open_storage):
        super(NEOTarget, self).__init__(open_storage)
        self._serials = LLBTree()

    def write(self, transaction, blobs=None, tell=None):
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
        """Do nothing: NEO cannot be emptied, so its content is compared with the source."""

    def held(self, transaction):
        tid = u64(transaction.tid)
        for record in transaction.records:
            self._serials[u64(record.oid)] = tid


GROUP_TRANSACTIONS = 500
GROUP_BYTES = 8 << 20
ROWS = 100  # in one statement
GROWTH = 4  # transactions after which the statistics are updated


class RelStorageTarget(Target):
    """A RelStorage target."""

    def __init__(self, open_storage):
        super(RelStorageTarget, self).__init__(open_storage)
        self._connection = None
        self._transactions = self._bytes = self._highest_oid = 0
        self._committed = self._analyzed = 0  # objects

    def write(self, transaction, blobs=None, tell=None):
        adapter, cursor = self._adapter_and_cursor()
        if not self._transactions:
            adapter.locker.hold_commit_lock(cursor, ensure_current=True)
        tid = u64(transaction.tid)
        adapter.txncontrol.add_transaction(
            cursor, tid, transaction.user, transaction.description, transaction.extension,
            transaction.status == b'p')
        batcher = adapter.mover.make_batcher(cursor, ROWS)
        for record in transaction.records:
            oid = u64(record.oid)
            adapter.mover.restore(cursor, batcher, oid, tid, record.data)
            self._highest_oid = max(oid, self._highest_oid)
        batcher.flush()
        for oid in transaction.blobs() if blobs is not None else ():
            with blobs.file(oid, transaction.tid) as path:
                blobs_of(self._storage).put(cursor, oid, transaction.tid, path, tell)
                self._bytes += os.path.getsize(path)
        adapter.mover.update_current(cursor, tid)
        self._committed += len(transaction.records)
        self._transactions += 1
        self._bytes += transaction.size
        if self._transactions >= GROUP_TRANSACTIONS or self._bytes >= GROUP_BYTES:
            self._commit()

    def settle(self):
        if self._transactions:
            self._commit()
        if self._committed:
            self._analyze()
        self.close()

    def close(self):
        if self._connection is not None:
            self._connection.drop()  # which rolls back
            self._connection = None
        self._transactions = self._bytes = 0
        super(RelStorageTarget, self).close()

    def _adapter_and_cursor(self):
        if self._storage is None:
            self._storage = self._open()
            self._connection = StoreConnection(self._storage._adapter.connmanager)
            if self._is_sqlite():
                self._forget_figures()
        return self._storage._adapter, self._connection.cursor

    def _commit(self):
        adapter, cursor = self._adapter_and_cursor()
        adapter.oidallocator.set_min_oid(cursor, self._highest_oid)
        self._connection.commit()
        adapter.locker.release_commit_lock(cursor)
        self._transactions = self._bytes = 0
        if self._committed >= self._analyzed * GROWTH and not self._is_sqlite():
            self._analyze()

    def _is_sqlite(self):
        return isinstance(self._storage._adapter, Sqlite3Adapter)

    def _forget_figures(self):
        """Make SQLite use its indexes, as it does for tables without statistics.

        With the statistics of an empty table, or of a few huge transactions, it reads all records
        for each transaction.
        """
        cursor = self._connection.cursor
        cursor.execute("SELECT 1 FROM sqlite_master WHERE name = 'sqlite_stat1'")
        if cursor.fetchall():
            cursor.execute('DELETE FROM sqlite_stat1')
            self._connection.commit()
        self._connection.drop()

    def _analyze(self):
        """Update the database's statistics, so that it does not read whole tables."""
        self._connection.drop()  # an older connection may use the old statistics
        self._storage._adapter.stats.large_database_change()
        self._analyzed = self._committed
