"""A transaction as every storage has it, and the part of it that a storage keeps."""
import collections

from ZODB._compat import loads
from ZODB.blob import is_blob_record


class Record(collections.namedtuple('Record', 'oid data data_txn')):
    """One object in a transaction; all bytes.

    Attributes:
        data: None if the object was undone or deleted.
        data_txn: tid of the transaction that an undo took the data from; None otherwise.
    """

    __slots__ = ()

    @property
    def is_blob(self):
        """Return True if its content is in a file of its own."""
        return is_blob_record(self.data)


class Keeps(collections.namedtuple(
        'Keeps', 'history status empty extension_bytes undo_pointers blobs')):
    """The parts of transactions that a kind of storage keeps; all are bools.

    Attributes:
        history: older records of an object, deletions, and who changed what.  Without it, all
            others but blobs are false.
        status: that a pack may have removed records of a transaction.
        empty: transactions that a pack has emptied.
        extension_bytes: the extension data byte for byte, not just their meaning.
        undo_pointers: where an undo took its data from.
        blobs: the blob files.
    """

    __slots__ = ()


class Transaction(object):
    """A transaction of a storage.

    Attributes:
        tid, status, user, description, extension: bytes.
        records: a list with one Record for each object; if it has several, the last.
    """

    __slots__ = ('tid', 'status', 'user', 'description', 'extension', 'records')

    def __init__(self, tid, status, user, description, extension, records):
        self.tid = tid
        self.status = status
        self.user = user
        self.description = description
        self.extension = extension
        self.records = _last_of_each_object(records)

    @property
    def size(self):
        """Return the bytes of all data, without the blob files."""
        return sum(len(record.data or b'') for record in self.records)

    def blobs(self):
        """Return the oids of the blobs among its records, sorted."""
        return sorted(record.oid for record in self.records if record.is_blob)


def _last_of_each_object(records):
    if len(set(record.oid for record in records)) == len(records):
        return records
    return list(collections.OrderedDict((record.oid, record) for record in records).values())


def as_kept(transaction, keeps, newest=None):
    """Return a transaction as a storage will hold it; None if nothing is left of it.

    Args:
        keeps: the storage's Keeps.
        newest: for one without history, a mapping from each object to the last transaction
            that changed it, both as numbers.
    """
    if not keeps.history:
        records = [record._replace(data_txn=None) for record in transaction.records
                   if record.data is not None and _is_newest(record, transaction, newest)]
        return Transaction(transaction.tid, b'p', b'', b'', b'', records) if records else None
    if not (transaction.records or keeps.empty):
        return None
    status = transaction.status if keeps.status else b' '
    records = transaction.records
    if not keeps.undo_pointers and any(record.data_txn is not None for record in records):
        records = [record._replace(data_txn=None) for record in records]
    if records is transaction.records and status == transaction.status:
        return transaction
    return Transaction(transaction.tid, status, transaction.user, transaction.description,
                       transaction.extension, records)


def _is_newest(record, transaction, newest):
    return newest is None or newest.newest(record.oid) == transaction.tid


def difference(one, other, extension_bytes):
    """Return how two transactions differ; '' if they do not.

    The order of the records does not count, and neither do undo pointers: the data that they
    point to are compared.

    Args:
        extension_bytes: True if the extension data must be the same byte for byte.
    """
    for name in ('tid', 'status', 'user', 'description'):
        if getattr(one, name) != getattr(other, name):
            return 'the %s' % name
    if one.extension != other.extension and (
            extension_bytes or _meaning(one.extension) != _meaning(other.extension)):
        return 'the extension data'
    mine = {record.oid: record.data for record in one.records}
    theirs = {record.oid: record.data for record in other.records}
    if mine == theirs:
        return ''
    return 'object ' + min(oid for oid in set(mine) | set(theirs)
                           if oid not in mine or oid not in theirs
                           or mine[oid] != theirs[oid]).encode('hex')


def _meaning(extension):
    return loads(extension) if extension else {}
