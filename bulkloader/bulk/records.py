"""Put ready-made records into the transaction that also changes objects."""
import contextlib

import transaction
import ZODB.Connection
import zope.interface
from transaction.interfaces import IDataManager
from ZODB._compat import Pickler, _protocol
from ZODB.serialize import ObjectWriter
from ZODB.utils import z64

from bulkloader.bulk.client import client_of, send

_OIDS_AT_ONCE = 100


@zope.interface.implementer(IDataManager)
class Records(object):
    """Stores records in the current transaction, beside the objects that a connection changed.

    The connection has to have changed objects itself: it begins the transaction with the storage,
    votes and finishes. A conflict that a changed record meets is raised by `commit`.

    Args:
        connection: an open ZODB connection, whose transaction it joins with the first record.
        data_file: a `DataFile` that takes the new records; without it the storage stores them.

    Attributes:
        size: bytes of the records of `add`.
    """

    def __init__(self, connection, data_file=None):
        self._connection = connection
        self._data_file = data_file
        self._client = client_of(connection.db().storage)
        self._stamped, self._new = [], []
        self._changed = []
        self._oids = []
        self.size = 0
        self.transaction_manager = transaction.manager
        self._joined = False

    def new_oids(self, count):
        """Return `count` oids in ascending order that no other object has."""
        if self._data_file is not None:
            return self._data_file.reserve(count)
        return sorted(self._connection.new_oid() for _ in range(count))

    def add(self, stamped):
        """Add the objects of an event, a `stencil.Stamped`."""
        if not self._joined:
            self._connection.transaction_manager.get().join(self)
            self._joined = True
        self._stamped.append(stamped)
        self.size += stamped.size

    def add_one(self, data):
        """Add the record of one more new object, after those of `add`; return its oid."""
        if not self._oids:
            self._oids = list(reversed(self.new_oids(_OIDS_AT_ONCE)))
        oid = self._oids.pop()
        self._new.append((oid, data))
        return oid

    def change(self, oid, serial, data):
        """Change the record that an object had since the transaction `serial`."""
        self._changed.append((oid, serial, data))

    def commit(self, current):
        under_way = current.data(self._connection)
        storage = self._connection._storage
        for oid, serial, data in self._changed:
            storage.store(oid, serial, data, '', under_way)
        if self._data_file is not None:
            self._data_file.append(under_way, self._stamped, self._new)
            return
        for stamped in self._stamped:
            self._store(stamped.records(), under_way)
        self._store(self._new, under_way)

    def _store(self, records, under_way):
        if self._client is not None:
            send(self._client, under_way, records)
            return
        for oid, data in records:
            self._connection._storage.store(oid, z64, data, '', under_way)

    def _nothing(self, current):
        """Return the connection does this for the storage."""

    abort = tpc_begin = tpc_vote = tpc_finish = tpc_abort = _nothing

    def sortKey(self):
        return '%s:records' % self._connection.sortKey()


class _Writer(ObjectWriter):
    """Asks of instances only, not of each number and text, whether they are persistent objects.

    ZODB asks of everything, as classes may be persistent; those of Indico are not.
    """

    def __init__(self, obj=None):
        ObjectWriter.__init__(self, obj)
        self._p = Pickler(self._file, _protocol)
        self._p.inst_persistent_id = self.persistent_id


@contextlib.contextmanager
def quick_pickling():
    """Have all connections of this process pickle what changed by `_Writer`."""
    before = ZODB.Connection.ObjectWriter
    ZODB.Connection.ObjectWriter = _Writer
    try:
        yield
    finally:
        ZODB.Connection.ObjectWriter = before
