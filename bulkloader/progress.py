"""Progress of a run: items, rate and time left, on a terminal or in a log."""
import time

LOG_INTERVAL = 5.0       # seconds between two lines of a log
REFRESH_INTERVAL = 0.2   # seconds between two refreshments of a terminal's line


def duration(seconds):
    """Return seconds as '8 s', '3 min 05 s' or '2 h 07 min'."""
    seconds = int(round(seconds))
    if seconds < 60:
        return '%d s' % seconds
    if seconds < 3600:
        return '%d min %02d s' % divmod(seconds, 60)
    return '%d h %02d min' % divmod(seconds // 60, 60)


def amount_of_bytes(count):
    """Return bytes as '0.4 MiB', '512.0 MiB' or '4.9 GiB'."""
    if count < 1 << 30:
        return '%.1f MiB' % (count / float(1 << 20))
    return '%.1f GiB' % (count / float(1 << 30))


def line(done, total, fresh, seconds, written=0, what='conferences'):
    """Return one line about a run.

    Args:
        done: conferences committed so far, in this and earlier sittings.
        total: conferences of the run.
        fresh: how many of `done` this sitting made.
        seconds: how long this sitting has taken.
        written: bytes by which the database grew in this sitting, 0 when nobody knows.
        what: is counted.
    """
    text = '%d of %d %s (%d %%)' % (done, total, what, 100 * done // total)
    if fresh and seconds > 0:
        rate = fresh / float(seconds)
        text += ', %.1f %s/s' % (rate, what)
        if done < total:
            text += ', %s left' % duration((total - done) / rate)
    if written > 0:
        text += ', %s written' % amount_of_bytes(written)
    return text


class Progress(object):
    """Writes `line`s to a stream: one that is refreshed on a terminal, else one now and then.

    Args:
        stream: a file; its `isatty()` decides.
        total: conferences of the run.
        already: conferences that earlier sittings committed.
        size: returns the bytes of the database; asked for each line.
        clock: returns seconds; for tests.
        what: is counted.
    """

    def __init__(self, stream, total, already, size=None, clock=time.time, what='conferences'):
        self._what = what
        self._stream = stream
        self._terminal = stream.isatty()
        self._total = total
        self._already = already
        self._size = size or (lambda: 0)
        self._size_before = self._size()
        self._clock = clock
        self._begun = self._written = clock()

    def report(self, done):
        """Tell that `done` conferences are committed; write when it is time to."""
        now = self._clock()
        interval = REFRESH_INTERVAL if self._terminal else LOG_INTERVAL
        if done == self._total or now - self._written >= interval:
            self._write(done, now)

    def _write(self, done, now):
        self._written = now
        text = line(done, self._total, done - self._already, now - self._begun,
                    self._size() - self._size_before, self._what)
        if self._terminal:
            self._stream.write('\r%s\x1b[K' % text)
        else:
            self._stream.write(text + '\n')
        self._stream.flush()

    def finish(self):
        """Leave the terminal's line, so that what follows starts on a new one."""
        if self._terminal:
            self._stream.write('\n')
            self._stream.flush()
