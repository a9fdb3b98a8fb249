"""The time that a process has spent in storage calls, that is, waiting for its storage."""
from __future__ import absolute_import

import thread


class StorageCalls(object):
    """Counts storage calls and their duration in all threads.

    Durations are wall-clock time: waiting for a server, a disk or another thread, and
    the client's own small share.  A call within another one counts, too.
    """

    def __init__(self):
        # Each thread changes only its own [count, seconds, calls under way].
        self._of_threads = {}

    def begin(self):
        """Count a call of this thread as under way."""
        totals = self._of_threads.get(thread.get_ident())
        if totals is None:
            totals = self._of_threads.setdefault(thread.get_ident(), [0, 0.0, 0])
        totals[2] += 1

    def end(self, seconds):
        """Count the end of a call that this thread has begun."""
        totals = self._of_threads[thread.get_ident()]
        totals[0] += 1
        totals[1] += seconds
        totals[2] -= 1

    def are_under_way(self):
        """Return True if a thread waits for the storage."""
        return any(under_way for _, _, under_way in list(self._of_threads.values()))

    def figures(self):
        """Return a dict for JSON: count and seconds of all calls that have ended so far."""
        totals = list(self._of_threads.values())
        return {'count': sum(count for count, _, _ in totals),
                'seconds': round(sum(seconds for _, seconds, _ in totals), 6)}
