"""Run tests of zodbshootout 0.8.0 on a storage; Python 2.7.

usage: shootout.py CONF populate OBJECTS CONCURRENCY
       shootout.py CONF TEST OBJECTS CONCURRENCY WAY SECONDS

CONF has sections `<zodb NAME>`, as zodbshootout requires; without one, its own in-memory storage
is measured.  `populate` makes what the tests of so many workers read and update, unless it is
there.  TEST is one of TESTS; WAY is `processes`, or `threads` that share a database.  SECONDS is
the approximate measured time.

Data, workers and tests are zodbshootout's.  What it leaves to pyperf, a process of its own and
repetitions, is made by the control plane and by `measured`: zodbshootout repeats each test ten to
a hundred times for one value, and for 10,000 objects that takes hours.

Prints as the last line a JSON object: `transaction_seconds` of the slowest worker, the mean of its
`repetitions`; `seconds` that were measured, `whole_seconds` with what lies between, `versions`.
"""
from __future__ import absolute_import, division

import argparse
import os
import sys
import time

from zodbshootout._dbsupport import BenchmarkDBFactory, MappingFactory, get_databases_from_conf_file
from zodbshootout._runner import _create_speedtest
from zodbshootout.speedtest import SpeedTestData

from indico_zodbrepl.dataplane.benchmarks.programs import Caller

TESTS = {
    'add': 'bench_add',
    'update': 'bench_update',
    'warm': 'bench_read_after_write',
    'cold': 'bench_cold_read',
    'hot': 'bench_hot_read',
    'steamin': 'bench_steamin_read',
}
# With one worker, zodbshootout keeps the database open between repetitions and cannot empty the
# caches of all storages.  So only the first repetition measures what these tests are for.
ANEW = ('warm', 'cold')
# Its first repetition loads what later ones find in the connection's cache.
LOADS_FIRST = 'update'
LEAST = 10  # repetitions of it: zodbshootout's least
BYTES = 300  # approximate bytes of an object: zodbshootout's default
MOST = 1000000  # repetitions


def main(arguments):
    caller = Caller()
    conf, test, objects, concurrency = arguments[:4]
    objects, concurrency = int(objects), int(concurrency)
    data = SpeedTestData(concurrency, objects, BYTES)
    with open(conf) as opened:
        found = get_databases_from_conf_file(opened)
    factory = BenchmarkDBFactory(
        found[0] if found else MappingFactory(concurrency, data), objects, concurrency)
    if test == 'populate':
        data.populate(factory, include_data=True)
        caller.answer({})
    else:
        way, seconds = arguments[4], float(arguments[5])
        tests = _create_speedtest(argparse.Namespace(
            concurrency=concurrency, objects_per_txn=objects, gevent=False, leaks=False,
            profile_dir='', threads='shared' if way == 'threads' else False), data)
        caller.answer(measured(tests, test, factory, concurrency, seconds))
    # Some storages' threads outlive them.
    os._exit(0)


def measured(tests, test, factory, concurrency, seconds):
    """Repeat a test for about this many seconds; the first repetition is a warm-up.

    It counts only if it is the last.  Tests that load first are repeated at least ten times.

    Args:
        tests: zodbshootout's benchmarks for this number of workers.
        test: one of TESTS.
        factory: opens the database.

    Returns: what is printed, without versions.
    """
    function = getattr(tests, TESTS[test])

    def repeat(times):
        # The test of writing and reading has no loops of the inner kind.
        tests.inner_loops = times if function.inner_loops else 1
        return function(1 if function.inner_loops else times, factory)

    began = time.time()
    taken, repetitions = repeat(1), 1
    least = LEAST if test == LOADS_FIRST else 1
    if taken < seconds or least > 1:
        repetitions = max(least, min(MOST, int(seconds / max(taken, 1e-6))))
        began = time.time()
        if concurrency == 1 and test in ANEW:
            taken, repetitions = _anew(repeat, repetitions, began + 2 * seconds)
        else:
            taken = repeat(repetitions)
    return {'transaction_seconds': taken / repetitions, 'repetitions': repetitions,
            'seconds': taken, 'whole_seconds': time.time() - began}


def _anew(repeat, most, deadline):
    """Open the database for each repetition; return seconds, and the number of repetitions."""
    taken = 0.0
    for number in range(1, most + 1):
        taken += repeat(1)
        if time.time() >= deadline:
            break
    return taken, number


if __name__ == '__main__':
    main(sys.argv[1:])
