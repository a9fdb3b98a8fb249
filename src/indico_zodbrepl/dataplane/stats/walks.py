"""Walks over any ZODB storage: over its transactions, or over its current records."""
from __future__ import absolute_import

import array

import ZODB.config
import ZODB.interfaces
from ZEO.Exceptions import ServerException
from ZODB.fsIndex import fsIndex
from ZODB.POSException import POSKeyError
from ZODB.utils import load_current, p64, u64

from indico_zodbrepl.dataplane.datafs.datafile import DataFile
from indico_zodbrepl.dataplane.datafs.records import RECORD
from indico_zodbrepl.dataplane.stats.sums import HEAD, Sums, class_of

SIZE_BITS = 32


class _States(object):
    """Class and size of each object's newest revision so far, in about 8 bytes per object."""

    def __init__(self):
        self._index = fsIndex()
        self._numbers = {}
        self._names = []

    def replace(self, oid, named, size):
        """Record a revision; return class and size of the previous one, or None."""
        if named not in self._numbers:
            self._numbers[named] = len(self._names)
            self._names.append(named)
        before = self._index.get(oid)
        self._index[oid] = self._numbers[named] << SIZE_BITS | size
        return None if before is None else self._read(before)

    def forget(self, oid):
        """Record that an object is gone; return its last revision, or None."""
        before = self._index.get(oid)
        if before is None:
            return None
        del self._index[oid]
        return self._read(before)

    def __iter__(self):
        for oid, state in self._index.iteritems():
            named, size = self._read(state)
            yield oid, named, size

    def _read(self, state):
        return self._names[state >> SIZE_BITS], state & (1 << SIZE_BITS) - 1


def walk(url, top, tell, history=True):
    """Sum up the storage of a zodb.conf; write nothing to it.

    Args:
        url: of the zodb.conf.
        top: number of largest objects to return.
        tell: a `Progress`; counted in objects.
        history: True to read older revisions too, from the storage's transactions; otherwise each
            object is read once, if the storage supports that.

    Returns: Sums, the largest objects, and a dict of other findings.  Raises the storage's
    exceptions.
    """
    storage = ZODB.config.storageFromURL(url)
    try:
        if history or not ZODB.interfaces.IStorageCurrentRecordIteration.providedBy(storage):
            sums, found = _transactions(storage, top, tell)
        else:
            sums, found = _records(storage, top, tell), {'history': 'not counted'}
        largest = sums.largest(lambda oid, where: _load(storage, oid))
        return sums, largest, dict(
            {'transactions': None, 'deleted': None, 'file_bytes': None, 'blobs': None}, **found)
    finally:
        storage.close()


def _transactions(storage, top, tell):
    """Walk the transactions from the oldest on; the last revision of an object is current."""
    states, sums = _States(), Sums(top)
    transactions = deleted = objects = 0
    total = len(storage)
    for transaction in storage.iterator():
        transactions += 1
        records = 0
        for record in transaction:
            records += 1
            if record.data is None:
                before = states.forget(record.oid)
                deleted += 1
            else:
                named = class_of(record.data[:HEAD], lambda data=record.data: data)
                before = states.replace(record.oid, named, len(record.data))
            if before is None:
                objects += 1
            else:
                sums.add_revision(*before)
        tell(objects, total, records)
    for oid, named, size in states:
        sums.add(named, oid, size)
    kept = sums.revisions or ZODB.interfaces.IStorageUndoable.providedBy(storage)
    return sums, {'transactions': transactions, 'deleted': deleted,
                  'history': 'counted' if kept else 'not kept'}


def _records(storage, top, tell):
    """Read each current object once, in the order of object ids."""
    sums, objects, following, skipped = Sums(top), 0, None, False
    total = len(storage)
    while True:
        try:
            oid, _, data, following = storage.record_iternext(following)
        except POSKeyError as error:  # a FileStorage still has objects whose creation was undone
            following, skipped = p64(u64(error.args[0]) + 1), True
            continue
        except (ValueError, ServerException):
            if not skipped:
                raise
            return sums  # that was the last one
        skipped = False
        if data is not None:  # RelStorage reports objects whose creation was undone
            objects += 1
            sums.add(class_of(data[:HEAD], lambda data=data: data), oid, len(data))
        tell(objects, total, 1)
        if following is None:
            return sums


def _load(storage, oid):
    try:
        return load_current(storage, oid)[0]
    except POSKeyError:
        return None


HISTORY = 'counted'
BLOB = 'ZODB.blob.Blob'


class Files(object):
    """Sums of the blob files beside a Data.fs.

    Args:
        blobs: a `datafs.blobs.Blobs`.

    Attributes:
        numbers: a dict of files and bytes of the current blobs, old_files and old_bytes of their
            older revisions, and missing, the current ones without a file.
    """

    def __init__(self, blobs):
        self._blobs = blobs
        self.numbers = dict.fromkeys(('files', 'bytes', 'old_files', 'old_bytes', 'missing'), 0)

    def add(self, record, current):
        size, = self._blobs.sizes([(record.oid, record.tid)])
        if size is None:
            self.numbers['missing'] += current
            return
        prefix = '' if current else 'old_'
        self.numbers[prefix + 'files'] += 1
        self.numbers[prefix + 'bytes'] += size


class Seen(object):
    """A set of object ids, with one bit for each where they are close together."""

    PAGE = 15  # bits of an object id that count within a page

    def __init__(self):
        self._pages = {}

    def add(self, oid):
        """Add an id (bytes); return True if it was new."""
        number = u64(oid)
        page = self._pages.get(number >> self.PAGE)
        if page is None:
            page = self._pages[number >> self.PAGE] = bytearray(1 << self.PAGE - 3)
        at, bit = (number & (1 << self.PAGE) - 1) >> 3, 1 << (number & 7)
        if page[at] & bit:
            return False
        page[at] |= bit
        return True


def walk_file(path, top, tell):
    """Sum up a Data.fs.

    The file is read backwards: the first record of an object is current, the following ones are
    its history.  Within a transaction too the last one counts: undoing several transactions at
    once writes two records.  Memory: some bits per object, and 8 bytes for each record of the
    largest transaction.

    Args:
        path: of the Data.fs.
        top: number of largest objects to return.
        tell: a `Progress`; counted in bytes of the file.

    Returns: Sums, the largest objects, and a dict of what else was found.
    Raises DataFileError.
    """
    with DataFile(path) as data_file:
        sums, seen, files = Sums(top), Seen(), Files(data_file.blobs)
        transactions = gone = 0
        for transaction in data_file.backward():
            transactions += 1
            positions = array.array('L', _positions(data_file, transaction))
            for position in reversed(positions):
                record = data_file.record(transaction, position)
                gone += _count(data_file, record, seen, sums, files)
            tell(data_file.end - transaction.position, data_file.end, len(positions))
        largest = sums.largest(lambda oid, where: data_file.read(*where))
        return sums, largest, {'transactions': transactions, 'deleted': gone,
                               'file_bytes': data_file.size, 'history': HISTORY,
                               'blobs': files.numbers}


def _positions(data_file, transaction):
    for record in data_file.records(transaction):
        yield record.position - RECORD.size


def _count(data_file, record, seen, sums, files):
    """Count a record; return True if it says that its object is gone."""
    position, size = data_file.data_at(record)
    newest = seen.add(record.oid)
    if not size:
        return newest
    named = class_of(data_file.read(position, min(size, HEAD)),
                     lambda: data_file.read(position, size))
    if named == BLOB:
        files.add(record, newest)
    if newest:
        sums.add(named, record.oid, size, (position, size))
    else:
        sums.add_revision(named, size)
    return False
