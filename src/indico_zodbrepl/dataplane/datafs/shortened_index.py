"""The index of a Data.fs whose end is cut off, made from the saved one.

Without an index FileStorage reads the whole file when it opens it, which takes minutes for some
gigabytes.  What is cut off is usually small.
"""
from __future__ import absolute_import

import os

from ZODB.fsIndex import fsIndex


def shortened_index(data_file, offset):
    """Return the index of a data file up to a transaction.

    For each object of the later transactions, its record before them counts.  Its position is in
    the first of the later records; it is not where a pack has rewritten them.

    Args:
        data_file: a DataFile, which still has what is cut off.
        offset: where the first transaction begins that is cut off.

    Returns: an fsIndex and the position up to which it reaches; (None, 0) if there is no saved
        index that can be used.  Memory: the whole index, as in a server.
    """
    try:
        saved = fsIndex.load(data_file.path + '.index')
        index, position = saved['index'], int(saved['pos'])
    except Exception:  # the index is only a hint, and a pickle may raise anything
        return None, 0
    if not isinstance(index, fsIndex):
        return None, 0
    if position <= offset:
        return index, position
    if _roll_back(index, data_file, offset, position):
        return index, offset
    return None, 0


def _roll_back(index, data_file, offset, position):
    """Remove the records between two positions from an index; return False if that fails."""
    done, end = set(), offset
    for transaction in data_file.forward(offset):
        if transaction.position >= position:
            break
        if transaction.packed:
            return False
        end = transaction.end
        for record in data_file.records(transaction):
            if record.oid in done:
                continue
            done.add(record.oid)
            if record.previous >= offset or record.oid not in index:
                return False
            if record.previous:
                index[record.oid] = record.previous
            else:
                del index[record.oid]
    return end == position


def save(index, position, path):
    """Write the index of a Data.fs as FileStorage does; an existing one is replaced."""
    new = path + '.index.index_tmp'
    index.save(position, new)
    os.rename(new, path + '.index')
