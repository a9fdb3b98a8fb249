"""Count the differences of two data files, which are read side by side."""
from __future__ import absolute_import

from ZODB.fsIndex import fsIndex

from indico_zodbrepl.dataplane.datafs.blob_comparison import BlobComparison
from indico_zodbrepl.dataplane.datafs.content import (
    common_before,
    compare_packed,
    same_but_for_packs,
    same_content,
)
from indico_zodbrepl.dataplane.datafs.packs import packed_until
from indico_zodbrepl.dataplane.datafs.records import START, digest

EMPTY, EQUAL, BEHIND, AHEAD, DIVERGED, UNRELATED = (
    'empty', 'equal', 'behind', 'ahead', 'diverged', 'unrelated')


class Walk(object):
    """Counts made while two files are read side by side.

    Args:
        mine: the DataFile in question; None for an empty one.
        upstream: the DataFile or RemoteFile with the authoritative history.
        fork: as for `compare`.

    Attributes:
        packed: whether one of them was packed.
        blobs: a BlobComparison.
    """

    def __init__(self, mine, upstream, fork=None):
        self._mine = mine
        self._upstream = upstream
        self._fork = fork
        self._previous = None  # transactions of `mine`
        self._common = None
        self._after_common = 0  # missing ones since the last common one
        self.blobs = BlobComparison(mine, upstream)
        self._my_pack = Pack(mine)
        self._upstream_pack = Pack(upstream)
        self._in_my_pack = self._in_upstream_pack = False
        self._private_tids = []  # first and last
        self._packed_away = 0
        self._packed_away_last = self._packed_away_after = None
        self._merged = False  # private ones are older than a common one
        self.packed = False
        self.private = self.missing = self.holes = self.conflicting = 0
        self.bytes_private = self.examined = 0

    def start(self, mine, upstream):
        """Begin at these positions; everything before them is common."""
        last, other = self._mine.before(mine), self._upstream.before(upstream)
        self._common = self._previous = last
        self._in_my_pack = last is not None and last.packed
        self._in_upstream_pack = other is not None and other.packed

    def step(self, one, other):
        """Process the next transactions; of two different ones, the older."""
        if one is not None and other is not None and one.tid == other.tid:
            self._both(one, other)
            self._previous = one
        elif other is None or one is not None and one.tid < other.tid:
            self._only_mine(one, other)
            self._previous = one
        else:
            self.only_upstream(other, one)

    def _both(self, one, other):
        self.examined += 2
        if one.packed or other.packed:
            differences = compare_packed(self._mine, one, self._upstream, other)
        elif same_content(self._mine, one, self._upstream, other):
            differences = (), ()
        else:
            differences = None
        same_objects = differences is not None and not any(differences)
        self._my_pack.has(self._mine, one)
        # What is the same is read on this host.
        self._upstream_pack.has(*((self._mine, one) if same_objects else (self._upstream, other)))
        self._in_my_pack, self._in_upstream_pack = one.packed, other.packed
        self.holes += self._after_common
        self._after_common = 0
        self._merged = self._merged or self.private > 0
        if differences is None:
            self.conflicting += 1
            self.bytes_private += one.size
            return
        self._my_pack.lacks(other, differences[0])
        self._upstream_pack.lacks(one, differences[1])
        self.blobs.add(one, without=differences[1])
        if not (self.private or self.holes or self.conflicting):
            self._common = one

    def _only_mine(self, one, following):
        self.examined += 1
        self._my_pack.has(self._mine, one)
        self._in_my_pack = one.packed
        if (following is not None and (following.packed or self._in_upstream_pack)
                and self._upstream_pack.may_reach(one) and not self._is_after_fork(one)):
            if not self._packed_away:
                self._packed_away_after = self._previous
            self._packed_away += 1
            self._packed_away_last = one.tid
            self._upstream_pack.lacks(one, self._mine.oids(one))
        else:
            self._add_private(one)

    def _is_after_fork(self, one):
        return self._fork is not None and one.tid > self._fork

    def only_upstream(self, other, following=None):
        self.examined += 1
        self._upstream_pack.has(self._upstream, other)
        self._in_upstream_pack = other.packed
        if (following is not None and (following.packed or self._in_my_pack)
                and self._my_pack.may_reach(other)):
            self._my_pack.lacks(other, self._upstream.oids(other))
        else:
            self.missing += 1
            self._after_common += 1

    def _add_private(self, one):
        self.private += 1
        self.bytes_private += one.size
        tids = self._private_tids + [one.tid]
        self._private_tids = [min(tids), max(tids)]

    def explain(self):
        """Count what no pack explains, and compare the blobs; call it after the last step."""
        self.blobs.finish()
        troubles = list(self.blobs.transactions)
        for position in self._upstream_pack.unexplained():
            transaction = self._mine.at(position)
            troubles.append(transaction.tid)
            self._add_private(transaction)
            self._merged = True
        for tid in self._upstream.tids_at(self._my_pack.unexplained()):
            troubles.append(tid)
            self.missing += 1
            self.holes += 1
        if troubles and self._common is not None and self._common.tid >= min(troubles):
            before = common_before(self._mine, self._upstream,
                                   _preceding(min(troubles)), same_but_for_packs)
            self._common = None if before is None else before[0]

    def relation(self):
        if self._upstream.end > START and self._common is None:
            return UNRELATED
        if self.conflicting or self.holes or self._merged or self.blobs.differing:
            return DIVERGED
        if self.private:
            return DIVERGED if self.missing else AHEAD
        return BEHIND if self.missing else EQUAL

    def result(self, relation):
        first, last = [tid.encode('hex') for tid in self._private_tids] or (None, None)
        common = self._common and {'tid': self._common.tid.encode('hex'),
                                   'digest': digest(self._mine, self._common)}
        away, before = self._packed_away_last, self._packed_away_after
        return {
            'relation': relation, 'common': common,
            'private': self.private, 'private_first': first, 'private_last': last,
            'missing': self.missing, 'holes': self.holes,
            'conflicting': self.conflicting, 'bytes_private': self.bytes_private,
            'packed': self.packed, 'packed_away': self._packed_away,
            'packed_away_last': away and away.encode('hex'),
            'packed_away_after': before and before.tid.encode('hex'), 'examined': self.examined,
            'blobs': self.blobs.compared, 'blobs_differing': self.blobs.differing,
            'blobs_missing_upstream': self.blobs.missing_upstream,
            'blobs_private': len(self.blobs.own),
            'differing_blob': self.blobs.first,
            'unreadable': self._mine.unreadable if self._mine is not None else 0,
        }


