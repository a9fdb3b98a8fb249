"""The commits of a process: how long each one took, and how many met a conflict."""
from __future__ import absolute_import

import bisect
import threading

from indico_zodbrepl.dataplane.programs.clock import monotonic

# Upper bounds of durations in seconds, from a millisecond to a minute; two for each doubling.
BOUNDS = [round(0.001 * 2 ** (step / 2.0), 6) for step in range(33)]


class Commits(object):
    """Counts the commits of a storage by their duration.  Thread-safe.

    A commit takes from its begin, which may wait for a writable server, to its
    acknowledgement.  The thread that begins a transaction also finishes it.
    """

    def __init__(self):
        self._lock = threading.Lock()
        self._under_way = threading.local()
        self._counts = [0] * (len(BOUNDS) + 1)
        self._conflicts = 0

    def begin(self):
        """Note that this thread begins a transaction."""
        self._under_way.since = monotonic()

    def end(self):
        """Count the transaction of this thread, which has been committed."""
        seconds = monotonic() - getattr(self._under_way, 'since', monotonic())
        with self._lock:
            self._counts[bisect.bisect_left(BOUNDS, seconds)] += 1

    def conflict(self):
        """Count a conflict."""
        with self._lock:
            self._conflicts += 1

    def figures(self):
        """Return a dict for JSON, of all commits so far.

        latencies: pairs of an upper bound in seconds and the number of commits that took at most
        as long and longer than the bound before; without pairs of 0 commits.  The last bound is
        None: longer than all others.  conflicts: number of conflicts.
        """
        with self._lock:
            counts, conflicts = list(self._counts), self._conflicts
        return {
            'latencies': [[bound, count] for bound, count in zip(BOUNDS + [None], counts) if count],
            'conflicts': conflicts}
