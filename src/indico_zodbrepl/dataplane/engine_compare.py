"""How the transactions of two RelStorages with a common beginning relate."""
import contextlib
import time

from ZODB.POSException import POSKeyError
from ZODB.TimeStamp import TimeStamp
from ZODB.utils import load_current, p64, u64

from .convert.storages import Source
from .convert.transactions import difference
from .datafs.export import EVERYTHING

OWN_UNREADABLE, OTHER_UNREADABLE, DIFFERS = 3, 4, 7
LOOKED_BACK = (600, 86400, 30 * 86400)  # seconds before the last transaction, then everything


class Failed(Exception):
    """Something that the program says in one line before it ends with `status`."""

    def __init__(self, status, why):
        super(Failed, self).__init__(why)
        self.status = status


def tids(storage, start, status):
    """Returns the tids from one on, or from the beginning, oldest first.  Raises Failed."""
    try:
        with contextlib.closing(storage.iterator(start)) as found:
            return [each.tid for each in found]
    except Exception as error:  # as above
        raise Failed(status, one_line(error))


def private_tids(own, other):
    """Returns the newest tid that both have, or None, and the later ones of `own`, a list."""
    last = own.lastTransaction()
    starts = [_earlier(last, seconds) for seconds in LOOKED_BACK] if last > EVERYTHING else []
    for start in starts + [None]:
        mine = tids(own, start, OWN_UNREADABLE)
        theirs = set(tids(other, start, OTHER_UNREADABLE))
        common = [tid for tid in mine if tid in theirs]
        if common:
            return common[-1], mine[mine.index(common[-1]) + 1:]
    return None, mine


def _earlier(tid, seconds):
    moment = TimeStamp(tid).timeTime() - seconds
    return TimeStamp(*(time.gmtime(moment)[:5] + (moment % 60,))).raw()


def check_common(own, other, tid):
    """Raises Failed when the content of a transaction is not the same on both sides."""
    one, two = (next(Source(storage).transactions(p64(u64(tid) - 1))) for storage in (own, other))
    differs = difference(one, two, extension_bytes=False)
    if differs:
        raise Failed(DIFFERS, 'transaction %s differs: %s' % (tid.encode('hex'), differs))


def perhaps(own, other, common):
    """Returns of how many private transactions, the oldest, OTHER changed all objects since.

    Without history, that is.  What comes after one that OTHER surely lacks, it lacks, too.
    """
    count = 0
    for transaction in Source(own).transactions(common):
        if not all(_tid(other, record.oid) > transaction.tid for record in transaction.records):
            break
        count += 1
    return count


def _tid(storage, oid):
    try:
        return load_current(storage, oid)[1]
    except POSKeyError:
        return EVERYTHING


def one_line(error):
    """Returns an exception as one line."""
    return '%s: %s' % (type(error).__name__, ' '.join(str(error).split()))
