"""Writes transactions of one Data.fs into a new one that stands alone."""
from ZODB.fsIndex import fsIndex

from .records import MAGIC, NUMBER, RECORD, TRANSACTION


class TailFile(object):
    """Builds a Data.fs transaction by transaction, with all back pointers resolved.

    Memory: an index of the objects in it, and one transaction's record at a time.

    Args:
        write: takes bytes, in the order of the file.
    """

    def __init__(self, write):
        self._write = write
        self._records = fsIndex()
        self._position = 0
        self._put(MAGIC)

    def _put(self, data):
        self._write(data)
        self._position += len(data)

    def add(self, data_file, transaction):
        """Appends a transaction of a DataFile with its tid, texts and records."""
        records = list(data_file.records(transaction))
        texts = b''.join(transaction.metadata)
        length = TRANSACTION.size + len(texts) + sum(
            RECORD.size + (data_file.length(record) or NUMBER.size) for record in records)
        begin = self._position
        self._put(TRANSACTION.pack(transaction.tid, length, transaction.status,
                                   *map(len, transaction.metadata)) + texts)
        for record in records:
            data = data_file.data(record) or b''
            previous = self._records.get(record.oid, 0)
            self._records[record.oid] = self._position
            self._put(RECORD.pack(record.oid, record.tid, previous, begin, 0, len(data))
                      + (data or NUMBER.pack(0)))
        self._put(NUMBER.pack(length))
