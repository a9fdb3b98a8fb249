"""What one process of `raw` measures."""
import collections
import resource
import time

TICKS = 1e7  # in a second; latencies are counted in them


class Measured(object):
    """What was measured.

    Attributes:
        operations: commits, or objects read.
        seconds, cpu_seconds: cpu is that of all threads of this process.
        conflicts: how often a commit was tried again.
        stored_bytes: of all records given to the storage.
        loads: records that were not in the connection's cache.
        misses: those of them that the client's cache did not have, either.
        latencies: numbers of operations by tenths of a microsecond; not of hot reads.
    """

    def __init__(self):
        self.operations = self.conflicts = self.stored_bytes = self.loads = self.misses = 0
        self.seconds = self.cpu_seconds = 0.0
        self.latencies = collections.Counter()

    def timed(self):
        return _Timed(self)

    def count(self, seconds):
        self.operations += 1
        self.latencies[int(max(seconds, 0.0) * TICKS)] += 1

    def as_dict(self):
        return dict(vars(self), latencies=sorted(self.latencies.items()))


class _Timed(object):
    """A context whose time is added to a `Measured`."""

    def __init__(self, measured):
        self._measured = measured

    def __enter__(self):
        self._begun, self._cpu = time.time(), _cpu_seconds()

    def __exit__(self, *error):
        self._measured.seconds += max(time.time() - self._begun, 0.0)
        self._measured.cpu_seconds += _cpu_seconds() - self._cpu


def _cpu_seconds():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
