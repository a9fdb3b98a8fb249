"""Report the progress of a backup or a restore."""
from __future__ import absolute_import

from indico_zodbrepl.dataplane.programs.clock import monotonic

REPORT_EACH = 0.5  # seconds


class Counted(object):
    """A counter of bytes that reports progress now and then.

    Args:
        say: called with a dict of stage, done and total, in bytes; the total may be None.
    """

    def __init__(self, say):
        self._say = say
        self._stage, self._total, self._done = '', None, 0
        self._next = 0

    def begin(self, stage, total):
        self._stage, self._total, self._done = stage, total, 0

    def add(self, count):
        self._done += count
        if monotonic() >= self._next:
            self._next = monotonic() + REPORT_EACH
            total = self._total and max(self._total, self._done)
            self._say({'stage': self._stage, 'done': self._done, 'total': total})

    def counting(self, dofile):
        """Return a counting version of repozo's dofile, through which repozo reads everything."""
        dofile = getattr(dofile, 'uncounted', dofile)

        def counted(func, fp, n=None):
            def one(data):
                func(data)
                self.add(len(data))
            return dofile(one, fp, n)

        counted.uncounted = dofile
        return counted
