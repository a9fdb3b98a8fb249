"""Walks a Data.fs from its end back, without opening it as a storage; a server may be writing it."""
import array

from ZODB.utils import u64

from .datafs.datafile import DataFile
from .datafs.records import RECORD
from .stats_sums import HEAD, Sums, class_of

HISTORY = 'counted'


class Seen(object):
    """A set of object ids, one bit each where they are close to each other."""

    PAGE = 15  # bits of an object id that count within a page

    def __init__(self):
        self._pages = {}

    def add(self, oid):
        """Adds an id (bytes); returns whether it was new."""
        number = u64(oid)
        page = self._pages.get(number >> self.PAGE)
        if page is None:
            page = self._pages[number >> self.PAGE] = bytearray(1 << self.PAGE - 3)
        at, bit = (number & (1 << self.PAGE) - 1) >> 3, 1 << (number & 7)
        if page[at] & bit:
            return False
        page[at] |= bit
        return True


def walk(path, top, tell):
    """Sums what a Data.fs holds.

    The newest record of an object is met first: that is the object, what comes later is its
    history.  Within a transaction too the last one counts: undoing several at once writes two.
    Memory: some bits an object, and 8 bytes for each record of the largest transaction.

    Args:
        path: of the Data.fs.
        top: how many of the largest objects to tell.
        tell: a `stats.Progress`; counted in bytes of the file.

    Returns: Sums, the largest objects, and a dict of what else was found.
    Raises DataFileError.
    """
    with DataFile(path) as data_file:
        sums, seen, transactions, gone = Sums(top), Seen(), 0, 0
        for transaction in data_file.backward():
            transactions += 1
            positions = array.array('L', _positions(data_file, transaction))
            for position in reversed(positions):
                record = data_file.record(transaction, position)
                gone += _count(data_file, record, seen, sums)
            tell(data_file.end - transaction.position, data_file.end, len(positions))
        largest = sums.largest(lambda oid, where: data_file.read(*where))
        return sums, largest, {'transactions': transactions, 'deleted': gone,
                               'file_bytes': data_file.size, 'history': HISTORY}


def _positions(data_file, transaction):
    for record in data_file.records(transaction):
        yield record.position - RECORD.size


def _count(data_file, record, seen, sums):
    """Counts a record; returns whether it says that its object is gone."""
    position, size = data_file.data_at(record)
    newest = seen.add(record.oid)
    if not size:
        return newest
    named = class_of(data_file.read(position, min(size, HEAD)),
                     lambda: data_file.read(position, size))
    if newest:
        sums.add(named, record.oid, size, (position, size))
    else:
        sums.add_revision(named, size)
    return False
