"""Compare the history of a data file with that of its upstream.

Files are compared byte by byte up to the first difference, found by bisection, then
transaction by transaction.  Differences that a pack explains do not count.
"""
from __future__ import absolute_import

import itertools
import os

from ZODB.fsIndex import fsIndex

from indico_zodbrepl.dataplane.datafs.datafile import DataFile
from indico_zodbrepl.dataplane.datafs.failures import Changed, Damaged, Missing
from indico_zodbrepl.dataplane.datafs.packs import packed_until
from indico_zodbrepl.dataplane.datafs.records import START, digest

ATTEMPTS = 5


def compare(path, upstream_path, verified=None, fork=None):
    """Compare a Data.fs with its upstream's; servers may have both of them open.

    Args:
        path: of the file; a missing one counts as empty.
        upstream_path: of the file with the authoritative history.
        verified: a tid up to which the two are known to be the same; None compares all.
        fork: a tid up to which the upstream had every transaction of the file, and after
            which it got none of them; None when it is not known. Returns a dict for JSON.  Its
numbers are transactions:

        relation: the file is 'empty', 'equal', 'behind' (a follower can fetch the rest),
            'ahead' (has everything and more), 'diverged', or 'unrelated': nothing in common.
        common: tid and digest of the last transaction before the two go apart, or None.
        private: those only the file has; private_first, private_last: their tids.
        missing: those only the upstream has; holes: those of them that are older than a
            common one, so that a follower would never fetch them.
        conflicting: those with the same tid and different content.
        packed: whether one of them was packed.
        packed_away: those only the file has, all of whose records a pack of the upstream
            may have removed; packed_away_last: the last one's tid, packed_away_after: that of
            the file's transaction before the first one.  If the file was written to by others
            than its upstream, transactions of its own may be among them, unless there is a
            `fork`.
        bytes_private: of the private and the conflicting ones in the file.
        examined: transactions whose header was read in either file.

    Raises DataFileError.
    """
    for _ in range(ATTEMPTS):
        # The follower first: the other file only grows meanwhile.
        try:
            mine = DataFile(path)
        except Missing:
            if os.path.lexists(path):
                raise
            with DataFile(upstream_path) as upstream:
                return _of_an_empty_file(upstream)
        with mine, DataFile(upstream_path) as upstream:
            try:
                result = _compare(mine, upstream, verified, fork)
            except (Changed, Damaged):
                if not (mine.replaced() or upstream.replaced()
                        or mine.present_size() < mine.end):
                    raise
                continue
            if not (mine.replaced() or upstream.replaced()):
                return result
    raise Changed('%s or %s is replaced again and again' % (path, upstream_path))


def _of_an_empty_file(upstream):
    walk = Walk(None, upstream)
    for transaction in upstream.forward():
        walk.only_upstream(transaction)
    return walk.result(EMPTY)


def _compare(mine, upstream, verified, fork):
    if mine.end == START:
        return _of_an_empty_file(upstream)
    walk = Walk(mine, upstream, fork)
    walk.packed = any(next(each.forward()).packed for each in (mine, upstream)
                      if each.end > START)
    begin = START, START
    if verified is not None:
        common = common_before(mine, upstream, verified, same_but_for_packs)
        if common is not None:
            begin = common[0].end, common[1].end
    if begin[0] == begin[1]:
        begin = 2 * (skip_identical(mine, upstream, begin[0]),)
    walk.start(*begin)
    for one, other in _side_by_side(mine.forward(begin[0]), upstream.forward(begin[1])):
        walk.step(one, other)
    walk.explain()
    return walk.result(walk.relation())


def _side_by_side(ours, theirs):
    """Yield pairs of transactions, oldest first, with None for the one that is missing."""
    one, other = next(ours, None), next(theirs, None)
    while one is not None or other is not None:
        yield one, other
        older = min(each.tid for each in (one, other) if each is not None)
        if one is not None and one.tid == older:
            one = next(ours, None)
        if other is not None and other.tid == older:
            other = next(theirs, None)


BLOCK = 1 << 20  # bytes


def same_content(left, one, right, other):
    """Return True if two transactions of two DataFiles have the same tid, texts and records."""
    if one.tid != other.tid or one.metadata != other.metadata:
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
    differs = first_difference(left.raw, right.raw, position, end)
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
            return position + _equal_bytes(ours, theirs)
        position += length
    return end


