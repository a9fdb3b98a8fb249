"""Measure a test: its duration, its transactions and the state of its caches."""
from __future__ import absolute_import

import math
import resource
import time
from array import array

import transaction
from indico.core.db import DBMgr, turns
from indico.core.db.retries import STORAGE_ERRORS, Retries
from indico.util.contextManager import ContextManager

MOST = 1000000  # maximum number of operations in a test: their latencies are kept
PATIENCE = 5.0  # factor: total time of a test / seconds to measure
LEAST_PATIENCE = 10.0  # seconds
PERCENTILES = (('p50', 0.5), ('p90', 0.9), ('p99', 0.99))
# Python 2's interpreter lock is unfair: without pauses (not measured), the instance's other
# requests, including its health check, wait for seconds.
WITHOUT_PAUSE = 0.02  # seconds
PAUSE = 0.002  # seconds
THREAD = 1  # RUSAGE_THREAD of getrusage(2); Python 2.7 has no name for it


class Clock(object):
    """A clock for operations.  Pauses between passes count as total time, not as measured time.

    Args:
        seconds: maximum measured time.
        most: maximum number of operations.
        stop: called without arguments; True means to end now.

    Attributes:
        latencies: seconds of each operation, an array.
        seconds: measured so far.
    """

    def __init__(self, seconds, most, stop):
        self.latencies = array('d')
        self.seconds = 0.0
        self.cpu_seconds = 0.0
        self.passes = 0
        self._limit = seconds
        self._most = min(most, MOST)
        self._stop = stop
        self._deadline = time.time() + max(PATIENCE * seconds, LEAST_PATIENCE)

    def is_up(self):
        """Return True if nothing more is to be measured."""
        return (self.seconds >= self._limit or len(self.latencies) >= self._most
                or time.time() >= self._deadline or self._stop())

    def pass_over(self, things, operate):
        """Call `operate` with each thing until time is up; return the sum of the results."""
        latencies, stop = self.latencies, self._stop
        begun = at = paused = time.time()
        cpu = cpu_seconds()
        left, pauses = self._limit - self.seconds, 0.0
        total = 0
        try:
            for thing in things:
                total += operate(thing)
                before, at = at, time.time()
                latencies.append(max(at - before, 0.0))
                if (at - begun - pauses >= left or at >= self._deadline
                        or len(latencies) >= self._most or stop()):
                    break
                if at - paused >= WITHOUT_PAUSE:
                    time.sleep(PAUSE)
                    paused = time.time()
                    pauses += max(paused - at, 0.0)
                    at = paused
        finally:
            self.seconds += max(at - begun - pauses, 0.0)
            self.cpu_seconds += cpu_seconds() - cpu
        self.passes += 1
        return total


def cpu_seconds():
    """Return the CPU time of this thread."""
    used = resource.getrusage(THREAD)
    return used.ru_utime + used.ru_stime


def latency_ms(latencies):
    """Return mean, p50, p90, p99 (nearest rank) and max in milliseconds; all None without any."""
    if not latencies:
        return dict.fromkeys(['mean', 'max'] + [name for name, _ in PERCENTILES])
    ordered = sorted(latencies)
    found = dict((name, _ms(ordered[int(math.ceil(part * len(ordered))) - 1]))
                 for name, part in PERCENTILES)
    found.update(mean=_ms(sum(ordered) / len(ordered)), max=_ms(ordered[-1]))
    return found


def _ms(seconds):
    return round(1000.0 * seconds, 4)


def begin():
    """Make Indico forget what it caches between the objects of one request."""
    ContextManager.destroy()
    ContextManager.set('autoOps', [])


def committed(work):
    """Commit `work()`; return its result and the number of retries.

    Raises the last error of the storage when Indico would answer a request
    with it; nothing of this transaction was saved then, unless the error has
    the attribute `outcome_unknown`.
    """
    manager = DBMgr.getInstance()
    turns.letPass()
    retries, retried = Retries(), 0
    try:
        while True:
            begin()
            try:
                manager.sync()
                result = work()
                manager.commit()
                return result, retried
            except STORAGE_ERRORS as error:
                manager.abort()
                retries.waitOrRaise(error)
                retried += 1
            except Exception:
                # Much of Indico mistakes a storage error for a missing object.
                try:
                    manager.raiseFailure()
                except STORAGE_ERRORS as error:
                    manager.abort()
                    retries.waitOrRaise(error)
                    retried += 1
                    continue
                manager.abort()
                raise
    finally:
        turns.end()


FILL_LEAST = 5.0  # seconds


class Caches(object):
    """The caches of one connection, brought into a defined state before each pass.

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
        """Access the objects once, unless the state is cold.

        Returns: those that were reached within `seconds` (five at least); the
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
        """Bring the caches into the state for the next pass."""
        self.begin()
        if self._state == 'hot':
            # Evict what exceeds the limit, as at the end of a request.
            self._connection.cacheGC()
            return
        self._connection.cacheMinimize()
        if self._state == 'cold':
            self._cache.empty()

    def begin(self):
        """Begin a transaction with the storage's present state."""
        transaction.abort()
        self._connection.sync()

    def reset_counts(self):
        self._counting.reset()
        self._cache.reset()
