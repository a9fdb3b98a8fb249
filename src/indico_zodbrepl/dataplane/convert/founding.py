"""What is in a database that was only founded: an empty root object, which nobody misses."""
import itertools

import ZODB
from ZODB.MappingStorage import MappingStorage
from ZODB.utils import load_current, z64


def is_only_founded(transactions):
    """Whether these are no more than what opening a new database writes into it.

    Args:
        transactions: an iterable of Transaction; at most two are taken.
    """
    first = list(itertools.islice(transactions, 2))
    return (len(first) == 1
            and [(record.oid, record.data) for record in first[0].records] == [(z64, _root())])


def _root():
    storage = MappingStorage()
    ZODB.DB(storage)
    return load_current(storage, z64)[0]
