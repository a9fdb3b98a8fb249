"""Measures the ways to load an Indico beside each other: `make load-figures`.

    parts/python27/bin/python tests/bulkloader/figures.py [--quick] [--rounds N] [--sizes N...]

All ways make the same empty conferences, each in a process and a Data.fs of its own. They take
turns, so that what else the machine does hits them alike; of several rounds the median is told. The
naive way with most conferences takes longer than all others, and is measured once. What was
measured is printed, and kept as JSON in var/figures/, also when it is interrupted.
"""
from __future__ import print_function

import argparse
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from collections import namedtuple

import py

from figure_tables import Figures, Measured, time_left
from homes import FILE_STORAGE, LIMITED_FILE_STORAGE, ROOT, SCRIPTS, Home, Result

# options: of bulkload. storage: text of zodb.conf. rate: about how many conferences a second, by
# which the time left is told.
Way = namedtuple('Way', 'name options storage rate')
NAIVE = Way('naive', '--method model --batch 1', FILE_STORAGE, 18.0)
WAYS = (
    NAIVE,
    Way('model', '--method model', FILE_STORAGE, 60.0),
    Way('store', '--method bulk', LIMITED_FILE_STORAGE, 300.0),
    Way('file', '--method bulk', FILE_STORAGE, 1000.0),
)
SIZES, QUICK_SIZES = (500, 2000, 8000), (50, 200)
START = 2.5              # seconds that a process takes before it begins
LONGEST = 4 * 3600.0     # seconds that a measurement may take


def works(ways, sizes, rounds):
    """Returns what is measured, in its order: (round, size, way)."""
    return [(number, size, way) for number in range(rounds) for size in sizes
            for way in turned(ways, number)
            if not (number and way is NAIVE and size == max(sizes))]


def turned(ways, number):
    """The ways in the order of a round, each of which begins with another one."""
    first = number % len(ways)
    return ways[first:] + ways[:first]


def expected(size, way):
    """About how many seconds a measurement takes."""
    return START + size / way.rate


class Bench(object):
    """Measures one way after the other, each on a copy of an Indico without events.

    Args:
        folder: py.path.local for all that is made.
    """

    def __init__(self, folder):
        self._folder = folder
        self._empty = Home(folder.join('empty'))
        self._empty.first_run()
        self.home = self._empty

    def measure(self, size, way):
        """Returns a `Measured`; AssertionError with the output when the loader fails."""
        self.home = Home(self._folder.join('measured'), way.storage)
        try:
            self._empty.data.copy(self.home.data)
            before = self.home.data.size()
            process = self.home.start(SCRIPTS.join('measured.py'), '--conferences', size,
                                      '--contributions', 0, *way.options.split())
            process.wait(LONGEST)
            result = Result(process)
            assert 0 == result.code, result.text
            grown = self.home.data.size() - before
            return Measured(size / result.json['seconds'], float(grown) / size,
                            result.json['peak_kib'] / 1024.0, result.json['cpu_seconds'] / size)
        finally:
            self.home.close()
            shutil.rmtree(str(self.home.folder))


def run(options, figures, out):
    folder = py.path.local(tempfile.mkdtemp(prefix='zodbrepl-load-figures-'))
    try:
        bench = Bench(folder)
        planned = works(options.ways, options.sizes, options.rounds)
        guessed = [expected(size, way) for _, size, way in planned]
        began = time.time()
        for done, (number, size, way) in enumerate(planned):
            print('round %d of %d: %d conferences, %s%s' % (
                number + 1, options.rounds, size, way.name,
                time_left(guessed[:done], guessed[done:], time.time() - began)), file=out)
            out.flush()
            figures.keep(way.name, size, bench.measure(size, way))
    finally:
        shutil.rmtree(str(folder))


def read_options(argv):
    parser = argparse.ArgumentParser(description=__doc__.partition('\n')[0])
    parser.add_argument('--quick', action='store_true', help='%s conferences only' % (
        ' and '.join('%d' % size for size in QUICK_SIZES)))
    parser.add_argument('--sizes', type=int, nargs='+', metavar='N')
    parser.add_argument('--rounds', type=int, default=1)
    names = [way.name for way in WAYS]
    parser.add_argument('--ways', nargs='+', choices=names, metavar='WAY', default=names,
                        help='of %s' % ', '.join(names))
    options = parser.parse_args(argv)
    options.sizes = options.sizes or (QUICK_SIZES if options.quick else SIZES)
    options.ways = tuple(way for way in WAYS if way.name in options.ways)
    return options


def main(argv, out=sys.stdout):
    """Measures and tells; returns the exit code."""
    options = read_options(argv)
    figures = Figures([way.name for way in WAYS])
    load = [os.getloadavg()[0]]
    for each in signal.SIGINT, signal.SIGTERM:       # SIGINT is ignored in the background
        signal.signal(each, signal.default_int_handler)
    code = 0
    try:
        run(options, figures, out)
    except KeyboardInterrupt:
        print('interrupted; what was measured so far:', file=out)
        code = 130
    except AssertionError as error:
        print('the loader failed:\n%s\nwhat was measured so far:' % error, file=out)
        code = 1
    load.append(os.getloadavg()[0])
    if not figures.as_list():
        return code
    print(figures.table(), file=out)
    keep(figures, {'processors': os.sysconf('SC_NPROCESSORS_ONLN'), 'load': load}, out)
    return code


def keep(figures, machine, out):
    folder = py.path.local(os.environ.get('ZODBREPL_HOME', str(ROOT))).join('var', 'figures')
    path = folder.ensure(dir=True).join(time.strftime('loading-%Y%m%dT%H%M%SZ.json', time.gmtime()))
    path.write(json.dumps(dict(machine, measured=figures.as_list()), indent=1, sort_keys=True))
    print('load of the machine %.1f before, %.1f after; kept in %s' % (
        tuple(machine['load']) + (path,)), file=out)


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
