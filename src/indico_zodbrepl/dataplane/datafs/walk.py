"""What one data file has and another one lacks, counted transaction by transaction."""
from .alignment import common_before, same_content
from .packing import Pack, compare_packed, same_but_for_packs
from .records import START, digest

EMPTY, EQUAL, BEHIND, AHEAD, DIVERGED, UNRELATED = (
    'empty', 'equal', 'behind', 'ahead', 'diverged', 'unrelated')


class Walk(object):
    """Counts while two files are walked side by side.

    Args:
        mine: the DataFile in question; None for an empty one.
        upstream: that whose history is the right one.

    Attributes:
        packed: whether one of them was packed.
    """

    def __init__(self, mine, upstream):
        self._mine = mine
        self._upstream = upstream
        self._common = None
        self._after_common = 0  # missing ones since the last common one
        self._my_pack = Pack(mine)
        self._upstream_pack = Pack(upstream)
        self._in_my_pack = self._in_upstream_pack = False
        self._private_tids = []  # first and last
        self._packed_away = 0
        self._packed_away_last = None
        self._merged = False  # private ones are older than a common one
        self.packed = False
        self.private = self.missing = self.holes = self.conflicting = 0
        self.bytes_private = self.examined = 0

    def start(self, mine, upstream):
        """Everything before these positions is common."""
        last, other = self._mine.before(mine), self._upstream.before(upstream)
        self._common = last
        self._in_my_pack = last is not None and last.packed
        self._in_upstream_pack = other is not None and other.packed

    def step(self, one, other):
        """Takes the next transactions; of two different ones, the older."""
        if one is not None and other is not None and one.tid == other.tid:
            self._both(one, other)
        elif other is None or one is not None and one.tid < other.tid:
            self._only_mine(one, other)
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
        if following is not None and (following.packed or self._in_upstream_pack):
            self._packed_away += 1
            self._packed_away_last = one.tid
            self._upstream_pack.lacks(
                one, [record.oid for record in self._mine.records(one)])
        else:
            self._add_private(one)

    def only_upstream(self, other, following=None):
        self.examined += 1
        self._upstream_pack.has(other)
        self._in_upstream_pack = other.packed
        if following is not None and (following.packed or self._in_my_pack):
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
        """Counts what no pack explains; to be called after the last step."""
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
        away = self._packed_away_last
        return {
            'relation': relation, 'common': common,
            'private': self.private, 'private_first': first, 'private_last': last,
            'missing': self.missing, 'holes': self.holes,
            'conflicting': self.conflicting, 'bytes_private': self.bytes_private,
            'packed': self.packed, 'packed_away': self._packed_away,
            'packed_away_last': away and away.encode('hex'), 'examined': self.examined,
        }


def _preceding(tid):
    number = int(tid.encode('hex'), 16) - 1
    return ('%016x' % number).decode('hex')
