"""Commit transactions of one size, and report their number and latencies.

It says "ready", waits for a line, and works until its limit is reached: --seconds or --count.
Without a limit each line "next" begins another window, and "end", or the end of input, ends it.
After its answer it waits for the end of its input, so that its clean-up and the closing of the
storage do not affect other measurements.
"""
import argparse
import itertools
import os
import sys
import threading
import time
from array import array

import transaction
from persistent.list import PersistentList
from persistent.mapping import PersistentMapping
from ZEO.Exceptions import ClientDisconnected
from ZODB.POSException import ConflictError

from indico_zodbrepl.dataplane.benchmarks.measuring import cpu_seconds, latency_ms
from indico_zodbrepl.dataplane.benchmarks.programs import Caller, opened

POOL = 1000  # objects that transactions change in turn
AT_ONCE = 100  # objects that are made in one transaction
ATTEMPTS = 100


class Window(object):
    """The commits of a period of time."""

    def __init__(self):
        self.began = self._ended = time.time()
        self._cpu_before = cpu_seconds()
        self._cpu = 0.0
        self.latencies = array('d')
        self._slices = []
        self.conflicts = 0

    def add(self, began, ended, conflicts):
        self.latencies.append(max(ended - began, 0.0))
        self.conflicts += conflicts
        self._ended = ended
        self._cpu = cpu_seconds() - self._cpu_before
        number = int(max(ended - self.began, 0.0))
        self._slices.extend([0] * (number + 1 - len(self._slices)))
        self._slices[number] += 1

    def told(self):
        """Return a dict for JSON; `slices` has the number of commits that ended in each second."""
        seconds = max(self._ended - self.began, 1e-9)
        return {'commits': len(self.latencies), 'seconds': round(seconds, 4),
                'rate': round(len(self.latencies) / seconds, 3),
                'latency_ms': latency_ms(self.latencies), 'slices': self._slices,
                'conflicts': self.conflicts, 'cpu_seconds': round(self._cpu, 3)}


class Orders(object):
    """Lines of standard input, read in a thread: the number of windows wanted, and the end."""

    def __init__(self):
        self.windows = 1
        self.over = False

    def listen(self):
        """Start a thread that reads standard input."""
        thread = threading.Thread(target=self._read, name='orders')
        thread.daemon = True
        thread.start()

    def _read(self):
        while True:
            line = sys.stdin.readline()
            if line.strip() != 'next':
                self.over = True
                return
            self.windows += 1


def make(root, name, count, size):
    """Create the objects to change, in the root under a name."""
    objects = []
    for begin in range(0, count, AT_ONCE):
        made = [PersistentMapping(filler=filler(size)) for _ in range(min(AT_ONCE, count - begin))]
        for each in made:
            root._p_jar.add(each)  # the list, which is large, is stored once only
        transaction.commit()
        objects.extend(made)
    root[name] = PersistentList(objects)
    transaction.commit()


def filler(size):
    """Return text that compresses to half its size, like much of Indico's."""
    return os.urandom((size + 1) // 2).encode('hex')[:size]


def commit(objects, size):
    """Change the objects in one transaction; return the number of retries."""
    for attempt in range(ATTEMPTS):
        transaction.begin()
        try:
            for each in objects:
                each['filler'] = filler(size)
            transaction.commit()
            return attempt
        except (ConflictError, ClientDisconnected):
            transaction.abort()
            if attempt + 1 == ATTEMPTS:
                raise
            time.sleep(0.01)


def work(objects, options, orders):
    """Commit until the end; return the windows as dicts."""
    ring = itertools.cycle(objects)
    windows = [Window()]
    while not orders.over:
        began = time.time()
        window = windows[-1]
        if (options.count and len(window.latencies) >= options.count
                or options.seconds and began - window.began >= options.seconds):
            break
        if orders.windows > len(windows):
            window = Window()
            windows.append(window)
        conflicts = commit(list(itertools.islice(ring, options.objects)), options.bytes)
        window.add(began, time.time(), conflicts)
    windows.extend(Window() for _ in range(len(windows), orders.windows))
    return [each.told() for each in windows]


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('conf')
    parser.add_argument('--objects', type=int, default=1, help='that a transaction changes')
    parser.add_argument('--bytes', type=int, default=1000, help='of an object, about')
    parser.add_argument('--pool', type=int, default=POOL, help='objects that are changed in turn')
    parser.add_argument('--seconds', type=float, default=0.0)
    parser.add_argument('--count', type=int, default=0, help='of transactions')
    parser.add_argument('--keep', action='store_true', help='leave the objects where they are')
    options = parser.parse_args(arguments)
    caller, orders, name = Caller(), Orders(), 'bench commits %d' % os.getpid()
    pool = max(options.pool, options.objects)
    db = opened(options.conf, 2 * max(POOL, options.objects))
    connection = db.open()
    make(connection.root(), name, pool, options.bytes)
    objects = list(connection.root()[name])
    caller.wait()
    if not options.seconds and not options.count:
        orders.listen()
    caller.answer({'windows': work(objects, options, orders)})
    if not orders.over:
        sys.stdin.read()
    if not options.keep:
        del connection.root()[name]
        transaction.commit()
    connection.close()
    db.close()


if __name__ == '__main__':
    main()
