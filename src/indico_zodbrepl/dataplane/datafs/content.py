"""Compare the content of transactions, and of the beginnings, of two data files.

The left file is always on this host; the right one may be a `remote.RemoteFile`, which sends
digests in place of its data.
"""
from __future__ import absolute_import

import itertools

from indico_zodbrepl.dataplane.datafs import digests
from indico_zodbrepl.dataplane.datafs.records import START

BLOCK = 1 << 20  # bytes


def same_content(left, one, right, other):
    """Return True if two transactions of two DataFiles have the same tid, texts and records."""
    if one.tid != other.tid:
        return False
    if right.by_digests:
        return digests.of_transaction(left, one) == right.digest(other)
    if one.metadata != other.metadata:
        return False
    for mine, theirs in itertools.izip_longest(left.records(one), right.records(other)):
        if mine is None or theirs is None or mine[:2] != theirs[:2]:
            return False
        if left.data(mine) != right.data(theirs):
            return False
    return True


def common_before(left, right, tid=None, same=same_content):
    """Return the newest common transaction up to a tid, searching from the end of both files.

    Args:
        left, right: DataFiles.
        tid: the newest to consider; None for no limit.
        same: compares two transactions with the same tid, as `same_content`.

    Returns: the Transaction in the left file and that in the right one, or None.
    """
    ours, theirs = left.backward(), right.backward()
    one, other = next(ours, None), next(theirs, None)
    while one is not None and other is not None:
        if one.tid > other.tid:
            one = next(ours, None)
        elif one.tid < other.tid:
            other = next(theirs, None)
        else:
            if (tid is None or one.tid <= tid) and same(left, one, right, other):
                return one, other
            one, other = next(ours, None), next(theirs, None)
    return None


def skip_identical(left, right, position):
    """Return the last transaction boundary up to which two files have the same bytes.

    Args:
        left, right: DataFiles that are equal, or assumed to be, up to `position`.
        position: a boundary in both.
    """
    end = min(left.end, right.end)
    differs = (right.first_difference(left, position, end) if right.by_digests
               else first_difference(left.raw, right.raw, position, end))
    if differs == end:
        return end  # a boundary in one file is one in the other too
    if differs - position < left.end - differs:
        return next(each.position for each in left.forward(position) if each.end > differs)
    for transaction in left.backward():
        if transaction.position <= differs:
            return transaction.position
    return START


def first_difference(left, right, position, end):
    """Return the first position at which two files differ, or `end`.

    Args:
        left, right: functions of a position and a length in bytes that return bytes.
    """
    while position < end:
        length = min(BLOCK, end - position)
        ours, theirs = left(position, length), right(position, length)
        if ours != theirs:
            return position + equal_bytes(ours, theirs)
        position += length
    return end


def equal_bytes(ours, theirs):
    """Return the number of bytes at the beginning that are the same."""
    low, high = 0, min(len(ours), len(theirs))
    while low < high:
        middle = (low + high + 1) // 2
        if ours[low:middle] == theirs[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def compare_packed(left, one, right, other):
    """Compare two transactions with the same tid, from which a pack may have removed records.

    Returns: None if they are not the same transaction; otherwise the oids of the records that only
        the right one has, and of those that only the left one has.
    """
    if right.by_digests:
        same = same_content(left, one, right, other)
        common = ({}, {}) if same else _records_by_digests(left, one, right, other)
    else:
        common = _records(left, one, right, other)
    if common is None:
        return None
    ours, theirs = common
    lacking, more = set(theirs) - set(ours), set(ours) - set(theirs)
    if lacking and not one.packed or more and not other.packed:
        return None
    return lacking, more


def _records(left, one, right, other):
    """Return the records of two transactions by oid; None if those of the same oid differ."""
    if one.metadata != other.metadata:
        return None
    ours = {record.oid: record for record in left.records(one)}
    theirs = {record.oid: record for record in right.records(other)}
    for oid in set(ours) & set(theirs):
        if ours[oid].tid != theirs[oid].tid or left.data(ours[oid]) != right.data(theirs[oid]):
            return None
    return ours, theirs


def _records_by_digests(left, one, right, other):
    """Return digests of the records as `_records` does the records."""
    texts, found = right.fingerprints(other)
    if digests.of_texts(one) != texts:
        return None
    theirs = dict(found)
    ours = {record.oid: digests.of_record(left, record) for record in left.records(one)}
    if any(ours[oid] != theirs[oid] for oid in set(ours) & set(theirs)):
        return None
    return ours, theirs


def same_but_for_packs(left, one, right, other):
    """Return True if two transactions are the same, apart from records removed by packs."""
    if one.packed or other.packed:
        return one.tid == other.tid and compare_packed(left, one, right, other) is not None
    return same_content(left, one, right, other)
