"""The time that a process has spent in storage calls, that is, waiting for its storage."""
from __future__ import absolute_import

import thread


class StorageCalls(object):
    """Counts storage calls and their duration in all threads.

    Durations are wall-clock time: waiting for a server, a disk or another thread, and
    the client's own small share.
    """

    def __init__(self):
        self._of_threads = {}  # one's [count, seconds] is changed by itself only

    def add(self, seconds):
        """Count one call of this thread."""
        totals = self._of_threads.get(thread.get_ident())
        if totals is None:
            totals = self._of_threads.setdefault(thread.get_ident(), [0, 0.0])
        totals[0] += 1
        totals[1] += seconds

    def figures(self):
        """Return a dict for JSON: count and seconds of all calls that have ended so far."""
        totals = list(self._of_threads.values())
        return {'count': sum(count for count, _ in totals),
                'seconds': round(sum(seconds for _, seconds in totals), 6)}
