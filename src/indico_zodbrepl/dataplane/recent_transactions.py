"""The ids of a storage's last transactions, in memory."""
import collections
import threading


class RecentTransactions(object):
    """A ring of transaction ids in rising order; any thread may use it.

    Args:
        capacity: how many ids it keeps at most.
    """

    def __init__(self, capacity):
        self._lock = threading.Lock()
        self._tids = collections.deque(maxlen=capacity)
        self._complete = False

    def append(self, tid):
        """Adds the id of the transaction that has just been finished."""
        with self._lock:
            self._add(tid)

    def refill(self, tids, complete, last):
        """Replaces all ids up to `last`; keeps newer ones.

        Args:
            tids: what the storage held when it was read, oldest first.
            complete: whether it held nothing older than these.
            last: the storage's last transaction id when it was read.
        """
        with self._lock:
            newer = [tid for tid in self._tids if tid > last]
            self._tids.clear()
            self._complete = complete
            for tid in list(tids) + newer:
                self._add(tid)

    def count_after(self, tid):
        """Returns (how many are newer than `tid`, whether that is exact).

        When it is not exact, there are at least that many.
        """
        with self._lock:
            count = 0
            for each in reversed(self._tids):
                if each <= tid:
                    return count, True
                count += 1
            return count, self._complete

    def first_after(self, tid):
        """Returns the oldest that is newer than `tid`.

        None when there is none, or when these don't reach back so far.
        """
        with self._lock:
            first = None
            for each in reversed(self._tids):
                if each <= tid:
                    return first
                first = each
            return first if self._complete else None

    def holds(self, tid):
        """Whether `tid` is among them; if not, it may still be an older one."""
        with self._lock:
            return tid in self._tids

    def _add(self, tid):
        if len(self._tids) == self._tids.maxlen:
            self._complete = False
        self._tids.append(tid)
