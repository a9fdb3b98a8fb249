"""The three states of caches that a test can begin each pass with.

cold  nothing in the connection's cache, nothing in that of the storage's client
warm  nothing in the connection's cache; the client's has what the test reads
hot   the connection's cache has what the test reads, as far as its limit allows

The operating system's cache of files, and that of a database server, are left alone.
"""
import time

import transaction

FILL_LEAST = 5.0  # seconds


class Caches(object):
    """Brings the caches of one connection into a state before each pass.

    Args:
        state: one of `parameters.CACHES`.
        connection: open, in this thread; it is at the beginning of a
            transaction after each call.
        counting, cache: what `counting.counted` yields.
    """

    def __init__(self, state, connection, counting, cache):
        self._state = state
        self._connection = connection
        self._counting = counting
        self._cache = cache

    def fill(self, things, touch, seconds, stop):
        """Touches the things once, unless the state is cold.

        Returns: those that were reached within `seconds` (five at least): the
        others would not be in the cache.
        """
        if self._state == 'cold':
            return things
        deadline = time.time() + max(seconds, FILL_LEAST)
        reached = []
        self.begin()
        for thing in things:
            touch(thing)
            reached.append(thing)
            if time.time() >= deadline or stop():
                break
        return reached

    def prepare(self):
        """Brings about the state for a pass that is about to begin."""
        self.begin()
        if self._state == 'hot':
            # What is above the limit goes, as at the end of a request.
            self._connection.cacheGC()
            return
        self._connection.cacheMinimize()
        if self._state == 'cold':
            self._cache.empty()

    def begin(self):
        """Begins a transaction with what the storage holds now."""
        transaction.abort()
        self._connection.sync()

    def reset_counts(self):
        self._counting.reset()
        self._cache.reset()