def _preceding(tid):
    number = int(tid.encode('hex'), 16) - 1
    return ('%016x' % number).decode('hex')


class Pack(object):
    """The records that a packed file lacks, until they are explained.

    A pack removes records that have a newer one of the same object, and objects that
    nothing refers to.  So a missing record is explained if the packed file has a newer one of its
    object, or none at all.  Memory: some 14 bytes for each object that is not explained yet.

    Args:
        packed: the file that may have been packed; None for an empty one.
    """

    def __init__(self, packed):
        self._packed = packed
        self._until = packed and (
            packed.packed_until if packed.by_digests else packed_until(packed))
        self._lacking = fsIndex()
        self._used = False

    def may_reach(self, transaction):
        """Return False if a transaction of the other file is newer than any pack."""
        return self._until is None or transaction.tid <= self._until

    def lacks(self, transaction, oids):
        """Note a transaction of the other file whose records of these objects are missing here."""
        for oid in oids:
            self._lacking[oid] = transaction.position
            self._used = True

    def has(self, data_file, transaction):
        """Note a transaction of the packed file, in ascending order; it may explain records.

        Args:
            data_file: a file that has it with the same objects.
        """
        if self._used:
            for oid in data_file.oids(transaction):
                if oid in self._lacking:
                    del self._lacking[oid]

    def unexplained(self):
        """Return the positions in the other file of transactions that no pack removed."""
        if not self._used or not len(self._lacking):
            return set()
        return {self._lacking[oid] for oid in self._packed.packed_oids(self._lacking)}
