"""Export the transactions of a Data.fs that follow a given one, for people and programs."""
from __future__ import absolute_import

import itertools
import json
import os

from ZODB.blob import is_blob_record
from ZODB.FileStorage import FileStorage
from ZODB.fsIndex import fsIndex

from indico_zodbrepl.dataplane.datafs import disk
from indico_zodbrepl.dataplane.datafs.blobs import FOLDER, Blobs, folder_of
from indico_zodbrepl.dataplane.datafs.content import same_content
from indico_zodbrepl.dataplane.datafs.datafile import DataFile
from indico_zodbrepl.dataplane.datafs.failures import Changed, NoSuchTransaction, Occupied
from indico_zodbrepl.dataplane.datafs.records import (
    MAGIC,
    NUMBER,
    RECORD,
    START,
    TRANSACTION,
    describe,
    time_of,
)

TAIL, LIST = 'tail.fs', 'tail.json'
EVERYTHING = b'\0' * 8
NOTABLE = 20


def boundary(data_file, tid):
    """Return the position after a transaction; 4 for the tid of zeroes.

    Raises NoSuchTransaction.
    """
    if tid == EVERYTHING:
        return START
    transaction = data_file.find(tid)
    if transaction is None or transaction.tid != tid:
        raise NoSuchTransaction('%s has no transaction %s' % (
            data_file.path, tid.encode('hex')))
    return transaction.end


def export(path, after, folder, named=None, with_blobs=True, damaged=False):
    """Write the transactions after `after` into a new folder, which appears when complete.

    The folder gets tail.fs, a Data.fs with these transactions only; tail.json, which lists them
    and their objects; and blobs, with the contents of their blobs.  A server may have the file
    open.

    Args:
        path: of the Data.fs.
        after: a tid that it holds, or eight zero bytes for everything.
        folder: must not exist.
        named: the name of the original file in the list; its path if None.
        with_blobs: False to leave the blob files out, uncounted, as for a list only.
        damaged: True to export what comes before a damaged end.

    Returns a dict for JSON: the folder, first and last tid, how many transactions, objects,
    new, changed, bytes, blobs and missing_blobs, and in `notable` what the first few of
    Indico's objects are.

    Raises DataFileError.
    """
    folder = os.path.abspath(folder)
    if os.path.lexists(folder):
        raise Occupied('%s exists already' % folder)
    part = folder + '.part'
    disk.remove(part)
    os.makedirs(part, 0o700)
    with DataFile(path, damaged) as data_file:
        position = boundary(data_file, after)
        summary = _Exported(data_file, Blobs(folder_of(path)) if with_blobs else None, part,
                            os.path.abspath(named or path))
        with disk.create(os.path.join(part, TAIL)) as target:
            tail = TailFile(target.write)
            listed = summary.write(tail, after, data_file.forward(position))
            disk.write_file(os.path.join(part, LIST), listed)
            target.flush()
            os.fsync(target.fileno())
        _check(data_file, position, os.path.join(part, TAIL))
        if data_file.replaced():
            raise Changed('%s was replaced while it was read' % path)
    disk.sync_folder(part)
    os.rename(part, folder)
    disk.sync_folder(disk.parent(folder))
    return dict(summary.numbers, folder=folder, after=after.encode('hex'))


def _check(data_file, position, path):
    """Read the new file again, as a data file and as a storage."""
    with DataFile(path) as tail:
        for one, other in itertools.izip_longest(data_file.forward(position), tail.forward()):
            if one is None or other is None or not same_content(data_file, one, tail, other):
                raise Changed('%s was written wrongly' % path)
        last = tail.last()
    storage = FileStorage(path, read_only=True)
    try:
        if last is not None and storage.lastTransaction() != last.tid:
            raise Changed('%s was written wrongly' % path)
    finally:
        storage.close()


class _Exported(object):
    """Counts of the exported data so far."""

    def __init__(self, data_file, blobs, folder, named):
        self._data_file = data_file
        self._blobs = blobs
        self._folder = folder
        self._named = named
        self.numbers = dict.fromkeys(
            ('transactions', 'objects', 'new', 'changed', 'bytes', 'blobs',
             'missing_blobs'), 0)
        self.numbers.update(first=None, last=None, notable=[])

    def write(self, tail, after, transactions):
        """Append transactions to a TailFile; yield the bytes of tail.json."""
        yield b'{"format": 1, "file": %s, "after": "%s", "transactions": [' % (
            json.dumps(self._named), after.encode('hex'))
        separator = b'\n'
        for transaction in transactions:
            tail.add(self._data_file, transaction)
            yield separator + json.dumps(self._transaction(transaction), sort_keys=True)
            separator = b',\n'
        yield b'\n]}\n'

    def _transaction(self, transaction):
        tid = transaction.tid.encode('hex')
        self.numbers['first'] = self.numbers['first'] or tid
        self.numbers['last'] = tid
        self.numbers['transactions'] += 1
        self.numbers['bytes'] += transaction.size
        return {
            'tid': tid, 'time': time_of(transaction.tid),
            'user': transaction.user.decode('utf-8', 'replace'),
            'description': transaction.description.decode('utf-8', 'replace'),
            'bytes': transaction.size,
            'objects': [self._object(record)
                        for record in self._data_file.records(transaction)],
        }

    def _object(self, record):
        data = self._data_file.data(record)
        named, what = describe(data)
        change = 'changed' if record.previous else 'new'
        self.numbers['objects'] += 1
        self.numbers[change] += 1
        notable = self.numbers['notable']
        if what and what not in notable and len(notable) < NOTABLE:
            notable.append(what)
        told = {'oid': record.oid.encode('hex'), 'class': named, 'what': what,
                'bytes': len(data or b''), 'change': change}
        if is_blob_record(data):
            told['blob'] = self._blob(record)
        return told

    def _blob(self, record):
        """Copy a blob; return its path in the folder, or None if there is no such file."""
        if self._blobs is None:
            return None
        name = self._blobs.name(record.oid, record.tid)
        if name is None or self._blobs.copy(name, os.path.join(self._folder, FOLDER)) is None:
            self.numbers['missing_blobs'] += 1
            return None
        self.numbers['blobs'] += 1
        return os.path.join(FOLDER, name)


class TailFile(object):
    """A Data.fs built transaction by transaction, with all back pointers resolved.

    Memory: an index of the objects in it, and one transaction's record at a time.

    Args:
        write: called with bytes, in the order of the file.
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
        """Append a transaction of a DataFile with its tid, texts and records."""
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
