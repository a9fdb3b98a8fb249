"""What a pack may have removed from one of two files."""
from ZODB.fsIndex import fsIndex

from .alignment import same_content


class Pack(object):
    """What a packed file lacks of the other one, until that is explained.

    A pack removes records that have a newer one of the same object, and objects that
    nothing refers to.  So a lacking record is explained by a newer one of its object, or
    when the packed file has none of that object at all.  Memory: some 14 bytes for each
    object that is not explained yet.

    Args:
        packed: the DataFile that may have been packed.
    """

    def __init__(self, packed):
        self._packed = packed
        self._lacking = fsIndex()
        self._used = False

    def lacks(self, transaction, oids):
        """The other file has records of these objects in a transaction of its own."""
        for oid in oids:
            self._lacking[oid] = transaction.position
            self._used = True

    def has(self, transaction):
        """The packed file has this transaction; they are told in rising order."""
        if self._used:
            for record in self._packed.records(transaction):
                if record.oid in self._lacking:
                    del self._lacking[record.oid]

    def unexplained(self):
        """Returns the positions in the other file of transactions that no pack removed."""
        if not self._used:
            return set()
        found = set()
        for transaction in self._packed.forward():
            if not transaction.packed:
                break
            for record in self._packed.records(transaction):
                if record.oid in self._lacking:
                    found.add(self._lacking[record.oid])
        return found


def compare_packed(left, one, right, other):
    """Compares two transactions with the same tid, of which a pack may have removed records.

    Returns: None when they are not the same transaction, else the oids of the records
        that are in the right one only and of those in the left one only.
    """
    if one.metadata != other.metadata:
        return None
    ours = {record.oid: record for record in left.records(one)}
    theirs = {record.oid: record for record in right.records(other)}
    for oid in set(ours) & set(theirs):
        if ours[oid].tid != theirs[oid].tid or left.data(ours[oid]) != right.data(theirs[oid]):
            return None
    lacking, more = set(theirs) - set(ours), set(ours) - set(theirs)
    if lacking and not one.packed or more and not other.packed:
        return None
    return lacking, more


def same_but_for_packs(left, one, right, other):
    """Whether two transactions are the same one, though records may have been packed away."""
    if one.packed or other.packed:
        return one.tid == other.tid and compare_packed(left, one, right, other) is not None
    return same_content(left, one, right, other)
