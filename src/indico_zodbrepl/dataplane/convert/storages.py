"""A RelStorage or NEO storage as the source or the target of a conversion.

Its servers, if it has any, run; nobody else writes it meanwhile.
"""
import contextlib

import ZODB.config
from ZODB.utils import p64, u64

from ..storage import IndicoStorage
from .failures import Unavailable
from .transactions import Keeps, Record, Transaction

FOLLOWING = 1  # tids are numbers

RELSTORAGE = Keeps(history=True, status=True, empty=True, extension_bytes=True,
                   undo_pointers=False)
HISTORY_FREE = Keeps(history=False, status=False, empty=False, extension_bytes=False,
                     undo_pointers=False)
NEO = Keeps(history=True, status=False, empty=False, extension_bytes=False,
            undo_pointers=False)


class Source(object):
    """The transactions of an open storage.

    Args:
        storage: the storage itself, without any wrapper.

    Attributes:
        keeps: what its transactions may have.
        unfinished: 0, as for a Data.fs.
    """

    unfinished = 0

    def __init__(self, storage):
        self._storage = storage
        self.keeps = keeps_of(storage)
        self._done = self._total = 0
        self._counted = {}

    def transactions(self, after=None):
        """Yields each Transaction after a tid, oldest first."""
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
        """Returns how many transactions will be found; NEO is asked for them without objects."""
        if hasattr(found, '__len__'):
            return len(found)
        if start not in self._counted:
            with contextlib.closing(self._storage.iterator(start)) as counted:
                self._counted[start] = sum(1 for _ in counted)
        return self._counted[start]

    def fraction(self):
        """Returns how much of what was asked for was read, from 0 to 1."""
        return float(self._done) / max(self._total, 1)


class Target(object):
    """An open storage that is filled; one thread.

    Args:
        open_storage: opens the storage once more; what another one wrote is not seen by one
            that was open before.
    """

    def __init__(self, open_storage):
        self._open = open_storage
        self._storage = None
        with contextlib.closing(open_storage()) as storage:
            self.keeps = keeps_of(storage)

    def transactions(self, after=None):
        """Yields what it holds, as Source does."""
        with contextlib.closing(self._open()) as storage:
            for transaction in Source(storage).transactions(after):
                yield transaction

    def empty(self):
        """Removes everything from it, which is no more than an empty root object."""
        with contextlib.closing(self._open()) as storage:
            storage.zap_all(slow=True)  # others may have it open

    def held(self, transaction):
        """Takes note of what it holds already."""

    def write(self, transaction):
        """Adds a transaction; after an error the target is good for `close` only."""
        raise NotImplementedError

    def settle(self):
        """Lets go of the storage that writes; what is written is on disk by then."""
        self.close()

    def publish(self):
        """There is nothing to do: its servers have it."""

    def close(self):
        if self._storage is not None:
            self._storage.close()
            self._storage = None


def keeps_of(storage):
    """Returns the Keeps of an open storage.  Raises Unavailable for one of another kind."""
    packages = set(each.__module__.partition('.')[0] for each in type(storage).__mro__)
    if 'relstorage' in packages:
        return RELSTORAGE if storage.keep_history else HISTORY_FREE
    if 'neo' in packages:
        return NEO
    raise Unavailable('%s is neither RelStorage nor NEO' % type(storage).__name__)


def open_conf(path):
    """Opens the storage that a ZODB configuration names, without what wraps it."""
    with open(path) as conf:
        storage = ZODB.config.storageFromFile(conf)
    while isinstance(storage, IndicoStorage):
        storage = storage.base
    return storage


def _status(transaction):
    return b'p' if transaction.status == 'p' else b' '
