"""Look a transaction up in the history of a Data.fs."""
from __future__ import absolute_import

import collections
import itertools

from ZODB.utils import z64

from indico_zodbrepl.dataplane.datafs.datafile import DataFile
from indico_zodbrepl.dataplane.datafs.failures import Damaged
from indico_zodbrepl.dataplane.datafs.packs import packed_until
from indico_zodbrepl.dataplane.datafs.records import START, digest

FIRST_STEPS, MOST_STEPS = 64, 4096  # transactions that are read in one direction before the other
LANDMARKS = 16  # more than there are followers


class Landmarks(object):
    """Transactions found in a data file, from which the next searches start; any thread may use it.

    A follower that is far behind is looked up each second, and has come a little further.
    """

    def __init__(self):
        # A deque of this length drops the oldest; appending and copying are atomic.
        self._found = collections.deque(maxlen=LANDMARKS)

    def add(self, data_file, transaction):
        """Note a Transaction of a DataFile."""
        self._found.append((data_file.identity(), transaction.tid, transaction.position))

    def before(self, data_file, tid):
        """Return the position of the newest known transaction up to a tid, else of the first one.

        One that is no longer there, as after a pack or a rollback, is ignored.
        """
        identity = data_file.identity()
        for of, found, position in sorted(self._found, reverse=True):
            if of == identity and found <= tid and _is_at(data_file, found, position):
                return position
        return START


def look_up(path, tid, with_digest=False, landmarks=None):
    """Look a transaction up in a data file from its end and from a landmark.

    It is fast for recent transactions, and for those that shortly follow one that was found before.
    Any thread may do so while a server writes the file.

    Args:
        path: of the Data.fs.
        tid: 8 bytes; `z64` is the beginning, which every history holds.
        with_digest: True to compute the digest of the transaction's content.
        landmarks: the `Landmarks` of this path, which get another one; None to search in all of it.

    Returns (known, digest): known is None if a pack may have removed the
    transaction; the digest is None unless the transaction is complete.  Raises
    DataFileError.
    """
    if tid == z64:
        return True, None
    with DataFile(path) as data_file:
        begin = START if landmarks is None else landmarks.before(data_file, tid)
        transaction, following = _around(data_file, tid, begin)
        if transaction is not None and following is not None and landmarks is not None:
            landmarks.add(data_file, transaction)
        if transaction is None or transaction.tid < tid:
            until = packed_until(data_file)
            if until is not None and tid > until:
                return False, None
            return _between(transaction, following), None
        if with_digest and not transaction.packed:
            return True, digest(data_file, transaction)
        return True, None


def _around(data_file, tid, begin):
    """Return the newest Transaction up to a tid, and the one that follows it; None for neither.

    The search goes back from the end and forward from a position, in turns, so that it reads twice
    as much as the shorter of both ways at most.
    """
    newer, older = data_file.backward(), _until_damage(data_file.forward(begin))
    before = after = None
    steps = FIRST_STEPS
    while True:
        for transaction in itertools.islice(newer, steps):
            if transaction.tid <= tid:
                return transaction, after
            after = transaction
        for transaction in itertools.islice(older, steps):
            if transaction.tid > tid:
                return before, transaction
            before = transaction
        if after is None or after.position == START:
            return None, after
        steps = min(MOST_STEPS, 2 * steps)


def _until_damage(transactions):
    """Yield what can be read; the search from the other side does not need what follows damage."""
    try:
        for transaction in transactions:
            yield transaction
    except Damaged:
        return


def _is_at(data_file, tid, position):
    try:
        return position < data_file.end and data_file.at(position).tid == tid
    except Damaged:
        return False


def _between(before, after):
    """Judge a gap between two transactions of the file, or at its ends."""
    if after is None:
        return False
    packed = after.packed or before is not None and before.packed
    return None if packed else False