def _equal_bytes(ours, theirs):
    low, high = 0, min(len(ours), len(theirs))
    while low < high:
        middle = (low + high + 1) // 2
        if ours[low:middle] == theirs[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


EMPTY, EQUAL, BEHIND, AHEAD, DIVERGED, UNRELATED = (
    'empty', 'equal', 'behind', 'ahead', 'diverged', 'unrelated')


class Walk(object):
    """Counts made while two files are read side by side.

    Args:
        mine: the DataFile in question; None for an empty one.
        upstream: the DataFile with the authoritative history.
        fork: as for `compare`.

    Attributes:
        packed: whether one of them was packed.
    """

    def __init__(self, mine, upstream, fork=None):
        self._mine = mine
        self._upstream = upstream
        self._fork = fork
        self._previous = None  # transactions of `mine`
        self._common = None
        self._after_common = 0  # missing ones since the last common one
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
        self._my_pack.has(one)
        self._upstream_pack.has(other)
        if one.packed or other.packed:
            differences = compare_packed(self._mine, one, self._upstream, other)
        elif same_content(self._mine, one, self._upstream, other):
            differences = (), ()
        else:
            differences = None
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
        if not (self.private or self.holes or self.conflicting):
            self._common = one

    def _only_mine(self, one, following):
        self.examined += 1
        self._my_pack.has(one)
        self._in_my_pack = one.packed
        if (following is not None and (following.packed or self._in_upstream_pack)
                and self._upstream_pack.may_reach(one) and not self._is_after_fork(one)):
            if not self._packed_away:
                self._packed_away_after = self._previous
            self._packed_away += 1
            self._packed_away_last = one.tid
            self._upstream_pack.lacks(
                one, [record.oid for record in self._mine.records(one)])
        else:
            self._add_private(one)

    def _is_after_fork(self, one):
        return self._fork is not None and one.tid > self._fork

    def only_upstream(self, other, following=None):
        self.examined += 1
        self._upstream_pack.has(other)
        self._in_upstream_pack = other.packed
        if (following is not None and (following.packed or self._in_my_pack)
                and self._my_pack.may_reach(other)):
            self._my_pack.lacks(
                other, [record.oid for record in self._upstream.records(other)])
        else:
            self.missing += 1
            self._after_common += 1

    def _add_private(self, one):
        self.private += 1
        self.bytes_private += one.size
        tids = self._private_tids + [one.tid]
        self._private_tids = [min(tids), max(tids)]

    def explain(self):
        """Count what no pack explains; call it after the last step."""
        troubles = []
        for position in self._upstream_pack.unexplained():
            transaction = self._mine.at(position)
            troubles.append(transaction.tid)
            self._add_private(transaction)
            self._merged = True
        for position in self._my_pack.unexplained():
            troubles.append(self._upstream.at(position).tid)
            self.missing += 1
            self.holes += 1
        if troubles and self._common is not None and self._common.tid >= min(troubles):
            before = common_before(self._mine, self._upstream,
                                   _preceding(min(troubles)), same_but_for_packs)
            self._common = None if before is None else before[0]

    def relation(self):
        if self._upstream.end > START and self._common is None:
            return UNRELATED
        if self.conflicting or self.holes or self._merged:
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
        packed: the DataFile that may have been packed; None for an empty one.
    """

    def __init__(self, packed):
        self._packed = packed
        self._until = packed and packed_until(packed)
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

    def has(self, transaction):
        """Note a transaction of the packed file, in ascending order; it may explain records."""
        if self._used:
            for record in self._packed.records(transaction):
                if record.oid in self._lacking:
                    del self._lacking[record.oid]

    def unexplained(self):
        """Return the positions in the other file of transactions that no pack removed."""
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
    """Compare two transactions with the same tid, from which a pack may have removed records.

    Returns: None if they are not the same transaction; otherwise the oids of the records that only
        the right one has, and of those that only the left one has.
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
    """Return True if two transactions are the same, apart from records removed by packs."""
    if one.packed or other.packed:
        return one.tid == other.tid and compare_packed(left, one, right, other) is not None
    return same_content(left, one, right, other)
