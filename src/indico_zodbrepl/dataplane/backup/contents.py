"""The transactions of a part of a data file, read once.

Each is checked, its blobs are listed and, for a restored file, its objects are indexed.
FileStorage would read all of it again for that.
"""
from __future__ import absolute_import

import os
import struct

from ZODB.blob import is_blob_record
from ZODB.fsIndex import fsIndex

from indico_zodbrepl.dataplane.backup import pieces
from indico_zodbrepl.dataplane.datafs.blobs import LONGEST, MODULE
from indico_zodbrepl.dataplane.datafs.records import NUMBER, RECORD, START, UNDONE

PLACED = struct.Struct('>8s16xQHQ')  # of a RECORD: oid, transaction's position, version, length
LARGEST = 1 << 24  # bytes of a transaction that is read at once


class Contents(object):
    """The transactions between two boundaries of a data file, as far as a backup needs them.

    Args:
        data_file: a DataFile.
        begin, end: the boundaries.
        count: a `progress.Counted`.
        index: an fsIndex, to which the objects are added; None without one.

    Attributes:
        transactions: how many were read.
        blobs: list of oid and tid of all blobs.

    Raises Damaged.
    """

    def __init__(self, data_file, begin, end, count, index=None):
        self.transactions = 0
        self.blobs = []
        for transaction in data_file.forward(begin):
            if transaction.position >= end:
                break
            placed = _placed(data_file, transaction)
            if placed is None:
                placed = self._look_at_each(data_file, transaction)
            if index is not None and transaction.status != UNDONE:
                index.update(placed)
            self.transactions += 1
            count.add(transaction.size)

    def _look_at_each(self, data_file, transaction):
        """List the blobs of a transaction; return as `_placed`.  Raises Damaged."""
        placed = {}
        for record in data_file.records(transaction):
            placed[record.oid] = record.position - RECORD.size
            # One that was undone has its data in an older record.
            if record.length <= LONGEST and is_blob_record(data_file.data(record)):
                self.blobs.append((record.oid, record.tid))
        return placed


def _placed(data_file, transaction):
    """Return the positions of a transaction's records by oid, or None if one has to be looked at.

    That is one that may be a blob, that has its data in an older record, or that is damaged.  To
    find this out takes a quarter of the time that reading each record takes.
    """
    if transaction.size > LARGEST:
        return None
    text = data_file.read(transaction.position, transaction.size)
    if MODULE in text:
        return None
    begin, unpack, header = transaction.position, PLACED.unpack_from, RECORD.size
    at, end = transaction.records - begin, len(text) - NUMBER.size
    placed = {}
    while at <= end - header:
        oid, of, version, length = unpack(text, at)
        if of != begin or version or not length:
            return None
        placed[oid] = begin + at
        at += header + length
    return placed if at == end else None


def of_all(data_file, count):
    """Return the Contents of a whole DataFile, and the fsIndex for it.  Raises Damaged."""
    index = fsIndex()
    return Contents(data_file, START, data_file.end, count, index), index


def of_next_piece(data_file, chain, end, count):
    """Return the Contents of what follows the newest backup.

    More is read if a piece has no list of its blobs: an earlier release, or repozo itself, has made
    it.

    Args:
        data_file: a DataFile, with the transactions of the chain.
        chain: the pieces of the newest backup, in the working directory; empty for a full backup.
        end: of the piece.
        count: a `progress.Counted`.

    Raises Damaged.
    """
    had = chain[-1].end if chain else START
    begin = min([had] + [each.begin for each in chain
                         if not os.path.exists(pieces.blobs_of('.', each.name))])
    return Contents(data_file, max(START, begin), end, count)
