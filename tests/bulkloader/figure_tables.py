"""What was measured of ways to load, as a table and as plain values (pure)."""
from collections import namedtuple

# rate: conferences a second. size: bytes that a conference adds to Data.fs. memory: MiB at the
# peak. cpu: seconds a conference.
Measured = namedtuple('Measured', 'rate size memory cpu')


def median(values):
    """The middle one, or the mean of the two in the middle."""
    ordered = sorted(values)
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2.0


def time_left(past, coming, seconds):
    """In words what is left of measurements that were expected to take some times.

    Args:
        past: expected seconds of those that are done.
        coming: of those that are not.
        seconds: what those that are done really took.
    """
    slower = seconds / sum(past) if past else 1.0
    left = slower * sum(coming)
    if left < 90:
        return ', about %d s left' % left
    return ', about %d min left' % round(left / 60)


class Figures(object):
    """Measurements by way and by number of conferences.

    Args:
        ways: their names, in the order of the table; the first one is what others are told by.
    """

    def __init__(self, ways):
        self._ways = ways
        self._kept = {}

    def keep(self, way, conferences, measured):
        self._kept.setdefault((conferences, way), []).append(measured)

    def of(self, way, conferences):
        """The medians of a way's measurements; None if there are none."""
        kept = self._kept.get((conferences, way))
        return Measured(*map(median, zip(*kept))) if kept else None

    def table(self):
        """Returns a table in Markdown."""
        lines = ['| conferences | way | conferences/s | times naive | bytes a conference '
                 '| CPU a conference | peak memory |', '|---:|---|---:|---:|---:|---:|---:|']
        for conferences in sorted(set(size for size, _ in self._kept)):
            lines.extend(self._line(way, conferences) for way in self._ways
                         if (conferences, way) in self._kept)
        return '\n'.join(lines)

    def _line(self, way, conferences):
        found, first = self.of(way, conferences), self.of(self._ways[0], conferences)
        times = '%.1f' % (found.rate / first.rate) if first else ''
        return '| %d | %s | %.*f | %s | %d | %.2f ms | %d MiB |' % (
            conferences, way, 0 if found.rate >= 100 else 1, found.rate, times, round(found.size),
            1000 * found.cpu, round(found.memory))

    def as_list(self):
        """All measurements, for JSON."""
        return [dict(each._asdict(), conferences=conferences, way=way)
                for (conferences, way), kept in sorted(self._kept.items()) for each in kept]
