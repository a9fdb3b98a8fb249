"""Read and write objects of a storage for some time, without Indico.

    python -m indico_zodbrepl.dataplane.benchmarks.raw ZODB_CONF TEST ...

TEST is

prepare     makes the shares, which are lists of objects; each process has one of its own
throughput  commits as often as possible in some seconds
latency     commits a given number of times
read        reads all objects of the share, again and again for some seconds

`prepare` answers at once, the others say "ready" and wait for a line first.  The answer is a JSON
object in the last line, with the attributes of `Measured`.
"""
from __future__ import absolute_import

import argparse
import collections
import itertools
import os
import random
import resource
import time

import transaction
from persistent.list import PersistentList
from ZODB.POSException import ConflictError

from indico_zodbrepl.dataplane.benchmarks.counting import counted
from indico_zodbrepl.dataplane.benchmarks.measuring import Caches
from indico_zodbrepl.dataplane.benchmarks.programs import Caller, opened
from indico_zodbrepl.dataplane.benchmarks.raw_records import Record

KEY = 'zodbrepl-bench-raw'
SHARE = 500  # objects
ATTEMPTS = 100  # of a transaction
FILLERS = 256  # different contents
FILL_SECONDS = 100.0  # until all objects are in the caches, at most
PATIENCE = 5.0  # factor: total time of reading / seconds to measure
LEAST_PATIENCE = 10.0  # seconds


def main(arguments=None):
    options = _parser().parse_args(arguments)
    caller = Caller()
    db = opened(options.configuration, 2 * SHARE)
    try:
        connection = db.open()
        if options.test == 'prepare' or options.prepare:
            prepare(connection.root(), options.shares, options.object_bytes)
        if options.test == 'prepare':
            caller.answer({'shares': options.shares})
            return
        share = connection.root()[KEY][options.share]
        with counted(connection) as (counting, cache):
            if options.test == 'read':
                objects = list(share)
                random.Random(options.share).shuffle(objects)
                caches = Caches(options.caches, connection, counting, cache)
                objects = caches.fill(objects, touch, FILL_SECONDS, lambda: False)
                caller.wait()
                found = read(objects, options.seconds, options.caches, caches, counting, cache)
            else:
                objects = list(share)
                for each in objects:
                    touch(each)  # a transaction has read what it changes
                fillers = [filler(options.object_bytes) for _ in range(FILLERS)]
                caller.wait()
                by_count = options.test == 'latency'
                found = write(
                    objects, options.objects, fillers, counting,
                    seconds=None if by_count else options.seconds,
                    most=options.repetitions if by_count else None)
        caller.answer(found.as_dict())
    finally:
        transaction.abort()
        db.close()


def prepare(root, shares, size):
    """Create the shares, replacing existing ones.

    Args:
        root: of a connection of this thread.
        size: bytes of content of each object.
    """
    root[KEY] = PersistentList(
        PersistentList(Record(filler(size)) for _ in range(SHARE)) for _ in range(shares))
    transaction.commit()


def filler(size):
    """Return a text of that many bytes that no compression shrinks to less than half."""
    return os.urandom((size + 1) // 2).encode('hex')[:size]


def touch(record):
    return len(record.content)


def write(objects, together, fillers, counting, seconds, most):
    """Change `together` objects in each transaction, the next ones each time.

    Args:
        fillers: new contents, used in turn.
        seconds: duration; None to stop after `most` commits.

    Returns a `Measured`.
    """
    measured = Measured()
    objects, fillers = itertools.cycle(objects), itertools.cycle(fillers)
    counting.reset()
    with measured.timed():
        begun = at = time.time()
        while at - begun < seconds if most is None else measured.operations < most:
            changed = [next(objects) for _ in range(together)]
            measured.conflicts += committed(changed, fillers)
            before, at = at, time.time()
            measured.count(at - before)
    measured.loads, measured.stored_bytes = counting.loads, counting.stored_bytes
    return measured


def committed(objects, fillers):
    """Commit a change of all objects; return the number of conflicts.

    Raises the last ConflictError if there are too many.
    """
    for conflicts in itertools.count():
        transaction.begin()
        try:
            for each in objects:
                each.content = next(fillers)
            transaction.commit()
            return conflicts
        except ConflictError:
            transaction.abort()
            if conflicts + 1 >= ATTEMPTS:
                raise


def read(objects, seconds, state, caches, counting, cache):
    """Read all objects in passes; preparing the caches is not measured.

    Args:
        caches: a `Caches` for `state`, filled.
        counting, cache: what `counted` yields.

    Returns a `Measured`.
    """
    measured = Measured()
    deadline = time.time() + max(PATIENCE * seconds, LEAST_PATIENCE)
    while measured.seconds < seconds and time.time() < deadline:
        caches.prepare()
        caches.reset_counts()
        if state == 'hot':
            _read_hot(objects, seconds, measured)
        else:
            _read_once(objects, seconds, measured)
        measured.loads += counting.loads
        measured.misses += counting.loads if cache.misses is None else cache.misses
    return measured


def _read_once(objects, seconds, measured):
    with measured.timed():
        end = time.time() + seconds - measured.seconds
        at = time.time()
        for each in objects:
            touch(each)
            before, at = at, time.time()
            measured.count(at - before)
            if at >= end:
                break


def _read_hot(objects, seconds, measured):
    """Read cached objects, without latencies: a read is as fast as reading the clock."""
    with measured.timed():
        end = time.time() + seconds
        while time.time() < end:
            for each in objects:
                touch(each)
            measured.operations += len(objects)


def _parser():
    parser = argparse.ArgumentParser(prog='raw')
    parser.add_argument('configuration')
    parser.add_argument('test', choices=('prepare', 'throughput', 'latency', 'read'))
    parser.add_argument('--prepare', action='store_true', help='first, in this process')
    parser.add_argument('--shares', type=int, default=1)
    parser.add_argument('--share', type=int, default=0, help='number of the one that is used')
    parser.add_argument('--objects', type=int, default=1, help='in a transaction')
    parser.add_argument('--object-bytes', type=int, default=300)
    parser.add_argument('--seconds', type=float, default=1.0)
    parser.add_argument('--repetitions', type=int, default=100)
    parser.add_argument('--caches', choices=('cold', 'warm', 'hot'), default='cold')
    return parser


TICKS = 1e7  # ticks in a second; latencies are counted in ticks


class Measured(object):
    """The result of one process.

    Attributes:
        operations: commits, or objects read.
        seconds, cpu_seconds: CPU time of all threads of this process.
        conflicts: number of repeated commits.
        stored_bytes: of all records passed to the storage.
        loads: records that were not in the connection's cache.
        misses: those of them that were not in the client's cache either.
        latencies: number of operations by tenths of a microsecond; not of hot reads.
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


if __name__ == '__main__':
    main()
