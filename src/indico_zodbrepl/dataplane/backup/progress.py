"""How far reading and copying is."""
import time

REPORT_EACH = 0.5  # seconds


class Counted(object):
    """Counts bytes and tells of them now and then.

    Args:
        say: takes a dict with stage, done and total, in bytes; the total may be None.
    """

    def __init__(self, say):
        self._say = say
        self._stage, self._total, self._done = '', None, 0
        self._next = 0

    def begin(self, stage, total):
        self._stage, self._total, self._done = stage, total, 0

    def add(self, count):
        self._done += count
        if time.time() >= self._next:
            self._next = time.time() + REPORT_EACH
            total = self._total and max(self._total, self._done)
            self._say({'stage': self._stage, 'done': self._done, 'total': total})

    def counting(self, dofile):
        """Returns repozo's dofile, through which all that it reads goes, counted."""
        dofile = getattr(dofile, 'uncounted', dofile)

        def counted(func, fp, n=None):
            def one(data):
                func(data)
                self.add(len(data))
            return dofile(one, fp, n)

        counted.uncounted = dofile
        return counted
