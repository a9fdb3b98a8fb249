"""A RelStorage that is filled, many transactions in one of the database's own.

RelStorage's `restore` commits each transaction, which takes a database server some twenty
milliseconds.  Here its adapter is used as `restore` uses it, but the database commits a few
hundred at a time.  A kill leaves whole ones only, as before: the last group is missing.
"""
from __future__ import absolute_import

from relstorage.adapters.connections import StoreConnection
from relstorage.adapters.sqlite.adapter import Sqlite3Adapter
from ZODB.utils import u64

from .storages import Target

GROUP_TRANSACTIONS = 500
GROUP_BYTES = 8 << 20
ROWS = 100  # in one statement
GROWTH = 4  # after which the database counts again


class RelStorageTarget(Target):
    """As Target."""

    def __init__(self, open_storage):
        super(RelStorageTarget, self).__init__(open_storage)
        self._connection = None
        self._transactions = self._bytes = self._highest_oid = 0
        self._committed = self._analyzed = 0  # objects

    def write(self, transaction):
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
        """Lets SQLite use its indexes, as it does with tables that it knows nothing of.

        By the figures of an empty table, or of a few huge transactions, it reads all records
        for each transaction.
        """
        cursor = self._connection.cursor
        cursor.execute("SELECT 1 FROM sqlite_master WHERE name = 'sqlite_stat1'")
        if cursor.fetchall():
            cursor.execute('DELETE FROM sqlite_stat1')
            self._connection.commit()
        self._connection.drop()

    def _analyze(self):
        """Lets the database count: who takes its tables for empty ones reads them whole."""
        self._connection.drop()  # one that was open before may go by the old figures
        self._storage._adapter.stats.large_database_change()
        self._analyzed = self._committed
