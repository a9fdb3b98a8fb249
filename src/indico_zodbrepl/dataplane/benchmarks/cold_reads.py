"""Read objects in passes that begin with empty caches, both in this process and in the kernel.

With --fill, create missing objects instead.
"""
import argparse
import contextlib
import ctypes
import errno
import os
import random

import transaction

from indico_zodbrepl.dataplane.benchmarks.commits import make
from indico_zodbrepl.dataplane.benchmarks.counting import base_of, client_cache_of
from indico_zodbrepl.dataplane.benchmarks.measuring import MOST, Clock, latency_ms
from indico_zodbrepl.dataplane.benchmarks.programs import Caller, opened

NAME = 'bench cold reads'
DONTNEED = 4  # of posix_fadvise(2)
CACHED = 1000  # objects in the connection's cache


def drop_pages(folder):
    """Make the operating system drop its cached pages of the files in a folder.

    Returns the number of files, and the number of those that may not be opened.
    """
    advise = ctypes.CDLL(None, use_errno=True).posix_fadvise
    advise.argtypes = (ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_int)
    asked = refused = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(parent, name)
            if not os.path.isfile(path):
                continue
            try:
                descriptor = os.open(path, os.O_RDONLY)
            except OSError as error:
                if error.errno == errno.ENOENT:  # a server has just removed it
                    continue
                if error.errno != errno.EACCES:
                    raise
                refused += 1
                continue
            try:
                os.fsync(descriptor)  # pages that are not on disk yet cannot be dropped
                advise(descriptor, 0, 0, DONTNEED)
            finally:
                os.close(descriptor)
            asked += 1
    return asked, refused


def slices_of(latencies):
    """Return the number of reads that ended in each second of the measured time."""
    slices, at = [], 0.0
    for each in latencies:
        at += each
        slices.extend([0] * (int(at) + 1 - len(slices)))
        slices[int(at)] += 1
    return slices


def read(connection, objects, seconds, folder):
    """Read all of them once in each pass; return a dict for JSON."""
    cache = client_cache_of(base_of(connection._storage))
    clock, asked, refused = Clock(seconds, MOST, lambda: False), 0, 0
    while not clock.is_up():
        random.shuffle(objects)
        transaction.abort()
        connection.cacheMinimize()
        cache.empty()
        asked, refused = drop_pages(folder)
        clock.pass_over(objects, activate)
    measured = max(clock.seconds, 1e-9)
    return {'reads': len(clock.latencies), 'seconds': round(measured, 4),
            'rate': round(len(clock.latencies) / measured, 3), 'passes': clock.passes,
            'latency_ms': latency_ms(clock.latencies), 'slices': slices_of(clock.latencies),
            'cpu_seconds': round(clock.cpu_seconds, 3),
            'dropped_files': asked, 'refused_files': refused}


def activate(each):
    each._p_activate()
    return 1


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('conf')
    parser.add_argument('--fill', action='store_true')
    parser.add_argument('--objects', type=int, default=20000)
    parser.add_argument('--bytes', type=int, default=2000, help='of an object, about')
    parser.add_argument('--seconds', type=float, default=10.0)
    parser.add_argument('--folder', help='of the data, whose pages are dropped')
    options = parser.parse_args(arguments)
    caller = Caller()
    with contextlib.closing(opened(options.conf, CACHED)) as db:
        with contextlib.closing(db.open()) as connection:
            root = connection.root()
            if options.fill:
                if len(root.get(NAME, ())) != options.objects:
                    make(root, NAME, options.objects, options.bytes)
                caller.answer({'objects': len(root[NAME])})
            else:
                caller.answer(read(connection, list(root[NAME]), options.seconds,
                                   options.folder))
            transaction.abort()


if __name__ == '__main__':
    main()
