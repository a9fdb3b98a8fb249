"""How long a process has been in calls of its storage, which is how long it waited for it."""
import thread


class StorageCalls(object):
    """Counts calls and the time that they take, in all threads.

    A call's time is the wall clock's: waiting for a server, a disk or another
    thread, and the client's own work, which is little.
    """

    def __init__(self):
        self._of_threads = {}  # one's [count, seconds] is changed by itself only

    def add(self, seconds):
        """Counts one call of this thread."""
        totals = self._of_threads.get(thread.get_ident())
        if totals is None:
            totals = self._of_threads.setdefault(thread.get_ident(), [0, 0.0])
        totals[0] += 1
        totals[1] += seconds

    def figures(self):
        """Returns a dict for JSON: count and seconds of all calls that have ended so far."""
        totals = list(self._of_threads.values())
        return {'count': sum(count for count, _ in totals),
                'seconds': round(sum(seconds for _, seconds in totals), 6)}
